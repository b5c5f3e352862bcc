// Q2_K: 256 elements in 16 groups of 16, 2 bits each, a 4-bit scale and a 4-bit minimum per group.
// Value = d * scale * q - dmin * minimum; every product fits f32 exactly, the subtraction rounds once on store.
//
//   | scales 16: min:4 scale:4 | quants 64 | d f16 | dmin f16 |   84 bytes
//   quants byte b of half h (32 bytes) holds elements 128h + b, + 32, + 64, + 96, from the low bits up

import { HALF_VALUES } from "./half.js";
import type { DecodeBlocks } from "./layout.js";

/** Decodes Q2_K: blocks of 256 with 4-bit scales and minimums. */
export const decodeQ2_K: DecodeBlocks = (bytes, byteOffset, out, outOffset, blocks) => {
  for (let block = 0, at = byteOffset, to = outOffset; block < blocks; block++, at += 84) {
    const scale = HALF_VALUES[bytes[at + 80] | (bytes[at + 81] << 8)];
    const minimumScale = HALF_VALUES[bytes[at + 82] | (bytes[at + 83] << 8)];
    for (let group = 0; group < 16; group++, to += 16) {
      const packed = bytes[at + group];
      const groupScale = scale * (packed & 15);
      const groupMinimum = minimumScale * (packed >> 4);
      const quants = at + 16 + (group >> 3) * 32 + (group & 1) * 16;
      const shift = ((group >> 1) & 3) * 2;
      for (let index = 0; index < 16; index++) {
        out[to + index] = groupScale * ((bytes[quants + index] >> shift) & 3) - groupMinimum;
      }
    }
  }
};
