// Q4_K and Q5_K: 256 elements in 8 groups of 32, with a 6-bit scale and a 6-bit minimum per group.
// Value = d * scale * q - dmin * minimum; every product fits f32 exactly, the subtraction rounds once on store.
//
//   Q4_K  | d f16 | dmin f16 | scales 12 | nibbles 128 |                  144 bytes
//   Q5_K  | d f16 | dmin f16 | scales 12 | high bits 32 | nibbles 128 |   176 bytes
//   nibbles: bytes 32p .. 32p + 31 hold group 2p in the low and group 2p + 1 in the high halves
//   high bits: bit g of byte i is bit 4 of element i of group g
//   scales: bytes 0-3 hold scales 0-3 and bytes 4-7 minima 0-3 in their low 6 bits; byte 8 + k holds the low
//   4 bits of scale 4 + k and minimum 4 + k, whose upper 2 bits top bytes k and 4 + k

import { HALF_VALUES, floatToHalf } from "./half.js";
import { OffsetFit } from "./scale-search.js";
import { NAN_HALF } from "./simple.js";
import type { DecodeBlocks, EncodeBlocks } from "./layout.js";

const GROUPS = 8;
const GROUP_ELEMENTS = 32;
const SCALE_LEVELS = 63;
const Q4_LEVELS = 15;

function groupScale(bytes: Uint8Array, scales: number, group: number): number {
  if (group < 4) return bytes[scales + group] & 63;
  return (bytes[scales + group + 4] & 15) | ((bytes[scales + group - 4] >> 6) << 4);
}

function groupMinimum(bytes: Uint8Array, scales: number, group: number): number {
  if (group < 4) return bytes[scales + group + 4] & 63;
  return (bytes[scales + group + 4] >> 4) | ((bytes[scales + group] >> 6) << 4);
}

/** Decodes Q4_K: blocks of 256 with 6-bit scales and minimums. */
export const decodeQ4_K: DecodeBlocks = (bytes, byteOffset, out, outOffset, blocks) => {
  for (let block = 0, at = byteOffset, to = outOffset; block < blocks; block++, at += 144) {
    const scale = HALF_VALUES[bytes[at] | (bytes[at + 1] << 8)];
    const minimumScale = HALF_VALUES[bytes[at + 2] | (bytes[at + 3] << 8)];
    for (let group = 0; group < GROUPS; group += 2, to += 64) {
      const lowScale = scale * groupScale(bytes, at + 4, group);
      const lowMinimum = minimumScale * groupMinimum(bytes, at + 4, group);
      const highScale = scale * groupScale(bytes, at + 4, group + 1);
      const highMinimum = minimumScale * groupMinimum(bytes, at + 4, group + 1);
      const nibbles = at + 16 + group * 16;
      for (let index = 0; index < GROUP_ELEMENTS; index++) {
        const pair = bytes[nibbles + index];
        out[to + index] = lowScale * (pair & 15) - lowMinimum;
        out[to + index + GROUP_ELEMENTS] = highScale * (pair >> 4) - highMinimum;
      }
    }
  }
};

/** Decodes Q5_K: blocks of 256 with 6-bit scales and minimums. */
export const decodeQ5_K: DecodeBlocks = (bytes, byteOffset, out, outOffset, blocks) => {
  for (let block = 0, at = byteOffset, to = outOffset; block < blocks; block++, at += 176) {
    const scale = HALF_VALUES[bytes[at] | (bytes[at + 1] << 8)];
    const minimumScale = HALF_VALUES[bytes[at + 2] | (bytes[at + 3] << 8)];
    const high = at + 16;
    for (let group = 0; group < GROUPS; group += 2, to += 64) {
      const lowScale = scale * groupScale(bytes, at + 4, group);
      const lowMinimum = minimumScale * groupMinimum(bytes, at + 4, group);
      const highScale = scale * groupScale(bytes, at + 4, group + 1);
      const highMinimum = minimumScale * groupMinimum(bytes, at + 4, group + 1);
      const nibbles = at + 48 + group * 16;
      for (let index = 0; index < GROUP_ELEMENTS; index++) {
        const pair = bytes[nibbles + index];
        const fifth = bytes[high + index] >> group;
        out[to + index] = lowScale * ((pair & 15) | ((fifth & 1) << 4)) - lowMinimum;
        out[to + index + GROUP_ELEMENTS] = highScale * ((pair >> 4) | ((fifth & 2) << 3)) - highMinimum;
      }
    }
  }
};

const fit = new OffsetFit(GROUP_ELEMENTS, Q4_LEVELS);
const groupScales = new Float64Array(GROUPS);
const groupMinima = new Float64Array(GROUPS);

/** Encodes Q4_K with a search for the scales and minimums that lose least. */
export const encodeQ4_K: EncodeBlocks = (values, valueOffset, out, byteOffset, blocks) => {
  for (let block = 0, from = valueOffset, at = byteOffset; block < blocks; block++, from += 256, at += 144) {
    out.fill(0, at, at + 144);
    let largestScale = 0;
    let largestMinimum = 0;
    let finite = true;
    for (let group = 0; group < GROUPS; group++) {
      finite = fit.search(values, from + group * GROUP_ELEMENTS) && finite;
      groupScales[group] = fit.scale;
      groupMinima[group] = fit.minimum;
      largestScale = Math.max(largestScale, fit.scale);
      largestMinimum = Math.max(largestMinimum, fit.minimum);
    }
    const scaleHalf = finite ? floatToHalf(largestScale / SCALE_LEVELS) : NAN_HALF;
    const minimumHalf = finite ? floatToHalf(largestMinimum / SCALE_LEVELS) : NAN_HALF;
    out[at] = scaleHalf;
    out[at + 1] = scaleHalf >> 8;
    out[at + 2] = minimumHalf;
    out[at + 3] = minimumHalf >> 8;
    if (finite) encodeGroups(values, from, out, at, HALF_VALUES[scaleHalf], HALF_VALUES[minimumHalf]);
  }
};

/** Quantizes the scales by the f16 factors as stored, then chooses levels by the scales as quantized. */
function encodeGroups(
  values: Float32Array,
  from: number,
  out: Uint8Array,
  at: number,
  scale: number,
  minimumScale: number,
): void {
  for (let group = 0; group < GROUPS; group++) {
    const scaleCode = toCode(groupScales[group], scale);
    const minimumCode = toCode(groupMinima[group], minimumScale);
    if (group < 4) {
      out[at + 4 + group] |= scaleCode;
      out[at + 8 + group] |= minimumCode;
    } else {
      out[at + 8 + group] |= (scaleCode & 15) | ((minimumCode & 15) << 4);
      out[at + group] |= (scaleCode >> 4) << 6;
      out[at + 4 + group] |= (minimumCode >> 4) << 6;
    }
    const step = scale * scaleCode;
    // A group whose step is 0 decodes to its minimum whatever its levels are.
    if (step === 0 || !Number.isFinite(step)) continue;
    const minimum = minimumScale * minimumCode;
    const nibbles = at + 16 + (group >> 1) * GROUP_ELEMENTS;
    const shift = (group & 1) * 4;
    for (let index = 0; index < GROUP_ELEMENTS; index++) {
      const level = Math.round((values[from + group * GROUP_ELEMENTS + index] + minimum) / step);
      out[nibbles + index] |= Math.max(0, Math.min(Q4_LEVELS, level)) << shift;
    }
  }
}

function toCode(wanted: number, unit: number): number {
  return unit > 0 ? Math.max(0, Math.min(SCALE_LEVELS, Math.round(wanted / unit))) : 0;
}
