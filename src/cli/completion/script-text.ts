// How a completion script names what an argument may be.

import type { ArgumentCompletion } from "./completion-tree.js";

/** What an argument may be, in one word or list of words: `files`, `values:auto cpu`. */
export function valueKey(completion: ArgumentCompletion): string {
  return completion.kind === "values" ? `values:${completion.values.join(" ")}` : completion.kind;
}
