// A text with one byte changed, added or taken away, and what a strict reader makes of bytes.

import { isUtf8 } from "node:buffer";
import type { Dice } from "../../support/dice.js";

/** `count` of them, or all at every place with one byte each if the text is so short. */
export function mutations(text: Uint8Array, alphabet: readonly number[], dice: Dice, count: number): Uint8Array[] {
  const changed: Uint8Array[] = [];
  const places = 2 * text.length + 1;
  for (let turn = 0; turn < Math.min(count, 2 * places); turn++) {
    const at = places <= count ? turn % (text.length + 1) : dice.below(text.length + 1);
    const byte = Uint8Array.of(dice.pick(alphabet));
    const kind = dice.below(3);
    const middle = kind === 2 ? new Uint8Array() : byte;
    const after = kind === 1 ? at : at + 1;
    changed.push(Buffer.concat([text.subarray(0, at), middle, text.subarray(after)]));
  }
  return changed;
}

/** Undefined for bytes that are no UTF-8. */
export function decoded(bytes: Uint8Array): string | undefined {
  return isUtf8(bytes) ? Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString("utf8") : undefined;
}

/** Undefined for a text that is no JSON; `undefined` itself is no JSON value. */
export function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}
