// The types without blocks: F32, F16, BF16, one little-endian number each.
// F32 is copied byte by byte, so that every pattern survives and no alignment is needed.

import { HALF_VALUES, floatToBfloat, floatToHalf } from "./half.js";
import type { DecodeBlocks, EncodeBlocks } from "./layout.js";

/** Copies F32 values. */
export const decodeF32: DecodeBlocks = (bytes, byteOffset, out, outOffset, blocks) => {
  const target = new Uint8Array(out.buffer, out.byteOffset + outOffset * 4, blocks * 4);
  target.set(bytes.subarray(byteOffset, byteOffset + blocks * 4));
};

/** Copies F32 values. */
export const encodeF32: EncodeBlocks = (values, valueOffset, out, byteOffset, blocks) => {
  out.set(new Uint8Array(values.buffer, values.byteOffset + valueOffset * 4, blocks * 4), byteOffset);
};

/** Widens F16 values. */
export const decodeF16: DecodeBlocks = (bytes, byteOffset, out, outOffset, blocks) => {
  for (let index = 0, at = byteOffset; index < blocks; index++, at += 2) {
    out[outOffset + index] = HALF_VALUES[bytes[at] | (bytes[at + 1] << 8)];
  }
};

/** Rounds values to F16. */
export const encodeF16: EncodeBlocks = (values, valueOffset, out, byteOffset, blocks) => {
  for (let index = 0, at = byteOffset; index < blocks; index++, at += 2) {
    const half = floatToHalf(values[valueOffset + index]);
    out[at] = half;
    out[at + 1] = half >> 8;
  }
};

/** Widens BF16 values. */
export const decodeBF16: DecodeBlocks = (bytes, byteOffset, out, outOffset, blocks) => {
  const bits = new Uint32Array(out.buffer, out.byteOffset + outOffset * 4, blocks);
  for (let index = 0, at = byteOffset; index < blocks; index++, at += 2) {
    bits[index] = (bytes[at] << 16) | (bytes[at + 1] << 24);
  }
};

/** Rounds values to BF16. */
export const encodeBF16: EncodeBlocks = (values, valueOffset, out, byteOffset, blocks) => {
  for (let index = 0, at = byteOffset; index < blocks; index++, at += 2) {
    const bfloat = floatToBfloat(values[valueOffset + index]);
    out[at] = bfloat;
    out[at + 1] = bfloat >> 8;
  }
};
