// A bar of coloured parts of a whole, with its numbers for screen readers.

interface BarProps {
  readonly label: string;
  readonly parts: readonly { readonly name: string; readonly value: number; readonly class: string }[];
  readonly total: number;
}

export function Bar({ label, parts, total }: BarProps) {
  const text = parts.map(({ name, value }) => `${name} ${value}`).join(", ");
  return (
    <div class="bar" role="img" aria-label={`${label}: ${text}, of ${total}`}>
      {parts.map(({ name, value, class: own }) => (
        <span key={name} class={own} style={{ width: `${(100 * value) / total}%` }} />
      ))}
    </div>
  );
}
