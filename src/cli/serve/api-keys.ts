// The API keys that clients need, from a file (one per line, # begins a comment) and from the environment. Invariants:
// a key is never printed; an empty file or variable is an error, instead of serving everyone without a key.

import { refuseValue } from "../../options.js";
import { wrongValue } from "../option-table.js";
import { readText } from "../text-input.js";

/** The environment variable with API keys. */
export const API_KEYS_VARIABLE = "ROCMFORGE_API_KEYS";

/** The API keys of the file and of the environment. */
export async function readApiKeys(
  command: string,
  path: string | undefined,
  environment: NodeJS.ProcessEnv,
): Promise<readonly string[]> {
  const keys = environmentKeys(command, environment[API_KEYS_VARIABLE]);
  if (path === undefined) return keys;
  const lines = (await readText(path)).split(/\r?\n/);
  const inFile = lines.map((line) => line.trim()).filter((line) => line !== "" && !line.startsWith("#"));
  if (inFile.length === 0) throw wrongValue(command, "api-key-file", "a file with one key per line", `none in ${path}`);
  return [...new Set([...keys, ...inFile])];
}

/** A variable that is set but empty is a secret that did not arrive. */
function environmentKeys(command: string, text: string | undefined): readonly string[] {
  if (text === undefined) return [];
  const keys = text.split(/[\s,]+/).filter((word) => word !== "");
  return keys.length > 0
    ? keys
    : refuseValue(command, API_KEYS_VARIABLE, "keys separated by commas or spaces, or an unset variable", "none");
}
