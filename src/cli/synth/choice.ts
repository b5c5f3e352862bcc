// Matches a name that a user typed against a list, ignoring case.

import { didYouMean } from "../../nearest.js";
import { wrongValue } from "../option-table.js";

/** The choice with this name, ignoring case; throws with the valid names otherwise. */
export function chooseName<Choice extends string>(
  command: string,
  option: string,
  choices: readonly Choice[],
  text: string | undefined,
): Choice {
  const found = choices.find((choice) => choice.toLowerCase() === text?.toLowerCase());
  if (found !== undefined) return found;
  if (text === undefined) throw wrongValue(command, option, `one of ${choices.join(", ")}`, "nothing");
  const guess = didYouMean(text, choices, (name) => name);
  throw wrongValue(command, option, `one of ${choices.join(", ")}`, `"${text}"${guess === "" ? "" : `;${guess}`}`);
}
