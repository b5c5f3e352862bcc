// The keys that clients need, from a file (one in each line, # begins a remark) and from the environment. Invariants: a
// key is never shown; whoever names a file and gets no key from it is told, instead of serving everybody.

import { readText } from "../text-input.js";
import { wrongValue } from "../option-table.js";

export const API_KEYS_VARIABLE = "ROCMFORGE_API_KEYS";

export async function readApiKeys(command: string, path: string | undefined, environment: NodeJS.ProcessEnv): Promise<readonly string[]> {
  const keys = wordsOf(environment[API_KEYS_VARIABLE] ?? "");
  if (path === undefined) return keys;
  const lines = (await readText(path)).split(/\r?\n/);
  const inFile = lines.map((line) => line.trim()).filter((line) => line !== "" && !line.startsWith("#"));
  if (inFile.length === 0) throw wrongValue(command, "api-key-file", "a file with a key in each line", `none in ${path}`);
  return [...new Set([...keys, ...inFile])];
}

function wordsOf(text: string): readonly string[] {
  return text.split(/[\s,]+/).filter((word) => word !== "");
}
