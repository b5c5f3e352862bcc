// Checks options where they enter the package: a misspelt key is refused with the nearest valid one, an invalid value
// with what was expected.

import { OptionError } from "./errors.js";
import { nearestNames } from "./nearest.js";

const MAX_SHOWN_CHARACTERS = 200;

/** Throws OPTION_UNKNOWN for a key that is not in `known`, with the nearest one. */
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

/** The options without keys whose value is undefined. */
export function definedOptions<Options extends object>(
  options: Options,
): { [Name in keyof Options]?: Exclude<Options[Name], undefined> } {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as never;
}

/** Throws OPTION_VALUE with what was expected and what was found. */
export function refuseValue(where: string, option: string, expected: string, found: unknown): never {
  const shown = describeValue(found);
  throw new OptionError("OPTION_VALUE", `[${where}] ${option}: expected ${expected}, found ${shown}`, {
    details: { option, expected, found: shown },
  });
}

/**
 * An option in a message, as callers of the library write it: `contextTokens: 2048`. Callers that use other names for
 * options find them by these quotation marks and replace them, as src/cli/option-words.ts does.
 */
export function optionText(name: string, value?: string | number): string {
  return value === undefined ? `\`${name}\`` : `\`${name}: ${JSON.stringify(value)}\``;
}

/** Describes any value without throwing: some objects cannot be converted to text. */
function describeValue(value: unknown): string {
  if (typeof value === "string")
    return value.length > MAX_SHOWN_CHARACTERS ? `${value.slice(0, MAX_SHOWN_CHARACTERS)}…` : value;
  if (typeof value === "object" && value !== null) return Array.isArray(value) ? "a list" : "an object";
  return String(value);
}

/** Checks that an option is a boolean; undefined if it was not given. */
export function optionalFlag(where: string, option: string, value: unknown): boolean | undefined {
  if (value === undefined || typeof value === "boolean") return value;
  return refuseValue(where, option, "true or false", value);
}

/** Checks that an option is an AbortSignal; undefined if it was not given. */
export function optionalSignal(where: string, option: string, value: unknown): AbortSignal | undefined {
  if (value === undefined || value instanceof AbortSignal) return value;
  return refuseValue(where, option, "an AbortSignal", value);
}

/** Checks that an option is a string or a list of non-empty strings, and returns a list. */
export function textList(where: string, option: string, value: unknown): readonly string[] {
  if (Array.isArray(value) && value.every((text) => typeof text === "string" && text !== "")) return value;
  return refuseValue(where, option, "a string, or a list of non-empty strings", value);
}

/** Checks that an option is a whole number in a range; undefined if it was not given. */
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
