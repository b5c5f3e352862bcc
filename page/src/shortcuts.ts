// Keyboard shortcuts of the whole page. Those of a text field (Enter, Shift+Enter, arrow up) are the composer's.

import { stop, generating } from "./state/answers";
import { currentId, openConversation } from "./state/conversations";
import { isHelpOpen, panel, togglePanel } from "./state/panels";
import { isSidebarOpen } from "./store/preferences";

/** Shortcuts as the help lists them. */
export const SHORTCUTS = [
  { keys: "Enter", what: "Send" },
  { keys: "Shift+Enter", what: "New line" },
  { keys: "↑", what: "Edit the last question (in an empty field)" },
  { keys: "Esc", what: "Stop generating, or close the panel" },
  { keys: "Ctrl+K", what: "Search conversations" },
  { keys: "Ctrl+Shift+O", what: "New chat" },
  { keys: "Ctrl+Shift+E", what: "What the engine is doing" },
  { keys: "Ctrl+Shift+L", what: "What is resident" },
  { keys: "Ctrl+,", what: "Settings" },
  { keys: "Ctrl+/", what: "This list" },
] as const;

const WITH_CONTROL: Readonly<Record<string, () => void>> = {
  k: () => {
    isSidebarOpen.value = true;
    requestAnimationFrame(() => document.querySelector<HTMLInputElement>("#search")?.focus());
  },
  "shift+o": () => openConversation(undefined),
  "shift+e": () => togglePanel("engine"),
  "shift+l": () => togglePanel("residency"),
  ",": () => togglePanel("settings"),
  "/": () => (isHelpOpen.value = !isHelpOpen.value),
};

/** Listens to the keyboard. */
export function startShortcuts(): void {
  addEventListener("keydown", (event) => {
    if (event.isComposing) return;
    if (event.key === "Escape" && document.querySelector("dialog[open]") === null) return escape();
    if (!event.ctrlKey && !event.metaKey) return;
    const action = WITH_CONTROL[(event.shiftKey ? "shift+" : "") + event.key.toLowerCase()];
    if (action === undefined) return;
    event.preventDefault();
    action();
  });
}

function escape(): void {
  if (currentId.value !== undefined && generating.value.has(currentId.value)) stop();
  else panel.value = undefined;
}
