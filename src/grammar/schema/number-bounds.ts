// Bounds of numbers, and their exact decimal digits.

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

/** Up to here, every integer is exact as a 64-bit number. */
const EXACT = 2 ** 53;
/**
 * Digits of a bound's fraction that are considered; each is a nested group, and a smaller fraction makes no difference.
 */
const FRACTION_DIGITS = 32;

/** The bound of the negated numbers. */
export const opposite = (bound: Bound): Bound => ({ value: -bound.value, exclusive: bound.exclusive });

/** The least integer above a bound; Infinity if there is none. */
export function leastWhole({ value, exclusive }: Bound): number {
  if (!exclusive) return Math.ceil(value);
  return Math.abs(value) < EXACT ? Math.floor(value) + 1 : nextAbove(value);
}

/** The greatest integer below a bound; -Infinity if there is none. */
export function mostWhole(bound: Bound): number {
  return -leastWhole(opposite(bound));
}

const bits = new BigInt64Array(1);
const number = new Float64Array(bits.buffer);

/** The next larger 64-bit number. */
export function nextAbove(value: number): number {
  if (value === 0) return Number.MIN_VALUE;
  number[0] = value;
  bits[0] = (bits[0] as bigint) + (value > 0 ? 1n : -1n);
  return number[0];
}

/** The integer part of a bound, and the digits of its fraction without trailing zeros. */
export interface Decimal {
  readonly whole: number;
  readonly fraction: readonly number[];
  readonly exclusive: boolean;
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

/** The digits of a number's integer part, without an exponent. */
export function wholeDigits(value: number): string {
  return decimalDigits(value).whole;
}

/** The first decimal that is not below a non-negative bound. */
export function roundedUp({ value, exclusive }: Bound): Decimal {
  const { whole, fraction: after } = decimalDigits(value);
  if (after.length <= FRACTION_DIGITS) return decimal(whole, after, exclusive);
  // A fraction this long begins with zeros, so adding one at the last digit carries nowhere.
  const up = BigInt(after.slice(0, FRACTION_DIGITS)) + 1n;
  return decimal(whole, String(up).padStart(FRACTION_DIGITS, "0"), false);
}

/** The last decimal that is not above a non-negative bound. */
export function roundedDown({ value, exclusive }: Bound): Decimal {
  const { whole, fraction: after } = decimalDigits(value);
  return after.length <= FRACTION_DIGITS
    ? decimal(whole, after, exclusive)
    : decimal(whole, after.slice(0, FRACTION_DIGITS), false);
}

function decimal(whole: string, after: string, exclusive: boolean): Decimal {
  return { whole: Number(whole), fraction: [...after.replace(/0+$/, "")].map(Number), exclusive };
}
