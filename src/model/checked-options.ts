// Options as tables: one entry per key of an options type checks its value. The compiler refuses a table with a missing
// or extra key, so the accepted names always match the type.

import { optionalCount, optionalFlag, optionalSignal, refuseUnknownKeys, refuseValue } from "../options.js";

/** Throws OPTION_VALUE if the option's value is invalid; undefined is always valid. */
export type OptionCheck = (where: string, option: string, value: unknown) => void;

/** A check for every option, optional or not. */
export type OptionChecks<Options> = { readonly [Name in keyof Required<Options>]: OptionCheck };

/** Refuses a misspelt option with the nearest valid one, and an invalid value with what was expected. */
export function checkOptions<Options extends object>(
  where: string,
  options: Options,
  checks: OptionChecks<Options>,
): void {
  refuseUnknownKeys(where, options, Object.keys(checks));
  for (const name of Object.keys(checks) as (keyof Options & string)[]) checks[name](where, name, options[name]);
}

/** Checks for a boolean. */
export const flag: OptionCheck = optionalFlag;
/** Checks for an AbortSignal. */
export const signal: OptionCheck = optionalSignal;

/** No check here: the code that uses the value checks it. */
export const unchecked: OptionCheck = () => {};

/** Checks for a whole number in a range. */
export function count(from: number, to: number): OptionCheck {
  return (where, option, value) => optionalCount(where, option, value, from, to);
}

/** Checks for a string. */
export const optionalText: OptionCheck = (where, option, value) => {
  if (value !== undefined && typeof value !== "string") refuseValue(where, option, "text", value);
};

/** Checks for a function. */
export const callback: OptionCheck = (where, option, value) => {
  if (value !== undefined && typeof value !== "function") refuseValue(where, option, "a function", value);
};

/** Checks for one of some strings. */
export function oneOf(choices: readonly string[]): OptionCheck {
  return (where, option, value) => {
    if (value !== undefined && !choices.includes(value as string))
      refuseValue(where, option, `one of ${choices.join(", ")}`, value);
  };
}
