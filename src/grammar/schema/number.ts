// Numbers of a schema: bounds and divisors together, except the numbers that it excludes.

import { combinedDfa, type Dfa } from "../automaton/dfa.js";
import {
  automaton,
  choice,
  type Expression,
  NOTHING,
  optional,
  repeat,
  sequence,
  set,
  text,
  DIGIT,
} from "../expression.js";
import { CharSet } from "../char-set.js";
import type { JsonRules } from "./json-rules.js";
import { fewDigitsDfa, multiplesDfa } from "./multiple-of.js";
import type { NumberBounds } from "./number-bounds.js";
import { decimalRange, integerRange, wholeDecimalRange } from "./number-range.js";
import { dfaOf } from "./string-language.js";

/** Everything that a schema requires of a number. */
export interface NumberDemands {
  readonly whole: boolean;
  readonly bounds: NumberBounds;
  readonly divisors: readonly number[];
  /** Only these values, if there is a list. */
  readonly listed?: readonly number[] | undefined;
  /** Values that are excluded. */
  readonly excluded?: readonly NumberDemands[] | undefined;
}

/** The JSON numbers that meet all demands; equal demands share one rule. */
export function numberExpression(json: JsonRules, demands: NumberDemands, place: string): Expression {
  const { whole, bounds, divisors, excluded = [] } = demands;
  const unbounded = bounds.min === undefined && bounds.max === undefined;
  const needed = divisors.filter((divisor) => !(whole && divisor === 1));
  if (needed.length === 0 && excluded.length === 0 && unbounded) return whole ? json.integer : json.number;
  const key = JSON.stringify(demands);
  return json.once("number", key, () => {
    json.budget.step(place, key.length);
    const range = rangeOf(demands);
    if (needed.length === 0 && excluded.length === 0) return range;
    if (range === NOTHING) return NOTHING;
    let dfa = dfaOf(range, place);
    // With more digits, a text and its 64-bit number may be on different sides of a bound.
    if (excluded.length > 0) dfa = combinedDfa(dfa, fewDigitsDfa(place), "both", place);
    for (const divisor of needed) dfa = combinedDfa(dfa, multiplesDfa(divisor, place), "both", place);
    for (const other of excluded) dfa = combinedDfa(dfa, numberDfa(other, place), "first only", place);
    return automaton(dfa);
  });
}

/** Numbers without exponent in every spelling: trailing zeros of a fraction, a minus before zero. */
function numberDfa({ whole, bounds, divisors, listed }: NumberDemands, place: string): Dfa {
  const parts: Dfa[] = [
    dfaOf(
      bounds.min === undefined && bounds.max === undefined
        ? rangeOf({ whole: false, bounds, divisors })
        : wholeDecimalRange(bounds),
      place,
    ),
  ];
  if (whole) parts.push(dfaOf(sequence(rangeOf({ whole, bounds: NO_BOUNDS, divisors }), ZEROS), place));
  for (const divisor of divisors) parts.push(multiplesDfa(divisor, place));
  if (listed !== undefined) parts.push(dfaOf(choice(...listed.map(spellings)), place));
  return parts.reduce((one, other) => combinedDfa(one, other, "both", place));
}

const NO_BOUNDS: NumberBounds = { min: undefined, max: undefined };
const ZEROS = optional(sequence(text("."), repeat(text("0"), 1, Infinity)));

function spellings(value: number): Expression {
  const [integral = "", after = ""] = plainDigits(value).split(".");
  const fraction = after === "" ? ZEROS : sequence(text(`.${after}`), repeat(text("0"), 0, Infinity));
  return sequence(value === 0 ? optional(text("-")) : text(""), text(integral), fraction);
}

/** The digits of a number, without exponent. */
function plainDigits(value: number): string {
  const shown = String(value);
  if (!shown.includes("e")) return shown;
  const [mantissa = "", exponent = "0"] = shown.replace("-", "").split("e");
  const [whole = "", after = ""] = mantissa.split(".");
  const point = whole.length + Number(exponent);
  const all = whole + after;
  const digits =
    point <= 0
      ? `0.${"0".repeat(-point)}${all}`
      : point >= all.length
        ? all.padEnd(point, "0")
        : `${all.slice(0, point)}.${all.slice(point)}`;
  return value < 0 ? `-${digits}` : digits;
}

function rangeOf({ whole, bounds }: NumberDemands): Expression {
  if (bounds.min !== undefined || bounds.max !== undefined) return whole ? integerRange(bounds) : decimalRange(bounds);
  const digits = choice(text("0"), sequence(set(CharSet.of([0x31, 0x39])), repeat(DIGIT, 0, Infinity)));
  const signed = sequence(optional(text("-")), digits);
  return whole ? signed : sequence(signed, optional(sequence(text("."), repeat(DIGIT, 1, Infinity))));
}
