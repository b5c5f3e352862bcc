// What `rocmforge launch --print` shows: lines for a shell. Invariant: an API key is never printed.

import { shellWord } from "../shell-quotes.js";
import type { ClientSettings, LaunchableClient } from "./client-table.js";

/** Stands for the API key. */
const KEY_WORD = "KEY";

/** The settings of a client as shell commands. */
export function settingsText(
  { program }: Pick<LaunchableClient, "program">,
  { environment, args }: ClientSettings,
  apiKey: string | undefined,
): string {
  const shown = (text: string): string => shellWord(apiKey === undefined ? text : text.replaceAll(apiKey, KEY_WORD));
  const variables = Object.entries(environment).map(([name, value]) =>
    value === undefined ? `unset ${name}` : `export ${name}=${shown(value)}`,
  );
  return `${[...variables, [program, ...args.map(shown)].join(" ")].join("\n")}\n`;
}
