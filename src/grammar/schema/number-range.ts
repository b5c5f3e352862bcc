// Numbers between bounds, as expressions of digits. Bounds are the decimal digits of the schema's numbers, so that a
// generated text, read as a 64-bit number, stays on its side of a bound.

import { choice, type Expression, NOTHING, optional, sequence, text } from "../expression.js";
import { anyDigits, atLeastDigits, atMostDigits, betweenDigits, fraction, naturals } from "./digit-range.js";
import {
  type Bound,
  type Decimal,
  leastWhole,
  mostWhole,
  nextAbove,
  type NumberBounds,
  opposite,
  roundedDown,
  roundedUp,
} from "./number-bounds.js";

/** Digits of a generated number; with more, a text could be rounded to a bound that it may not reach. */
const SIGNIFICANT_DIGITS = 15;
/** From here on, numbers between bounds are integers: a 64-bit number has no further digits. */
const WHOLE_FROM = 1e15;

const negative = (magnitude: Expression): Expression => sequence(text("-"), magnitude);

/** Integers between two bounds. */
export function integerRange({ min, max }: NumberBounds): Expression {
  const low = min === undefined ? -Infinity : leastWhole(min);
  const high = max === undefined ? Infinity : mostWhole(max);
  return choice(
    ...(high >= 0 ? [naturals(Math.max(0, low), high)] : []),
    ...(low < 0 ? [negative(naturals(Math.max(1, -high), -low))] : []),
  );
}

/** All numbers without exponent between two bounds, of which at least one is given, with any number of digits. */
export function wholeDecimalRange({ min, max }: NumberBounds): Expression {
  const zero: Bound = { value: 0, exclusive: false };
  const above =
    max === undefined || max.value >= 0
      ? fractional(min === undefined || min.value < 0 ? zero : min, max, Infinity)
      : NOTHING;
  const below =
    min === undefined || min.value <= 0
      ? negative(
          fractional(
            max === undefined || max.value > 0 ? zero : opposite(max),
            min === undefined ? undefined : opposite(min),
            Infinity,
          ),
        )
      : NOTHING;
  return choice(...[above, below].filter((option) => option !== NOTHING));
}

/** Numbers with or without a fraction between two bounds, of which at least one is given. */
export function decimalRange(bounds: NumberBounds): Expression {
  const min = bounds.min === undefined ? undefined : reachable(bounds.min);
  const max = bounds.max === undefined ? undefined : opposite(reachable(opposite(bounds.max)));
  if (min !== undefined && max !== undefined) {
    if (min.value > max.value || (min.value === max.value && (min.exclusive || max.exclusive))) return NOTHING;
  }
  const options: Expression[] = [];
  const zero: Bound = { value: 0, exclusive: false };
  if (max === undefined || max.value > 0 || (max.value === 0 && !max.exclusive)) {
    options.push(magnitudes(min === undefined || min.value < 0 ? zero : min, max));
  }
  if (min === undefined || min.value < 0) {
    const least = max === undefined || max.value > 0 ? zero : opposite(max);
    options.push(negative(magnitudes(least, min === undefined ? undefined : opposite(min))));
  }
  return choice(...options);
}

/**
 * A bound that can be reached: next to one with all digits of a 64-bit number, a text with one more digit may be read
 * as the bound itself.
 */
function reachable(low: Bound): Bound {
  if (!low.exclusive || significantDigits(low.value) < SIGNIFICANT_DIGITS) return low;
  return { value: nextAbove(low.value), exclusive: false };
}

function significantDigits(value: number): number {
  const [mantissa = ""] = String(Math.abs(value)).split("e");
  return mantissa.replace(".", "").replace(/^0+/, "").length;
}

function magnitudes(low: Bound, high: Bound | undefined): Expression {
  const most = high === undefined ? Infinity : mostWhole(high);
  const last: Bound = { value: WHOLE_FROM - 1, exclusive: false };
  if (low.value > last.value) return naturals(leastWhole(low), most);
  if (high !== undefined && high.value >= WHOLE_FROM) return choice(fractional(low, last), naturals(WHOLE_FROM, most));
  return fractional(low, high);
}

/** Numbers with as many digits after the point as 64-bit numbers have there, or as are allowed. */
function fractional(low: Bound, high: Bound | undefined, digitsBehind?: number): Expression {
  const from = roundedUp(low);
  const to = high === undefined ? undefined : roundedDown(high);
  const room = digitsBehind ?? fractionRoom((to ?? from).whole);
  // Numbers with the low bound's integer part are limited by its digits, however far the high bound is.
  const atLeast = fraction(atLeastDigits(from.fraction, from.exclusive, digitsBehind ?? fractionRoom(from.whole)));
  const free = optional(sequence(text("."), anyDigits(1, room)));
  const lowest = sequence(text(String(from.whole)), atLeast);
  if (to === undefined) return choice(lowest, sequence(naturals(from.whole + 1, Infinity), free));
  if (from.whole === to.whole)
    return isAbove(from, to) ? NOTHING : sequence(text(String(from.whole)), fraction(betweenDigits(from, to, room)));
  const highest = sequence(text(String(to.whole)), fraction(atMostDigits(to.fraction, to.exclusive, room)));
  return choice(lowest, sequence(naturals(from.whole + 1, to.whole - 1), free), highest);
}

/** Digits that are left for the fraction after an integer part. */
function fractionRoom(whole: number): number {
  return Math.max(1, SIGNIFICANT_DIGITS - String(whole).length);
}

/** Whether one of two numbers with the same integer part is larger. */
function isAbove(one: Decimal, other: Decimal): boolean {
  // Compared as strings: digits sort like numbers, and a longer string sorts after its prefix.
  return one.fraction.join("") > other.fraction.join("");
}
