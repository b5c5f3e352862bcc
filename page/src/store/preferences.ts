// Choices that outlive a visit: theme, chosen model, presets. Small enough for localStorage; what cannot be read is
// replaced by defaults.

import { effect, signal } from "@preact/signals";
import { type ChatSettings, DEFAULT_SETTINGS } from "../chat/message";

/** Colours: those of the system, or chosen. */
export type Theme = "system" | "light" | "dark";

/** Named settings. */
export interface Preset {
  readonly name: string;
  readonly settings: ChatSettings;
}

function stored<Value>(name: string, fallback: Value, isValid: (value: unknown) => boolean) {
  const item = `rocmforge.${name}`;
  const state = signal(read(item, fallback, isValid));
  effect(() => localStorage.setItem(item, JSON.stringify(state.value)));
  return state;
}

function read<Value>(item: string, fallback: Value, isValid: (value: unknown) => boolean): Value {
  try {
    const value: unknown = JSON.parse(localStorage.getItem(item) ?? "null");
    return value !== null && isValid(value) ? (value as Value) : fallback;
  } catch {
    return fallback;
  }
}

export const theme = stored<Theme>("theme", "system", (value) => ["system", "light", "dark"].includes(String(value)));
/** The model that new questions go to; empty before one is chosen. */
export const chosenModel = stored("model", "", (value) => typeof value === "string");
export const isSidebarOpen = stored("sidebar", true, (value) => typeof value === "boolean");
export const presets = stored<readonly Preset[]>("presets", defaultPresets(), (value) => Array.isArray(value));
/** The settings of the next new conversation. */
export const newChatSettings = stored<ChatSettings>(
  "settings",
  DEFAULT_SETTINGS,
  (value) => typeof value === "object" && "systemPrompt" in (value as object),
);

function defaultPresets(): readonly Preset[] {
  return [
    { name: "Balanced", settings: DEFAULT_SETTINGS },
    { name: "Precise", settings: { ...DEFAULT_SETTINGS, temperature: 0 } },
    { name: "Creative", settings: { ...DEFAULT_SETTINGS, temperature: 1.1, minP: 0.05 } },
    {
      name: "Code reviewer",
      settings: {
        ...DEFAULT_SETTINGS,
        temperature: 0.3,
        systemPrompt: "You review code. Point out bugs first, then unclear names, then style. Be brief.",
      },
    },
  ];
}

const darkQuery = matchMedia("(prefers-color-scheme: dark)");
const isSystemDark = signal(darkQuery.matches);
darkQuery.addEventListener("change", ({ matches }) => (isSystemDark.value = matches));

effect(() => {
  const isDark = theme.value === "dark" || (theme.value === "system" && isSystemDark.value);
  document.documentElement.dataset["theme"] = isDark ? "dark" : "light";
});
