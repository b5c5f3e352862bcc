// Kinds of characters, as bits, to classify the characters of many tokens at once. A character class of a pattern
// usually contains all characters of a kind or none.

/** A character beyond ASCII. */
export const MULTIBYTE = 1 << 30;
/** Bytes that are no complete character. */
export const BROKEN = 1 << 31;

const GROUPS = [
  "abcdef",
  "ghijklmnopqrstuvwxyz",
  "ABCDEF",
  "GHIJKLMNOPQRSTUVWXYZ",
  "0",
  "123456789",
  "_",
  "-",
  ".",
  "/",
  " ",
  '"',
  "\\",
  "\n",
  "\t\r",
  ":",
  ",",
  "+",
  "@",
  "#",
  "'",
  "()",
  "[]{}",
  "<>",
  "*",
  "?&=%",
  "!$;~^`|",
];

/** The kind of each ASCII byte. Control characters without a name share one. */
export const ASCII_KINDS: Int32Array = Int32Array.from({ length: 128 }, (_, code) => {
  const group = GROUPS.findIndex((characters) => characters.includes(String.fromCharCode(code)));
  return 1 << (group === -1 ? GROUPS.length : group);
});

/** The ASCII bytes of each kind, by its bit. */
export const KIND_BYTES: ReadonlyMap<number, readonly number[]> = new Map(
  Array.from(new Set(ASCII_KINDS), (kind) => [
    kind,
    [...ASCII_KINDS.keys()].filter((code) => ASCII_KINDS[code] === kind),
  ]),
);

/** The kinds of the small letters of ASCII: sets that take any number of them take a large part of the vocabulary. */
export const SMALL_LETTERS: number =
  (ASCII_KINDS["a".charCodeAt(0)] as number) | (ASCII_KINDS["z".charCodeAt(0)] as number);

/** Every kind of complete characters. */
export const ALL_KINDS: number = [...KIND_BYTES.keys()].reduce((all, kind) => all | kind, MULTIBYTE);

/** Characters beyond ASCII, as ranges of their bytes. */
export const MULTIBYTE_FORMS: readonly (readonly (readonly [number, number])[])[] = [
  [
    [0xc2, 0xdf],
    [0x80, 0xbf],
  ],
  [
    [0xe0, 0xe0],
    [0xa0, 0xbf],
    [0x80, 0xbf],
  ],
  [
    [0xe1, 0xec],
    [0x80, 0xbf],
    [0x80, 0xbf],
  ],
  [
    [0xed, 0xed],
    [0x80, 0x9f],
    [0x80, 0xbf],
  ],
  [
    [0xee, 0xef],
    [0x80, 0xbf],
    [0x80, 0xbf],
  ],
  [
    [0xf0, 0xf0],
    [0x90, 0xbf],
    [0x80, 0xbf],
    [0x80, 0xbf],
  ],
  [
    [0xf1, 0xf3],
    [0x80, 0xbf],
    [0x80, 0xbf],
    [0x80, 0xbf],
  ],
  [
    [0xf4, 0xf4],
    [0x80, 0x8f],
    [0x80, 0xbf],
    [0x80, 0xbf],
  ],
];

/** The position of a text inside a UTF-8 character. */
export class Utf8State {
  /** Between two characters. */
  static readonly start = new Utf8State(undefined, undefined);
  /** After bytes that are no UTF-8; no byte leads out of it. */
  static readonly broken = new Utf8State(undefined, undefined);
  static readonly #afterFirstByte = Array.from({ length: 256 }, (_, byte) => Utf8State.#after(byte));
  /** The bytes that continue the character, and the state that they lead to. */
  readonly #range: readonly [number, number] | undefined;
  readonly #next: Utf8State | undefined;

  private constructor(range: readonly [number, number] | undefined, next: Utf8State | undefined) {
    this.#range = range;
    this.#next = next;
  }

  static #after(byte: number): Utf8State {
    if (byte < 0x80) return Utf8State.start;
    const form = MULTIBYTE_FORMS.find(([first]) => byte >= (first?.[0] ?? 256) && byte <= (first?.[1] ?? 0));
    return form?.slice(1).reduceRight((next, range) => new Utf8State(range, next), Utf8State.start) ?? Utf8State.broken;
  }

  step(byte: number): Utf8State {
    if (this === Utf8State.start) return Utf8State.#afterFirstByte[byte] as Utf8State;
    if (this.#range === undefined || byte < this.#range[0] || byte > this.#range[1]) return Utf8State.broken;
    return this.#next as Utf8State;
  }
}
