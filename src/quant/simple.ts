// Blocks of 32 elements with one scale: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0 (ggml's first formats).
// Element i < 16 is the low nibble of byte i, element i + 16 the high nibble of the same byte.
// An integer of up to 8 bits times a half fits f32, so the store into the Float32Array rounds once, as C floats do.
//
//   Q4_0  | d f16 | nibbles 16 |                        (q - 8) * d
//   Q4_1  | d f16 | m f16 | nibbles 16 |                q * d + m
//   Q5_0  | d f16 | high bits 4 | nibbles 16 |          (q - 16) * d, bit i of the u32 is bit 4 of element i
//   Q5_1  | d f16 | m f16 | high bits 4 | nibbles 16 |  q * d + m
//   Q8_0  | d f16 | int8 32 |                           q * d

import { HALF_VALUES, floatToHalf } from "./half.js";
import type { DecodeBlocks, EncodeBlocks } from "./layout.js";

const ELEMENTS = 32;
const HALF_ELEMENTS = 16;
/**
 * The scale that is stored for a block that cannot be encoded, so that it decodes to NaN and not to plausible numbers.
 */
export const NAN_HALF = 0x7e00;

/** Decodes Q4_0: blocks of 32, (q - 8) * d. */
export const decodeQ4_0: DecodeBlocks = (bytes, byteOffset, out, outOffset, blocks) => {
  for (let block = 0, at = byteOffset, to = outOffset; block < blocks; block++, at += 18, to += ELEMENTS) {
    const scale = HALF_VALUES[bytes[at] | (bytes[at + 1] << 8)];
    for (let index = 0; index < HALF_ELEMENTS; index++) {
      const pair = bytes[at + 2 + index];
      out[to + index] = ((pair & 15) - 8) * scale;
      out[to + index + HALF_ELEMENTS] = ((pair >> 4) - 8) * scale;
    }
  }
};

/** Decodes Q4_1: blocks of 32, q * d + m. */
export const decodeQ4_1: DecodeBlocks = (bytes, byteOffset, out, outOffset, blocks) => {
  for (let block = 0, at = byteOffset, to = outOffset; block < blocks; block++, at += 20, to += ELEMENTS) {
    const scale = HALF_VALUES[bytes[at] | (bytes[at + 1] << 8)];
    const minimum = HALF_VALUES[bytes[at + 2] | (bytes[at + 3] << 8)];
    for (let index = 0; index < HALF_ELEMENTS; index++) {
      const pair = bytes[at + 4 + index];
      out[to + index] = (pair & 15) * scale + minimum;
      out[to + index + HALF_ELEMENTS] = (pair >> 4) * scale + minimum;
    }
  }
};

/** Decodes Q5_0: blocks of 32, (q - 16) * d. */
export const decodeQ5_0: DecodeBlocks = (bytes, byteOffset, out, outOffset, blocks) => {
  for (let block = 0, at = byteOffset, to = outOffset; block < blocks; block++, at += 22, to += ELEMENTS) {
    const scale = HALF_VALUES[bytes[at] | (bytes[at + 1] << 8)];
    const highLower = bytes[at + 2] | (bytes[at + 3] << 8);
    const highUpper = bytes[at + 4] | (bytes[at + 5] << 8);
    for (let index = 0; index < HALF_ELEMENTS; index++) {
      const pair = bytes[at + 6 + index];
      out[to + index] = (((pair & 15) | (((highLower >> index) & 1) << 4)) - 16) * scale;
      out[to + index + HALF_ELEMENTS] = (((pair >> 4) | (((highUpper >> index) & 1) << 4)) - 16) * scale;
    }
  }
};

