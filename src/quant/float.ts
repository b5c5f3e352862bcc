// The types without blocks: F32, F16, BF16, one little-endian number each.
// F32 is copied byte by byte, so that every pattern survives and no alignment is needed.

import { HALF_VALUES, floatToBfloat, floatToHalf } from "./half.js";

export function decodeF32(
  bytes: Uint8Array,
  byteOffset: number,
  out: Float32Array,
  outOffset: number,
  blocks: number,
): void {
  const target = new Uint8Array(out.buffer, out.byteOffset + outOffset * 4, blocks * 4);
  target.set(bytes.subarray(byteOffset, byteOffset + blocks * 4));
}

export function encodeF32(
  values: Float32Array,
  valueOffset: number,
  out: Uint8Array,
  byteOffset: number,
  blocks: number,
): void {
  out.set(new Uint8Array(values.buffer, values.byteOffset + valueOffset * 4, blocks * 4), byteOffset);
}

export function decodeF16(
  bytes: Uint8Array,
  byteOffset: number,
  out: Float32Array,
  outOffset: number,
  blocks: number,
): void {
  for (let index = 0, at = byteOffset; index < blocks; index++, at += 2) {
    out[outOffset + index] = HALF_VALUES[bytes[at] | (bytes[at + 1] << 8)];
  }
}

export function encodeF16(
  values: Float32Array,
  valueOffset: number,
  out: Uint8Array,
  byteOffset: number,
  blocks: number,
): void {
  for (let index = 0, at = byteOffset; index < blocks; index++, at += 2) {
    const half = floatToHalf(values[valueOffset + index]);
    out[at] = half;
    out[at + 1] = half >> 8;
  }
}

export function decodeBF16(
  bytes: Uint8Array,
  byteOffset: number,
  out: Float32Array,
  outOffset: number,
  blocks: number,
): void {
  const bits = new Uint32Array(out.buffer, out.byteOffset + outOffset * 4, blocks);
  for (let index = 0, at = byteOffset; index < blocks; index++, at += 2) {
    bits[index] = (bytes[at] << 16) | (bytes[at + 1] << 24);
  }
}

export function encodeBF16(
  values: Float32Array,
  valueOffset: number,
  out: Uint8Array,
  byteOffset: number,
  blocks: number,
): void {
  for (let index = 0, at = byteOffset; index < blocks; index++, at += 2) {
    const bfloat = floatToBfloat(values[valueOffset + index]);
    out[at] = bfloat;
    out[at + 1] = bfloat >> 8;
  }
}
