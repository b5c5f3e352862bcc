// Numbers between bounds, as expressions of digits. Bounds are the decimal digits of the schema's numbers, so that a
// generated text, read as a 64-bit number, stays on its side of a bound.

import { CharSet } from "../char-set.js";
import { choice, DIGIT, type Expression, NOTHING, optional, repeat, sequence, set, text } from "../expression.js";

/** One end of a range of numbers. */
export interface Bound {
  readonly value: number;
  readonly exclusive: boolean;
}

/** A range of numbers; an undefined end is unbounded. */
export interface NumberBounds {
  readonly min: Bound | undefined;
  readonly max: Bound | undefined;
}

/** Digits of a generated number; with more, a text could be rounded to a bound that it may not reach. */
const SIGNIFICANT_DIGITS = 15;
/** From here on, numbers between bounds are integers: a 64-bit number has no further digits. */
const WHOLE_FROM = 1e15;
/** Up to here, every integer is exact as a 64-bit number. */
const EXACT = 2 ** 53;
/**
 * Digits of a bound's fraction that are considered; each is a nested group, and a smaller fraction makes no difference.
 */
const FRACTION_DIGITS = 32;
const NINES = "9";

const DIGITS = Array.from({ length: 100 }, (_, pair) => {
  const [from, to] = [Math.floor(pair / 10), pair % 10];
  return from > to ? NOTHING : set(CharSet.of([0x30 + from, 0x30 + to]));
});
const digits = (from: number, to: number): Expression => (from > to ? NOTHING : (DIGITS[10 * from + to] as Expression));
const anyDigits = (min: number, max: number): Expression => repeat(DIGIT, min, max);
const negative = (magnitude: Expression): Expression => sequence(text("-"), magnitude);
const opposite = (bound: Bound): Bound => ({ value: -bound.value, exclusive: bound.exclusive });

/** Integers between two bounds. */
export function integerRange({ min, max }: NumberBounds): Expression {
  const low = min === undefined ? -Infinity : leastWhole(min);
  const high = max === undefined ? Infinity : mostWhole(max);
  return choice(
    ...(high >= 0 ? [naturals(Math.max(0, low), high)] : []),
    ...(low < 0 ? [negative(naturals(Math.max(1, -high), -low))] : []),
  );
}

/** The least integer above a bound; Infinity if there is none. */
function leastWhole({ value, exclusive }: Bound): number {
  if (!exclusive) return Math.ceil(value);
  return Math.abs(value) < EXACT ? Math.floor(value) + 1 : nextAbove(value);
}

function mostWhole(bound: Bound): number {
  return -leastWhole(opposite(bound));
}

const bits = new BigInt64Array(1);
const number = new Float64Array(bits.buffer);

/** The next larger 64-bit number. */
function nextAbove(value: number): number {
  if (value === 0) return Number.MIN_VALUE;
  number[0] = value;
  bits[0] = (bits[0] as bigint) + (value > 0 ? 1n : -1n);
  return number[0];
}

/** Integers from a non-negative one to another, or to Infinity. */
function naturals(low: number, high: number): Expression {
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

/** The integer part of a bound, and the digits of its fraction without trailing zeros. */
interface Decimal {
  readonly whole: number;
  readonly fraction: readonly number[];
  readonly exclusive: boolean;
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

/** Digits after the point: what is allowed, and whether they may be absent. */
interface Digits {
  readonly none: boolean;
  readonly some: readonly Expression[];
}

function fraction({ none, some }: Digits): Expression {
  const written = choice(...some) === NOTHING ? NOTHING : sequence(text("."), choice(...some));
  return none ? optional(written) : written;
}

const tail = ({ none, some }: Digits): Expression => (none ? optional(choice(...some)) : choice(...some));
const more = (room: number): Expression => anyDigits(0, Math.max(0, room));

function atLeastDigits(bound: readonly number[], exclusive: boolean, room: number): Digits {
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

function atMostDigits(bound: readonly number[], exclusive: boolean, room: number): Digits {
  if (bound.length === 0) return { none: !exclusive, some: exclusive || room < 1 ? [] : [repeat(text("0"), 1, room)] };
  const first = bound[0] as number;
  const same = sequence(digits(first, first), tail(atMostDigits(bound.slice(1), exclusive, room - 1)));
  return { none: true, some: [sequence(digits(0, first - 1), more(room - 1)), same] };
}

function betweenDigits(
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

/**
 * The shortest decimal that reads back as the number, which a reader with more than 64 bits takes for the bound as
 * well.
 */
function decimalDigits(value: number): { readonly whole: string; readonly fraction: string } {
  const [mantissa = "", exponent = "0"] = String(Math.abs(value)).split("e");
  const [whole = "", after = ""] = mantissa.split(".");
  const all = whole + after;
  const point = whole.length + Number(exponent);
  const padded = point <= 0 ? "0".repeat(1 - point) + all : all.padEnd(point, "0");
  const place = Math.max(point, 1);
  return { whole: padded.slice(0, place), fraction: padded.slice(place).replace(/0+$/, "") };
}

function wholeDigits(value: number): string {
  return decimalDigits(value).whole;
}

/** The first decimal that is not below a non-negative bound. */
function roundedUp({ value, exclusive }: Bound): Decimal {
  const { whole, fraction: after } = decimalDigits(value);
  if (after.length <= FRACTION_DIGITS) return decimal(whole, after, exclusive);
  // A fraction this long begins with zeros, so adding one at the last digit carries nowhere.
  const up = BigInt(after.slice(0, FRACTION_DIGITS)) + 1n;
  return decimal(whole, String(up).padStart(FRACTION_DIGITS, "0"), false);
}

function roundedDown({ value, exclusive }: Bound): Decimal {
  const { whole, fraction: after } = decimalDigits(value);
  return after.length <= FRACTION_DIGITS
    ? decimal(whole, after, exclusive)
    : decimal(whole, after.slice(0, FRACTION_DIGITS), false);
}

function decimal(whole: string, after: string, exclusive: boolean): Decimal {
  return { whole: Number(whole), fraction: [...after.replace(/0+$/, "")].map(Number), exclusive };
}