/** Decodes Q5_1: blocks of 32, q * d + m. */
export const decodeQ5_1: DecodeBlocks = (bytes, byteOffset, out, outOffset, blocks) => {
  for (let block = 0, at = byteOffset, to = outOffset; block < blocks; block++, at += 24, to += ELEMENTS) {
    const scale = HALF_VALUES[bytes[at] | (bytes[at + 1] << 8)];
    const minimum = HALF_VALUES[bytes[at + 2] | (bytes[at + 3] << 8)];
    const highLower = bytes[at + 4] | (bytes[at + 5] << 8);
    const highUpper = bytes[at + 6] | (bytes[at + 7] << 8);
    for (let index = 0; index < HALF_ELEMENTS; index++) {
      const pair = bytes[at + 8 + index];
      out[to + index] = ((pair & 15) | (((highLower >> index) & 1) << 4)) * scale + minimum;
      out[to + index + HALF_ELEMENTS] = ((pair >> 4) | (((highUpper >> index) & 1) << 4)) * scale + minimum;
    }
  }
};

/** Decodes Q8_0: blocks of 32, q * d. */
export const decodeQ8_0: DecodeBlocks = (bytes, byteOffset, out, outOffset, blocks) => {
  for (let block = 0, at = byteOffset, to = outOffset; block < blocks; block++, at += 34, to += ELEMENTS) {
    const scale = HALF_VALUES[bytes[at] | (bytes[at + 1] << 8)];
    for (let index = 0; index < ELEMENTS; index++) {
      out[to + index] = ((bytes[at + 2 + index] << 24) >> 24) * scale;
    }
  }
};

/** The value of largest magnitude with its sign; NaN if any value is not finite. */
function extreme(values: Float32Array, from: number, count: number): number {
  let found = 0;
  for (let index = from; index < from + count; index++) {
    const value = values[index];
    if (!Number.isFinite(value)) return Number.NaN;
    if (Math.abs(value) > Math.abs(found)) found = value;
  }
  return found;
}

/** 1 / scale in f32, or 0 for a block of zeros. */
function inverse(scale: number): number {
  return scale === 0 ? 0 : Math.fround(1 / scale);
}

// Both encoders round in f32 at every step and therefore write exactly the bytes of ggml's reference quantizer.

/** Encodes Q4_0, byte for byte as ggml's reference quantizer. */
export const encodeQ4_0: EncodeBlocks = (values, valueOffset, out, byteOffset, blocks) => {
  for (let block = 0, from = valueOffset, at = byteOffset; block < blocks; block++, from += ELEMENTS, at += 18) {
    const peak = extreme(values, from, ELEMENTS);
    const scale = Math.fround(peak / -8);
    const half = Number.isNaN(peak) ? NAN_HALF : floatToHalf(scale);
    const scaleInverse = inverse(scale);
    out[at] = half;
    out[at + 1] = half >> 8;
    for (let index = 0; index < HALF_ELEMENTS; index++) {
      const low = toNibble(values[from + index], scaleInverse);
      const high = toNibble(values[from + index + HALF_ELEMENTS], scaleInverse);
      out[at + 2 + index] = low | (high << 4);
    }
  }
};

function toNibble(value: number, scaleInverse: number): number {
  return Math.min(15, Math.fround(Math.fround(value * scaleInverse) + 8.5) | 0);
}

/** Encodes Q8_0, byte for byte as ggml's reference quantizer. */
export const encodeQ8_0: EncodeBlocks = (values, valueOffset, out, byteOffset, blocks) => {
  for (let block = 0, from = valueOffset, at = byteOffset; block < blocks; block++, from += ELEMENTS, at += 34) {
    const peak = Math.abs(extreme(values, from, ELEMENTS));
    const scale = Math.fround(peak / 127);
    const half = Number.isNaN(peak) ? NAN_HALF : floatToHalf(scale);
    const scaleInverse = inverse(scale);
    out[at] = half;
    out[at + 1] = half >> 8;
    for (let index = 0; index < ELEMENTS; index++) {
      const level = Math.fround(values[from + index] * scaleInverse);
      // Ties round away from zero; Math.round alone would round -0.5 to 0.
      out[at + 2 + index] = level < 0 ? -Math.round(-level) : Math.round(level);
    }
  }
};
