// Ranges of digit strings as expressions: natural numbers, and digits after the decimal point.

import { CharSet } from "../char-set.js";
import { choice, DIGIT, type Expression, NOTHING, optional, repeat, sequence, set, text } from "../expression.js";
import { type Decimal, wholeDigits } from "./number-bounds.js";

const NINES = "9";

const DIGITS = Array.from({ length: 100 }, (_, pair) => {
  const [from, to] = [Math.floor(pair / 10), pair % 10];
  return from > to ? NOTHING : set(CharSet.of([0x30 + from, 0x30 + to]));
});
/** One digit of a range. */
const digits = (from: number, to: number): Expression => (from > to ? NOTHING : (DIGITS[10 * from + to] as Expression));
/** Any digits, of which `max` may be Infinity. */
export const anyDigits = (min: number, max: number): Expression => repeat(DIGIT, min, max);

/** Integers from a non-negative one to another, or to Infinity. */
export function naturals(low: number, high: number): Expression {
  if (low > high || low === Infinity) return NOTHING;
  const least = wholeDigits(low);
  if (high === Infinity)
    return choice(between(least, NINES.repeat(least.length)), ofLength(least.length + 1, Infinity));
  const most = wholeDigits(high);
  if (least.length === most.length) return between(least, most);
  return choice(
    between(least, NINES.repeat(least.length)),
    ofLength(least.length + 1, most.length - 1),
    between(`1${"0".repeat(most.length - 1)}`, most),
  );
}

function ofLength(min: number, max: number): Expression {
  return min > max ? NOTHING : sequence(digits(1, 9), anyDigits(min - 1, max - 1));
}

/**
 * Digit strings between two of the same length. The nesting is as deep as the digits before the low one's trailing
 * zeros and the high one's.
 */
function between(low: string, high: string): Expression {
  if (low === high) return text(low);
  const [from, to] = [Number(low[0]), Number(high[0])];
  const [lowRest, highRest] = [low.slice(1), high.slice(1)];
  if (from === to) return sequence(digits(from, to), between(lowRest, highRest));
  const wholeLow = /^0*$/.test(lowRest);
  const wholeHigh = /^9*$/.test(highRest);
  return choice(
    ...(wholeLow ? [] : [sequence(digits(from, from), between(lowRest, NINES.repeat(lowRest.length)))]),
    ...middle(from + (wholeLow ? 0 : 1), to - (wholeHigh ? 0 : 1), lowRest.length),
    ...(wholeHigh ? [] : [sequence(digits(to, to), between("0".repeat(highRest.length), highRest))]),
  );
}

function middle(from: number, to: number, length: number): readonly Expression[] {
  return from > to ? [] : [sequence(digits(from, to), anyDigits(length, length))];
}

/** Digits after the point: what is allowed, and whether they may be absent. */
interface Digits {
  readonly none: boolean;
  readonly some: readonly Expression[];
}

/** The point and the digits after it. */
export function fraction({ none, some }: Digits): Expression {
  const written = choice(...some) === NOTHING ? NOTHING : sequence(text("."), choice(...some));
  return none ? optional(written) : written;
}

const tail = ({ none, some }: Digits): Expression => (none ? optional(choice(...some)) : choice(...some));
const more = (room: number): Expression => anyDigits(0, Math.max(0, room));

/** Digits after the point that are not below a bound's; `room` is how many may be written. */
export function atLeastDigits(bound: readonly number[], exclusive: boolean, room: number): Digits {
  if (bound.length === 0) {
    if (!exclusive) return { none: true, some: [sequence(DIGIT, more(room - 1))] };
    return { none: false, some: [positiveDigits(room)] };
  }
  const first = bound[0] as number;
  const same = sequence(digits(first, first), tail(atLeastDigits(bound.slice(1), exclusive, room - 1)));
  return { none: false, some: [sequence(digits(first + 1, 9), more(room - 1)), same] };
}

/** Digits that are not all zero. */
function positiveDigits(room: number): Expression {
  if (room < 1) return NOTHING;
  if (room === Infinity) return sequence(repeat(text("0"), 0, Infinity), digits(1, 9), more(Infinity));
  return choice(sequence(digits(1, 9), more(room - 1)), sequence(text("0"), positiveDigits(room - 1)));
}

/** Digits after the point that are not above a bound's; `room` is how many may be written. */
export function atMostDigits(bound: readonly number[], exclusive: boolean, room: number): Digits {
  if (bound.length === 0) return { none: !exclusive, some: exclusive || room < 1 ? [] : [repeat(text("0"), 1, room)] };
  const first = bound[0] as number;
  const same = sequence(digits(first, first), tail(atMostDigits(bound.slice(1), exclusive, room - 1)));
  return { none: true, some: [sequence(digits(0, first - 1), more(room - 1)), same] };
}

/** Digits after the point between those of two bounds with the same integer part. */
export function betweenDigits(
  low: Pick<Decimal, "fraction" | "exclusive">,
  high: Pick<Decimal, "fraction" | "exclusive">,
  room: number,
): Digits {
  if (low.fraction.length === 0 && !low.exclusive) return atMostDigits(high.fraction, high.exclusive, room);
  const [from, to] = [low.fraction[0] ?? 0, high.fraction[0] ?? 0];
  const lowRest = { ...low, fraction: low.fraction.slice(1) };
  const highRest = { ...high, fraction: high.fraction.slice(1) };
  if (from === to) {
    // There is nothing between two exclusive bounds that end at the same digit.
    if (low.fraction.length + high.fraction.length === 0) return { none: false, some: [] };
    return { none: false, some: [sequence(digits(from, from), tail(betweenDigits(lowRest, highRest, room - 1)))] };
  }
  return {
    none: false,
    some: [
      sequence(digits(from, from), tail(atLeastDigits(lowRest.fraction, low.exclusive, room - 1))),
      ...(from + 1 <= to - 1 ? [sequence(digits(from + 1, to - 1), more(room - 1))] : []),
      sequence(digits(to, to), tail(atMostDigits(highRest.fraction, high.exclusive, room - 1))),
    ],
  };
}
