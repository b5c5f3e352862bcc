// MXFP4 and NVFP4: 4-bit floats (E2M1) under a power-of-two scale (E8M0) or a small float scale (UE4M3).
// The level table holds twice the E2M1 values, so the scale tables hold half the scales; all products are exact,
// save that a huge MXFP4 scale overflows to infinity on store, as it does in C.
//
//   MXFP4  | e u8 | nibbles 16 |          32 elements, 17 bytes, laid out as Q4_0
//   NVFP4  | scales 4 | nibbles 4 x 8 |   64 elements in 4 groups of 16, 36 bytes; a group is laid out as a small Q4_0

import type { DecodeBlocks } from "./layout.js";

/** Twice the value of each E2M1 code: sign, two exponent bits, one mantissa bit. Minus zero reads as zero. */
const LEVELS = Int8Array.of(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);

/** Half of 2^(code - 127); code 255, NaN in the OCP format, is an ordinary power of two in GGUF. */
const POWER_SCALES = Float32Array.from({ length: 256 }, (_, code) => 2 ** (code - 128));

/** Half of the UE4M3 value: four exponent bits (bias 7), three of mantissa, top bit ignored; 0x7f, NaN, reads as 0. */
const FLOAT_SCALES = Float32Array.from({ length: 256 }, (_, code) => {
  const exponent = (code >> 3) & 15;
  const mantissa = code & 7;
  if (code === 0x7f) return 0;
  return exponent === 0 ? mantissa * 2 ** -10 : (8 + mantissa) * 2 ** (exponent - 11);
});

/** Decodes MXFP4: blocks of 32 4-bit floats with a power-of-two scale. */
export const decodeMXFP4: DecodeBlocks = (bytes, byteOffset, out, outOffset, blocks) => {
  for (let block = 0, at = byteOffset, to = outOffset; block < blocks; block++, at += 17, to += 32) {
    decodeGroup(bytes, at + 1, 16, POWER_SCALES[bytes[at]], out, to);
  }
};

/** Decodes NVFP4: blocks of 64 4-bit floats in four groups, each with a small float scale. */
export const decodeNVFP4: DecodeBlocks = (bytes, byteOffset, out, outOffset, blocks) => {
  for (let block = 0, at = byteOffset, to = outOffset; block < blocks; block++, at += 36) {
    for (let group = 0; group < 4; group++, to += 16) {
      decodeGroup(bytes, at + 4 + group * 8, 8, FLOAT_SCALES[bytes[at + group]], out, to);
    }
  }
};

function decodeGroup(
  bytes: Uint8Array,
  nibbles: number,
  count: number,
  scale: number,
  out: Float32Array,
  to: number,
): void {
  for (let index = 0; index < count; index++) {
    const pair = bytes[nibbles + index];
    out[to + index] = LEVELS[pair & 15] * scale;
    out[to + index + count] = LEVELS[pair >> 4] * scale;
  }
}
