// Numbers between bounds, as digits: what a text of digits has to look like to lie in a range. Bounds are the decimal
// digits of the schema's numbers, so that reading a text back as a 64-bit number keeps its side of a bound.

import { CharSet } from "./char-set.js";
import { choice, DIGIT, EMPTY, type Expression, NOTHING, optional, repeat, sequence, set, text } from "./expression.js";

export interface Bound {
  readonly value: number;
  readonly exclusive: boolean;
}

export interface NumberBounds {
  readonly min: Bound | undefined;
  readonly max: Bound | undefined;
}

/** More digits than a 64-bit number tells apart would let a text come to lie on a bound that it may not reach. */
const SIGNIFICANT_DIGITS = 15;
const NINES = "9";

const digits = (from: number, to: number): Expression => (from > to ? NOTHING : set(CharSet.of([0x30 + from, 0x30 + to])));
const anyDigits = (min: number, max: number): Expression => repeat(DIGIT, min, max);
const negative = (magnitude: Expression): Expression => sequence(text("-"), magnitude);
const opposite = (bound: Bound): Bound => ({ value: -bound.value, exclusive: bound.exclusive });

/** Whole numbers between two bounds. */
export function integerRange({ min, max }: NumberBounds): Expression {
  const low = min === undefined ? undefined : BigInt(Math.ceil(min.value)) + BigInt(min.exclusive && Number.isInteger(min.value) ? 1 : 0);
  const high = max === undefined ? undefined : BigInt(Math.floor(max.value)) - BigInt(max.exclusive && Number.isInteger(max.value) ? 1 : 0);
  if (low !== undefined && high !== undefined && low > high) return NOTHING;
  const options: Expression[] = [];
  if (high === undefined || high >= 0n) options.push(naturals(low === undefined || low < 0n ? 0n : low, high));
  if (low === undefined || low < 0n) {
    const least = high === undefined || high >= 0n ? 1n : -high;
    options.push(negative(naturals(least, low === undefined ? undefined : -low)));
  }
  return choice(...options);
}

function naturals(low: bigint, high: bigint | undefined): Expression {
  const lowText = String(low);
  if (high === undefined) {
    // As long as the low one and not below it, or longer.
    return choice(between(lowText, NINES.repeat(lowText.length)), sequence(digits(1, 9), anyDigits(lowText.length, Infinity)));
  }
  const highText = String(high);
  const options: Expression[] = [];
  for (let length = lowText.length; length <= highText.length; length++) {
    const from = length === lowText.length ? lowText : `1${"0".repeat(length - 1)}`;
    const to = length === highText.length ? highText : NINES.repeat(length);
    options.push(between(from, to));
  }
  return choice(...options);
}

/** Texts of digits between two of the same length. */
function between(low: string, high: string): Expression {
  if (low === "") return EMPTY;
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

/** Numbers with or without a fraction between two bounds, of which there is one at least. */
export function decimalRange({ min, max }: NumberBounds): Expression {
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

/** The whole part of a bound, and the digits of its fraction without zeros at the end. */
interface Decimal {
  readonly whole: bigint;
  readonly fraction: readonly number[];
  readonly exclusive: boolean;
}

function magnitudes(low: Bound, high: Bound | undefined): Expression {
  const from = decimal(low);
  const room = Math.max(1, SIGNIFICANT_DIGITS - String(high === undefined ? from.whole : decimal(high).whole).length);
  const atLeast = fraction(atLeastDigits(from.fraction, from.exclusive, room));
  const free = optional(sequence(text("."), anyDigits(1, room)));
  if (high === undefined) return choice(sequence(text(String(from.whole)), atLeast), sequence(naturals(from.whole + 1n, undefined), free));
  const to = decimal(high);
  if (from.whole === to.whole) return sequence(text(String(from.whole)), fraction(betweenDigits(from, to, room)));
  const inner = from.whole + 1n <= to.whole - 1n ? [sequence(naturals(from.whole + 1n, to.whole - 1n), free)] : [];
  return choice(
    sequence(text(String(from.whole)), atLeast),
    ...inner,
    sequence(text(String(to.whole)), fraction(atMostDigits(to.fraction, to.exclusive, room))),
  );
}

/** Digits behind the point: what may stand there, and whether nothing may. */
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
    const zeros = Math.max(0, room >> 1);
    return { none: false, some: [sequence(repeat(text("0"), 0, zeros), digits(1, 9), more(room - zeros - 1))] };
  }
  const first = bound[0] as number;
  const same = sequence(digits(first, first), tail(atLeastDigits(bound.slice(1), exclusive, room - 1)));
  return { none: false, some: [sequence(digits(first + 1, 9), more(room - 1)), same] };
}

function atMostDigits(bound: readonly number[], exclusive: boolean, room: number): Digits {
  if (bound.length === 0) return { none: !exclusive, some: exclusive ? [] : [text("0")] };
  const first = bound[0] as number;
  const same = sequence(digits(first, first), tail(atMostDigits(bound.slice(1), exclusive, room - 1)));
  return { none: true, some: [sequence(digits(0, first - 1), more(room - 1)), same] };
}

function betweenDigits(low: Pick<Decimal, "fraction" | "exclusive">, high: Pick<Decimal, "fraction" | "exclusive">, room: number): Digits {
  if (low.fraction.length === 0 && !low.exclusive) return atMostDigits(high.fraction, high.exclusive, room);
  const [from, to] = [low.fraction[0] ?? 0, high.fraction[0] ?? 0];
  const lowRest = { ...low, fraction: low.fraction.slice(1) };
  const highRest = { ...high, fraction: high.fraction.slice(1) };
  if (from === to) {
    // Nothing lies between two bounds that end together, both exclusive.
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

/** The shortest decimal that reads back as the bound, without its exponent. */
function decimal({ value, exclusive }: Bound): Decimal {
  const [mantissa = "", exponent = "0"] = String(Math.abs(value)).split("e");
  const [whole = "", after = ""] = mantissa.split(".");
  const shift = Number(exponent);
  const all = whole + after;
  const point = whole.length + shift;
  const padded = point <= 0 ? "0".repeat(1 - point) + all : all.padEnd(point, "0");
  const place = Math.max(point, 1);
  const digitsAfter = padded.slice(place).replace(/0+$/, "");
  return { whole: BigInt(padded.slice(0, place)), fraction: [...digitsAfter].map(Number), exclusive };
}
