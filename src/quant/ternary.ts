// TQ1_0 and TQ2_0: 256 elements of -1, 0 or 1 times one scale.
// TQ1_0 writes five base-3 digits as the fraction byte / 256: multiplying by 3^n modulo 256 brings digit n to the
// top, and its product with 3 carries that digit out. TQ2_0 spends two bits, whose fourth code reads as 2.
//
//   TQ1_0  | fives 48 | fours 4 | d f16 |   54 bytes   bytes 0-31: digit n of byte b is element 32n + b;
//                                                      bytes 32-47: element 160 + 16n + b;
//                                                      the last four: element 240 + 4n + b, n < 4
//   TQ2_0  | pairs 64 | d f16 |             66 bytes   laid out as the quants of Q2_K

import { HALF_VALUES } from "./half.js";
import type { DecodeBlocks } from "./layout.js";

const POWERS_OF_THREE = [1, 3, 9, 27, 81] as const;

/** Decodes TQ1_0: blocks of 256 ternary digits, five per byte. */
export const decodeTQ1_0: DecodeBlocks = (bytes, byteOffset, out, outOffset, blocks) => {
  for (let block = 0, at = byteOffset, to = outOffset; block < blocks; block++, at += 54, to += 256) {
    const scale = HALF_VALUES[bytes[at + 52] | (bytes[at + 53] << 8)];
    decodeDigits(bytes, at, 32, 5, scale, out, to);
    decodeDigits(bytes, at + 32, 16, 5, scale, out, to + 160);
    decodeDigits(bytes, at + 48, 4, 4, scale, out, to + 240);
  }
};

function decodeDigits(
  bytes: Uint8Array,
  at: number,
  count: number,
  digits: number,
  scale: number,
  out: Float32Array,
  to: number,
): void {
  for (let digit = 0; digit < digits; digit++) {
    const power = POWERS_OF_THREE[digit];
    for (let index = 0; index < count; index++) {
      const fraction = (bytes[at + index] * power) & 0xff;
      out[to + digit * count + index] = (((fraction * 3) >> 8) - 1) * scale;
    }
  }
}

/** Decodes TQ2_0: blocks of 256 ternary digits, four per byte. */
export const decodeTQ2_0: DecodeBlocks = (bytes, byteOffset, out, outOffset, blocks) => {
  for (let block = 0, at = byteOffset, to = outOffset; block < blocks; block++, at += 66) {
    const scale = HALF_VALUES[bytes[at + 64] | (bytes[at + 65] << 8)];
    for (let half = 0; half < 64; half += 32) {
      for (let shift = 0; shift < 8; shift += 2, to += 32) {
        for (let index = 0; index < 32; index++) {
          out[to + index] = (((bytes[at + half + index] >> shift) & 3) - 1) * scale;
        }
      }
    }
  }
};
