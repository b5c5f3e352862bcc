// A text as pre-tokenizers see it: code points and their classes, and two strings for regular expressions. Invariants:
// the bytes are well-formed UTF-8; positions count code points; a `collapsed` string has one UTF-16 unit per code
// point. Collapsing is llama.cpp's scheme, so that a pattern has the same meaning here.

import { CharacterClass, characterClasses } from "./character-class.js";

const ASCII_END = 0x80;
const VERTICAL_TAB = 0x0b;
/**
 * This plus a class represents every non-ASCII code point of the class: 0xD0 other, 0xD1 number, 0xD2 letter and so on.
 */
export const COLLAPSED_BASE = 0xd0;

/** A text as pre-tokenizers see it. */
export class SplitText {
  /** The length in code points. */
  readonly length: number;
  readonly codePoints: Uint32Array;
  readonly classes: Uint8Array;
  #collapsed: string | undefined;
  #wide: string | undefined;

  constructor(bytes: Uint8Array, start: number, end: number) {
    const table = characterClasses();
    const codePoints = new Uint32Array(end - start);
    const classes = new Uint8Array(end - start);
    let length = 0;
    for (let position = start; position < end; length++) {
      const size = sequenceBytes(bytes[position] as number);
      const codePoint = decodeSequence(bytes, position, size);
      codePoints[length] = codePoint;
      classes[length] = table[codePoint] as number;
      position += size;
    }
    this.length = length;
    this.codePoints = codePoints.subarray(0, length);
    this.classes = classes.subarray(0, length);
  }

  /** ASCII unchanged, other code points as their class, other white space as a vertical tab. */
  get collapsed(): string {
    if (this.#collapsed === undefined) {
      const units = Buffer.allocUnsafe(this.length);
      for (let index = 0; index < this.length; index++) {
        const codePoint = this.codePoints[index] as number;
        const kind = this.classes[index] as number;
        if (codePoint < ASCII_END) units[index] = codePoint;
        else units[index] = kind === CharacterClass.whitespace ? VERTICAL_TAB : COLLAPSED_BASE + kind;
      }
      this.#collapsed = units.toString("latin1");
    }
    return this.#collapsed;
  }

  /** The text itself, with non-ASCII white space as a vertical tab. */
  get wide(): string {
    if (this.#wide === undefined) {
      const parts: string[] = [];
      const step = 8192;
      for (let start = 0; start < this.length; start += step) {
        const chunk: number[] = [];
        for (let index = start; index < Math.min(start + step, this.length); index++) {
          const codePoint = this.codePoints[index] as number;
          const blank = codePoint >= ASCII_END && this.classes[index] === CharacterClass.whitespace;
          chunk.push(blank ? VERTICAL_TAB : codePoint);
        }
        parts.push(String.fromCodePoint(...chunk));
      }
      this.#wide = parts.join("");
    }
    return this.#wide;
  }
}

/** The length in bytes of the UTF-8 sequence that starts with this byte. */
export function sequenceBytes(lead: number): number {
  if (lead < 0xc0) return 1;
  if (lead < 0xe0) return 2;
  return lead < 0xf0 ? 3 : 4;
}

/** The length in bytes of a code point in UTF-8. */
export function encodedBytes(codePoint: number): number {
  if (codePoint < ASCII_END) return 1;
  if (codePoint < 0x800) return 2;
  return codePoint < 0x10000 ? 3 : 4;
}

function decodeSequence(bytes: Uint8Array, position: number, size: number): number {
  const lead = bytes[position] as number;
  if (size === 1) return lead;
  let codePoint = lead & (0xff >> (size + 1));
  for (let index = 1; index < size; index++)
    codePoint = (codePoint << 6) | ((bytes[position + index] as number) & 0x3f);
  return codePoint;
}
