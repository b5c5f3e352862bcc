// The GPT-2 alphabet: every byte as one printable character, so that byte-level tokens can be stored as text. Source:
// the byte-to-unicode table of GPT-2; printable Latin-1 maps to itself, the other 68 bytes to U+0100 and up.

import { encodedBytes } from "./split-text.js";

const BYTES = 256;
const FIRST_STAND_IN = 0x100;

const isPrintable = (byte: number): boolean =>
  (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xff && byte !== 0xad);

const CHARACTER_OF_BYTE: readonly number[] = (() => {
  let standIn = FIRST_STAND_IN;
  return Array.from({ length: BYTES }, (_, byte) => (isPrintable(byte) ? byte : standIn++));
})();

const BYTE_OF_CHARACTER: ReadonlyMap<number, number> = new Map(
  CHARACTER_OF_BYTE.map((character, byte) => [character, byte]),
);

/** The UTF-8 encoding of each byte's character. */
export const SPELLING_OF_BYTE: readonly Buffer[] = CHARACTER_OF_BYTE.map((character) =>
  Buffer.from(String.fromCharCode(character)),
);

/** The spelling of a range of bytes, as tokens store it. */
export function spellBytes(bytes: Uint8Array, start: number, end: number): Buffer {
  let length = 0;
  for (let index = start; index < end; index++)
    length += encodedBytes(CHARACTER_OF_BYTE[bytes[index] as number] as number);
  const spelled = Buffer.allocUnsafe(length);
  let at = 0;
  for (let index = start; index < end; index++) {
    const spelling = SPELLING_OF_BYTE[bytes[index] as number] as Buffer;
    spelled[at++] = spelling[0] as number;
    if (spelling.length > 1) spelled[at++] = spelling[1] as number;
  }
  return spelled;
}

/** The bytes that a stored token represents. A character outside the alphabet represents itself. */
export function unspellBytes(stored: Uint8Array): Uint8Array {
  const bytes = Buffer.allocUnsafe(stored.length);
  let length = 0;
  for (const character of Buffer.from(stored).toString("utf8")) {
    const byte = BYTE_OF_CHARACTER.get(character.codePointAt(0) as number);
    if (byte !== undefined) bytes[length++] = byte;
    else length += bytes.write(character, length);
  }
  return bytes.subarray(0, length);
}
