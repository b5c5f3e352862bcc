// Exact decimal numbers: what a text of JSON says, before a reader rounds it to 64 bits.

export interface Decimal {
  /** The value is units / 10 ** scale. */
  readonly units: bigint;
  readonly scale: number;
}

const NUMBER = /^(-?)(0|[1-9]\d*)(?:\.(\d+))?(?:[eE]([+-]?\d{1,4}))?$/;

export function isNumber(text: string): boolean {
  return NUMBER.test(text);
}

/** Undefined for a text that is no JSON number. */
export function decimalOf(text: string): Decimal | undefined {
  const found = NUMBER.exec(text);
  if (found === null) return undefined;
  const [, sign = "", whole = "", fraction = "", exponent = "0"] = found;
  const units = BigInt(`${sign}${whole}${fraction}`);
  const scale = fraction.length - Number(exponent);
  return scale >= 0 ? { units, scale } : { units: units * 10n ** BigInt(-scale), scale: 0 };
}

/** The shortest decimal that reads back as the number: the one that its writer meant. */
export function decimalOfNumber(value: number): Decimal {
  return decimalOf(JSON.stringify(value)) as Decimal;
}

/** Below 0, 0 or above 0, as the first is less than, equal to or greater than the second. */
export function compare(one: Decimal, other: Decimal): number {
  const [a, b] = aligned(one, other);
  return a < b ? -1 : a > b ? 1 : 0;
}

export function isMultiple(value: Decimal, of: Decimal): boolean {
  const [a, b] = aligned(value, of);
  return a % b === 0n;
}

export function isWhole(value: Decimal): boolean {
  return value.units % 10n ** BigInt(value.scale) === 0n;
}

function aligned(one: Decimal, other: Decimal): readonly [bigint, bigint] {
  const scale = Math.max(one.scale, other.scale);
  return [one.units * 10n ** BigInt(scale - one.scale), other.units * 10n ** BigInt(scale - other.scale)];
}
