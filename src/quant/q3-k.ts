// Q3_K: 256 elements in 16 groups of 16, 3 bits each (2 low bits and a mask bit), a 6-bit scale per group.
// Value = d * (scale - 32) * (q - 4), where q's bit 2 is the mask bit; the product fits f32 exactly.
//
//   | mask 32 | quants 64 | scales 12 | d f16 |   110 bytes
//   mask byte i % 32, bit i / 32, belongs to element i; quants are laid out as in Q2_K
//   scales: group g's low 4 bits are a nibble of byte g % 8 (low for g < 8), its high 2 bits
//   are bits 2 * (g / 4) of byte 8 + g % 4

import { HALF_VALUES } from "./half.js";
import type { DecodeBlocks } from "./layout.js";

/** Decodes Q3_K: blocks of 256 with 6-bit scales. */
export const decodeQ3_K: DecodeBlocks = (bytes, byteOffset, out, outOffset, blocks) => {
  for (let block = 0, at = byteOffset, to = outOffset; block < blocks; block++, at += 110) {
    const scales = at + 96;
    const scale = HALF_VALUES[bytes[at + 108] | (bytes[at + 109] << 8)];
    for (let group = 0; group < 16; group++, to += 16) {
      const low = (bytes[scales + (group & 7)] >> (group < 8 ? 0 : 4)) & 15;
      const high = (bytes[scales + 8 + (group & 3)] >> (2 * (group >> 2))) & 3;
      const groupScale = scale * ((low | (high << 4)) - 32);
      const mask = at + (group & 1) * 16;
      const maskBit = group >> 1;
      const quants = at + 32 + (group >> 3) * 32 + (group & 1) * 16;
      const shift = ((group >> 1) & 3) * 2;
      for (let index = 0; index < 16; index++) {
        const level = ((bytes[quants + index] >> shift) & 3) | (((bytes[mask + index] >> maskBit) & 1) << 2);
        out[to + index] = groupScale * (level - 4);
      }
    }
  }
};
