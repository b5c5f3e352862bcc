// Q6_K: 256 elements in 16 groups of 16, 6 bits each, a signed 8-bit scale per group.
// Value = (d * scale) * (q - 32). d * scale fits f32 exactly; the last product may not, and rounds once on store.
//
//   | low nibbles 128 | high pairs 64 | scales int8 16 | d f16 |   210 bytes
//   half h of 128 elements, b < 32:
//     low byte 64h + b       elements b (low nibble)  and b + 64 (high nibble)
//     low byte 64h + 32 + b  elements b + 32          and b + 96
//     high byte 32h + b      two bits each for b, b + 32, b + 64, b + 96, from the low bits up

import { HALF_VALUES, floatToHalf } from "./half.js";
import { SymmetricFit } from "./scale-search.js";
import { NAN_HALF } from "./simple.js";
import type { DecodeBlocks, EncodeBlocks } from "./layout.js";

const GROUPS = 16;
const GROUP_ELEMENTS = 16;
const LEVEL_OFFSET = 32;

/** Decodes Q6_K: blocks of 256 with 8-bit scales. */
export const decodeQ6_K: DecodeBlocks = (bytes, byteOffset, out, outOffset, blocks) => {
  for (let block = 0, at = byteOffset; block < blocks; block++, at += 210) {
    const scale = HALF_VALUES[bytes[at + 208] | (bytes[at + 209] << 8)];
    for (let quarter = 0; quarter < 4; quarter++) {
      // Sixteen columns of one half: columns 0-15 and 16-31 have different scales.
      const half = quarter >> 1;
      const column = (quarter & 1) * 16;
      const low = at + half * 64 + column;
      const high = at + 128 + half * 32 + column;
      const scales = at + 192 + half * 8 + (quarter & 1);
      const scale0 = scale * ((bytes[scales] << 24) >> 24);
      const scale1 = scale * ((bytes[scales + 2] << 24) >> 24);
      const scale2 = scale * ((bytes[scales + 4] << 24) >> 24);
      const scale3 = scale * ((bytes[scales + 6] << 24) >> 24);
      const to = outOffset + block * 256 + half * 128 + column;
      for (let index = 0; index < 16; index++) {
        const first = bytes[low + index];
        const second = bytes[low + 32 + index];
        const pairs = bytes[high + index];
        out[to + index] = scale0 * (((first & 15) | ((pairs & 3) << 4)) - LEVEL_OFFSET);
        out[to + index + 32] = scale1 * (((second & 15) | ((pairs & 12) << 2)) - LEVEL_OFFSET);
        out[to + index + 64] = scale2 * (((first >> 4) | (pairs & 48)) - LEVEL_OFFSET);
        out[to + index + 96] = scale3 * (((second >> 4) | ((pairs & 192) >> 2)) - LEVEL_OFFSET);
      }
    }
  }
};

const fit = new SymmetricFit(GROUP_ELEMENTS, LEVEL_OFFSET);
const groupScales = new Float64Array(GROUPS);

/** Encodes Q6_K with a search for the scales that lose least. */
export const encodeQ6_K: EncodeBlocks = (values, valueOffset, out, byteOffset, blocks) => {
  for (let block = 0, from = valueOffset, at = byteOffset; block < blocks; block++, from += 256, at += 210) {
    out.fill(0, at, at + 210);
    let largest = 0;
    let finite = true;
    for (let group = 0; group < GROUPS; group++) {
      finite = fit.search(values, from + group * GROUP_ELEMENTS) && finite;
      groupScales[group] = fit.scale;
      if (Math.abs(fit.scale) > Math.abs(largest)) largest = fit.scale;
    }
    // The largest scale becomes -128, the one int8 code without a positive counterpart.
    const half = finite ? floatToHalf(largest === 0 ? 0 : largest / -128) : NAN_HALF;
    out[at + 208] = half;
    out[at + 209] = half >> 8;
    const scale = HALF_VALUES[half];
    if (!Number.isFinite(scale)) continue;
    for (let group = 0; group < GROUPS; group++) {
      const code = scale === 0 ? 0 : Math.max(-128, Math.min(127, Math.round(groupScales[group] / scale)));
      out[at + 192 + group] = code;
      encodeGroup(values, from + group * GROUP_ELEMENTS, out, at, group, scale * code);
    }
  }
};

function encodeGroup(
  values: Float32Array,
  from: number,
  out: Uint8Array,
  at: number,
  group: number,
  step: number,
): void {
  const half = group >> 3;
  const position = (group & 7) >> 1;
  const column = (group & 1) * 16;
  const low = at + half * 64 + (position & 1) * 32 + column;
  const lowShift = (position >> 1) * 4;
  const high = at + 128 + half * 32 + column;
  const highShift = position * 2;
  for (let index = 0; index < GROUP_ELEMENTS; index++) {
    const nearest = step === 0 ? 0 : Math.round(values[from + index] / step);
    const level = Math.max(-LEVEL_OFFSET, Math.min(LEVEL_OFFSET - 1, nearest)) + LEVEL_OFFSET;
    out[low + index] |= (level & 15) << lowShift;
    out[high + index] |= (level >> 4) << highShift;
  }
}
