// Options at the border: a misspelt key is refused with the nearest one, an impossible value with what would do.

import { OptionError } from "./errors.js";
import { nearestNames } from "./nearest.js";

const MAX_SHOWN_CHARACTERS = 200;

export function refuseUnknownKeys(where: string, options: object, known: readonly string[]): void {
  if (typeof options !== "object" || options === null) refuseValue(where, "options", "an object", options);
  for (const key of Object.keys(options)) {
    if (known.includes(key)) continue;
    const [nearest] = nearestNames(key, known, 1);
    const advice = nearest === undefined ? `expected one of ${known.join(", ")}` : `did you mean "${nearest}"?`;
    throw new OptionError("OPTION_UNKNOWN", `[${where}] unknown option "${key}"; ${advice}`, {
      details: { option: key, nearest, known },
    });
  }
}

export function refuseValue(where: string, option: string, expected: string, found: unknown): never {
  const shown = describeValue(found);
  throw new OptionError("OPTION_VALUE", `[${where}] ${option}: expected ${expected}, found ${shown}`, {
    details: { option, expected, found: shown },
  });
}

/**
 * An option in a message, as the library's callers write it: `contextTokens: 2048`. Every door that has other names for
 * options finds them by these marks; src/cli/option-words.ts does.
 */
export function optionText(name: string, value?: string | number): string {
  return value === undefined ? `\`${name}\`` : `\`${name}: ${JSON.stringify(value)}\``;
}

/** Whatever a caller passes has to be shown without failing: some objects have no text. */
function describeValue(value: unknown): string {
  if (typeof value === "string")
    return value.length > MAX_SHOWN_CHARACTERS ? `${value.slice(0, MAX_SHOWN_CHARACTERS)}…` : value;
  if (typeof value === "object" && value !== null) return Array.isArray(value) ? "a list" : "an object";
  return String(value);
}

/** True or false, or undefined where it was not given. */
export function optionalFlag(where: string, option: string, value: unknown): boolean | undefined {
  if (value === undefined || typeof value === "boolean") return value;
  return refuseValue(where, option, "true or false", value);
}

export function optionalSignal(where: string, option: string, value: unknown): AbortSignal | undefined {
  if (value === undefined || value instanceof AbortSignal) return value;
  return refuseValue(where, option, "an AbortSignal", value);
}

export function textList(where: string, option: string, value: unknown): readonly string[] {
  if (Array.isArray(value) && value.every((text) => typeof text === "string" && text !== "")) return value;
  return refuseValue(where, option, "text, or a list of texts, none of them empty", value);
}

/** A whole number in a range, or undefined where it was not given. */
export function optionalCount(
  where: string,
  option: string,
  value: unknown,
  min: number,
  max: number,
): number | undefined {
  if (value === undefined) return undefined;
  if (typeof value === "number" && Number.isInteger(value) && value >= min && value <= max) return value;
  return refuseValue(where, option, `a whole number from ${min} to ${max}`, value);
}
