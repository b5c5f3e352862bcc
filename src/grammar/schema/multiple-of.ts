// Multiples of a number, as digits: an automaton that tracks the remainder of the digits so far.

import { buildDfa, type Dfa } from "../automaton/dfa.js";
import { GRAMMAR_LIMITS, grammarLimit } from "../limits.js";

/** An unsigned decimal as digits and a power of ten: digits × 10^-places. */
interface Scaled {
  readonly digits: bigint;
  readonly places: number;
}

const MINUS = 0x2d;
const POINT = 0x2e;
const ZERO = 0x30;
const OTHER = 10;
/** Classes: the ten digits, everything else, the point, the minus. */
const POINT_CLASS = 11;
const MINUS_CLASS = 12;
const CLASSES = Uint8Array.from({ length: 256 }, (_, byte) => {
  if (byte >= ZERO && byte <= ZERO + 9) return byte - ZERO;
  return byte === POINT ? POINT_CLASS : byte === MINUS ? MINUS_CLASS : OTHER;
});

interface Position {
  readonly where: "start" | "signed" | "whole" | "point" | "fraction";
  /** Digits after the point that matter. */
  readonly places: number;
  readonly remainder: number;
}

/** The automaton of JSON numbers without exponent that are multiples of a positive number. */
export function multiplesDfa(divisor: number, place: string): Dfa {
  const { digits, places } = scaled(divisor);
  // The remainder times ten fits into 53 bits as long as the divisor has 15 digits or fewer.
  if (digits * BigInt(places + 1) > BigInt(GRAMMAR_LIMITS.automatonStates))
    throw grammarLimit(place, "automatonStates", "a divisor whose remainders are states");
  const modulus = Number(digits);
  const powers = Array.from({ length: places + 1 }, (_, power) => Number(10n ** BigInt(power) % digits));
  return buildDfa<Position>(
    {
      classes: CLASSES,
      classCount: 13,
      start: { where: "start", places: 0, remainder: 0 },
      key: ({ where, places: written, remainder }) => `${where} ${written} ${remainder}`,
      next: (position, byteClass) => step(position, byteClass, places, modulus),
      accepts: ({ where, places: written, remainder }) =>
        (where === "whole" || where === "fraction") &&
        (remainder * (powers[places - written] as number)) % modulus === 0,
    },
    place,
  );
}

/** Decimal digits that every 64-bit number can represent. */
const EXACT_DIGITS = 15;
let fewDigits: Dfa | undefined;

/** The automaton of numbers without exponent that have no more digits than that. */
export function fewDigitsDfa(place: string): Dfa {
  return (fewDigits ??= buildDfa<readonly [Position["where"], number]>(
    {
      classes: CLASSES,
      classCount: 13,
      start: ["start", 0],
      key: ([where, count]) => `${where} ${count}`,
      next: ([where, count], byteClass) => {
        const next = step({ where, places: 0, remainder: 0 }, byteClass, EXACT_DIGITS, 1);
        const written = byteClass < OTHER ? count + 1 : count;
        return next === undefined || written > EXACT_DIGITS ? undefined : [next.where, written];
      },
      accepts: ([where]) => where === "whole" || where === "fraction",
    },
    place,
  ));
}

function step(
  { where, places: written, remainder }: Position,
  byteClass: number,
  places: number,
  modulus: number,
): Position | undefined {
  if (byteClass === MINUS_CLASS) return where === "start" ? { where: "signed", places: 0, remainder: 0 } : undefined;
  if (byteClass === POINT_CLASS) return where === "whole" ? { where: "point", places: 0, remainder } : undefined;
  if (byteClass === OTHER) return undefined;
  if (where === "point" || where === "fraction") {
    // After the divisor's last digit, only zeros keep a multiple.
    if (written === places) return byteClass === 0 ? { where: "fraction", places, remainder } : undefined;
    return { where: "fraction", places: written + 1, remainder: (remainder * 10 + byteClass) % modulus };
  }
  return { where: "whole", places: 0, remainder: (remainder * 10 + byteClass) % modulus };
}

function scaled(value: number): Scaled {
  const [mantissa = "", exponent = "0"] = String(value).split("e");
  const [whole = "", after = ""] = mantissa.split(".");
  const power = after.length - Number(exponent);
  const digits = BigInt(whole + after);
  return power >= 0 ? { digits, places: power } : { digits: digits * 10n ** BigInt(-power), places: 0 };
}

/** Whether a value is a multiple of a divisor, by their decimal digits. */
export function isMultiple(value: number, divisor: number): boolean {
  const [one, other] = [scaled(Math.abs(value)), scaled(divisor)];
  const places = Math.max(one.places, other.places);
  return (
    (one.digits * 10n ** BigInt(places - one.places)) % (other.digits * 10n ** BigInt(places - other.places)) === 0n
  );
}
