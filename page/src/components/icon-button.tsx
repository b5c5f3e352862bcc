// A button that shows an icon; its label is read by screen readers and shown as a tooltip.

import { Icon, type IconName } from "./icons";

interface IconButtonProps {
  readonly icon: IconName;
  readonly label: string;
  readonly onClick: () => void;
  readonly isPressed?: boolean;
  readonly isDisabled?: boolean;
  readonly size?: number;
  readonly class?: string;
}

/** A button with an icon. */
export function IconButton({
  icon,
  label,
  onClick,
  isPressed,
  isDisabled = false,
  size,
  class: own = "",
}: IconButtonProps) {
  return (
    <button
      type="button"
      class={`icon-button ${own}`}
      aria-label={label}
      title={label}
      aria-pressed={isPressed}
      disabled={isDisabled}
      onClick={onClick}
    >
      <Icon name={icon} {...(size === undefined ? {} : { size })} />
    </button>
  );
}
