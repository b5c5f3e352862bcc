// Which panel beside the conversation is open, and which dialog.

import { signal } from "@preact/signals";

/** A panel beside the conversation. */
export type Panel = "settings" | "engine" | "residency";

export const panel = signal<Panel | undefined>(undefined);
export const isHelpOpen = signal(false);
export const isKeyDialogOpen = signal(false);
/** A short message at the bottom of the page. */
export const notice = signal<string | undefined>(undefined);

const NOTICE_MS = 4000;
let timer: ReturnType<typeof setTimeout> | undefined;

export function togglePanel(wanted: Panel): void {
  panel.value = panel.value === wanted ? undefined : wanted;
}

export function notify(text: string): void {
  notice.value = text;
  clearTimeout(timer);
  timer = setTimeout(() => (notice.value = undefined), NOTICE_MS);
}
