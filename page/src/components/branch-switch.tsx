// Steps through the alternatives of a message.

import type { BranchPosition } from "../chat/message-tree";
import { showBranch } from "../state/conversations";
import { IconButton } from "./icon-button";

export function BranchSwitch({ index, siblings }: BranchPosition) {
  if (siblings.length < 2) return null;
  const show = (at: number): void => {
    const sibling = siblings[at];
    if (sibling !== undefined) void showBranch(sibling);
  };
  return (
    <span class="branch-switch">
      <IconButton
        icon="left"
        label="Previous version"
        size={15}
        isDisabled={index === 0}
        onClick={() => show(index - 1)}
      />
      <span aria-label={`Version ${index + 1} of ${siblings.length}`}>
        {index + 1}/{siblings.length}
      </span>
      <IconButton
        icon="right"
        label="Next version"
        size={15}
        isDisabled={index === siblings.length - 1}
        onClick={() => show(index + 1)}
      />
    </span>
  );
}
