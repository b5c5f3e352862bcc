// IQ4_NL and IQ4_XS: 4-bit indices into one fixed table of unevenly spaced levels.
// The products fit f32 exactly (a half, a 6-bit scale and a 7-bit level are 24 bits together).
//
//   IQ4_NL  | d f16 | nibbles 16 |                               32 elements, 18 bytes, laid out as Q4_0
//   IQ4_XS  | d f16 | high u16 | low 4 | nibbles 128 |           256 elements in 8 groups of 32, 136 bytes
//   scale of group g: nibble g of the low bytes, topped by bits 2g and 2g + 1 of the u16, less 32

import { HALF_VALUES } from "./half.js";
import type { DecodeBlocks } from "./layout.js";

/** The levels, as the format fixes them. */
const LEVELS = Int8Array.of(-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113);

/** Decodes IQ4_NL: blocks of 32 4-bit indices into a table of levels. */
export const decodeIQ4_NL: DecodeBlocks = (bytes, byteOffset, out, outOffset, blocks) => {
  for (let block = 0, at = byteOffset, to = outOffset; block < blocks; block++, at += 18, to += 32) {
    const scale = HALF_VALUES[bytes[at] | (bytes[at + 1] << 8)];
    decodeGroup(bytes, at + 2, out, to, scale);
  }
};

/** Decodes IQ4_XS: blocks of 256 4-bit indices into a table of levels, with a 6-bit scale per group. */
export const decodeIQ4_XS: DecodeBlocks = (bytes, byteOffset, out, outOffset, blocks) => {
  for (let block = 0, at = byteOffset, to = outOffset; block < blocks; block++, at += 136) {
    const scale = HALF_VALUES[bytes[at] | (bytes[at + 1] << 8)];
    const highBits = bytes[at + 2] | (bytes[at + 3] << 8);
    for (let group = 0; group < 8; group++, to += 32) {
      const low = (bytes[at + 4 + (group >> 1)] >> ((group & 1) * 4)) & 15;
      const high = (highBits >> (2 * group)) & 3;
      decodeGroup(bytes, at + 8 + group * 16, out, to, scale * ((low | (high << 4)) - 32));
    }
  }
};

function decodeGroup(bytes: Uint8Array, nibbles: number, out: Float32Array, to: number, scale: number): void {
  for (let index = 0; index < 16; index++) {
    const pair = bytes[nibbles + index];
    out[to + index] = scale * LEVELS[pair & 15];
    out[to + index + 16] = scale * LEVELS[pair >> 4];
  }
}
