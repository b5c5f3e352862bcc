// Sets of characters, as sorted ranges of code points that do not touch. They contain no surrogates, which are no
// characters.

/** A range of code points or bytes; both ends are included. */
export interface CodeRange {
  readonly from: number;
  readonly to: number;
}

/** The last code point of Unicode. */
export const MAX_CODE = 0x10ffff;
const MAX_ASCII = 0x7f;
const SURROGATES: CodeRange = { from: 0xd800, to: 0xdfff };

/** A set of characters. */
export class CharSet {
  static readonly all = CharSet.of([0, MAX_CODE]);
  static readonly none = CharSet.of();
  static readonly #ascii: CharSet[] = [];

  readonly ranges: readonly CodeRange[];

  private constructor(ranges: readonly CodeRange[]) {
    this.ranges = ranges;
  }

  static of(...pairs: readonly (readonly [number, number])[]): CharSet {
    return CharSet.#normal(pairs.map(([from, to]) => ({ from, to })));
  }

  /** The set of the characters of a text. */
  static ofText(text: string): CharSet {
    if (text.length === 1) return CharSet.#ofUnit(text.charCodeAt(0));
    return CharSet.of(
      ...[...text].map((character): [number, number] => [
        character.codePointAt(0) as number,
        character.codePointAt(0) as number,
      ]),
    );
  }

  static union(sets: readonly CharSet[]): CharSet {
    return CharSet.#normal(sets.flatMap(({ ranges }) => ranges));
  }

  /** The set of one character, shared, because caches are keyed by sets and patterns mostly consist of such sets. */
  static #ofUnit(code: number): CharSet {
    const known = CharSet.#ascii[code];
    if (known !== undefined) return known;
    const made = new CharSet(withoutSurrogates({ from: code, to: code }));
    if (code <= MAX_ASCII) CharSet.#ascii[code] = made;
    return made;
  }

  static #normal(ranges: readonly CodeRange[]): CharSet {
    const merged: CodeRange[] = [];
    for (const range of [...ranges].sort((a, b) => a.from - b.from)) {
      const last = merged.at(-1);
      if (last !== undefined && range.from <= last.to + 1)
        merged[merged.length - 1] = { from: last.from, to: Math.max(last.to, range.to) };
      else merged.push(range);
    }
    return new CharSet(merged.flatMap(withoutSurrogates));
  }

  get empty(): boolean {
    return this.ranges.length === 0;
  }

  complement(): CharSet {
    const gaps: CodeRange[] = [];
    let next = 0;
    for (const { from, to } of this.ranges) {
      if (from > next) gaps.push({ from: next, to: from - 1 });
      next = to + 1;
    }
    if (next <= MAX_CODE) gaps.push({ from: next, to: MAX_CODE });
    return CharSet.#normal(gaps);
  }

  minus(other: CharSet): CharSet {
    return this.intersection(other.complement());
  }

  union(other: CharSet): CharSet {
    return CharSet.union([this, other]);
  }

  intersection(other: CharSet): CharSet {
    const common: CodeRange[] = [];
    for (let mine = 0, others = 0; mine < this.ranges.length && others < other.ranges.length;) {
      const [left, right] = [this.ranges[mine] as CodeRange, other.ranges[others] as CodeRange];
      const [from, to] = [Math.max(left.from, right.from), Math.min(left.to, right.to)];
      if (from <= to) common.push({ from, to });
      if (left.to < right.to) mine++;
      else others++;
    }
    return new CharSet(common);
  }

  has(code: number): boolean {
    return this.ranges.some(({ from, to }) => code >= from && code <= to);
  }

  /** Whether all characters of the other set are in this one. */
  contains(other: CharSet): boolean {
    return other.minus(this).empty;
  }
}

function withoutSurrogates({ from, to }: CodeRange): readonly CodeRange[] {
  const parts = [
    { from, to: Math.min(to, SURROGATES.from - 1) },
    { from: Math.max(from, SURROGATES.to + 1), to },
  ];
  return parts.filter((part) => part.from <= part.to);
}

/** The UTF-8 encodings of a range, each as a list of byte ranges. */
export function utf8Sequences({ from, to }: CodeRange): readonly (readonly CodeRange[])[] {
  for (const last of [0x7f, 0x7ff, 0xffff]) {
    if (from <= last && to > last)
      return [...utf8Sequences({ from, to: last }), ...utf8Sequences({ from: last + 1, to })];
  }
  const length = encode(from).length;
  for (let tail = 1; tail < length; tail++) {
    const mask = (1 << (6 * tail)) - 1;
    if ((from & ~mask) === (to & ~mask)) continue;
    // The trailing bytes have to cover their whole range, or the byte ranges would contain other characters.
    if ((from & mask) !== 0)
      return [...utf8Sequences({ from, to: from | mask }), ...utf8Sequences({ from: (from | mask) + 1, to })];
    if ((to & mask) !== mask)
      return [...utf8Sequences({ from, to: (to & ~mask) - 1 }), ...utf8Sequences({ from: to & ~mask, to })];
  }
  const ends = encode(to);
  return [encode(from).map((byte, place) => ({ from: byte, to: ends[place] as number }))];
}

function encode(code: number): readonly number[] {
  return [...Buffer.from(String.fromCodePoint(code), "utf8")];
}
