// Options as tables: one entry for each key of an options type checks its value. The compiler refuses a table that
// lacks a key or has one too many, so the names that are accepted cannot drift from the type.

import { optionalCount, optionalFlag, optionalSignal, refuseUnknownKeys, refuseValue } from "../options.js";

/** Throws OPTION_VALUE if the value of the option cannot be used; undefined always can. */
export type OptionCheck = (where: string, option: string, value: unknown) => void;

/** A check for every option, whether it may be left out or not. */
export type OptionChecks<Options> = { readonly [Name in keyof Required<Options>]: OptionCheck };

/** Refuses a misspelt option with the nearest one, and an impossible value with what would do. */
export function checkOptions<Options extends object>(
  where: string,
  options: Options,
  checks: OptionChecks<Options>,
): void {
  refuseUnknownKeys(where, options, Object.keys(checks));
  for (const name of Object.keys(checks) as (keyof Options & string)[]) checks[name](where, name, options[name]);
}

export const flag: OptionCheck = optionalFlag;
export const signal: OptionCheck = optionalSignal;

/** Left to those who use the value. */
export const unchecked: OptionCheck = () => {};

export function count(from: number, to: number): OptionCheck {
  return (where, option, value) => optionalCount(where, option, value, from, to);
}

export const optionalText: OptionCheck = (where, option, value) => {
  if (value !== undefined && typeof value !== "string") refuseValue(where, option, "text", value);
};

export const callback: OptionCheck = (where, option, value) => {
  if (value !== undefined && typeof value !== "function") refuseValue(where, option, "a function", value);
};

export function oneOf(choices: readonly string[]): OptionCheck {
  return (where, option, value) => {
    if (value !== undefined && !choices.includes(value as string))
      refuseValue(where, option, `one of ${choices.join(", ")}`, value);
  };
}
