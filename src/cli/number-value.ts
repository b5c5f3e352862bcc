// Parses numbers that users type: the whole text must be a number, and it must be in the option's range.

/** The range of a numeric option. */
export interface NumberRange {
  readonly from: number;
  readonly to: number;
  /** Whether `from` itself is excluded. */
  readonly above?: boolean;
}

const WHOLE = /^[+-]?\d+$/;
const DECIMAL = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?$/i;

/** The number, or a description of what was expected. */
export function parseNumber(text: string, range: NumberRange, whole: boolean): number | { readonly expected: string } {
  const value = (whole ? WHOLE : DECIMAL).test(text) ? Number(text) : Number.NaN;
  const fits = value >= range.from && value <= range.to && !(range.above === true && value === range.from);
  // Adding 0 turns `-0` into 0, which would be printed as negative.
  return fits ? value + 0 : { expected: `${whole ? "a whole number" : "a number"} ${describeRange(range)}` };
}

/** A range in words: "from 0 to 1", "above 0, at most 1000". */
export function describeRange({ from, to, above }: NumberRange): string {
  return above === true ? `above ${from}, at most ${bound(to)}` : `from ${from} to ${bound(to)}`;
}

function bound(value: number): string {
  if (value === Number.MAX_SAFE_INTEGER) return "2^53 - 1";
  return value === 2 ** 31 - 1 ? "2^31 - 1" : String(value);
}
