// Random bytes that are valid blocks of every supported type, with finite scales that give the decoded values a
// wished-for size. Made without the encoders, so that models stay the same when an encoder improves, and so that
// types without one and byte patterns that no encoder writes are tried too.

import { encodeTensor } from "../quant/codec.js";
import { floatToHalf } from "../quant/half.js";
import { layoutByName, type SupportedTypeName } from "../quant/layout.js";
import { type Dice, drawFloats } from "./dice.js";

/** Writes one block at `at`, whose values have about the root mean square `size`. */
type BlockMaker = (dice: Dice, bytes: Uint8Array, at: number, size: number) => void;

/** The type names of one number each, whose bytes the encoders' rounding fixes. */
type PlainType = "F32" | "F16" | "BF16";

/** Root mean square of what random quants decode to under a scale of 1. */
const UNIT_SIZE = {
  Q4_0: 4.64,
  Q4_1: 4.61,
  Q5_0: 9.25,
  Q5_1: 9.23,
  Q8_0: 73.6,
  Q2_K: 13.9,
  Q3_K: 43.3,
  Q4_K: 258,
  Q5_K: 527,
  Q6_K: 1360,
  IQ4_NL: 67.4,
  IQ4_XS: 1246,
  TQ1_0: 0.816,
  TQ2_0: 0.816,
  FP4: 2.93,
} as const;

const MAKERS: { readonly [K in Exclude<SupportedTypeName, PlainType>]: BlockMaker } = {
  Q4_0: scaled("Q4_0", 0, UNIT_SIZE.Q4_0),
  Q4_1: offset("Q4_1", 0, UNIT_SIZE.Q4_1, -7.5),
  Q5_0: scaled("Q5_0", 0, UNIT_SIZE.Q5_0),
  Q5_1: offset("Q5_1", 0, UNIT_SIZE.Q5_1, -15.5),
  Q8_0: scaled("Q8_0", 0, UNIT_SIZE.Q8_0),
  Q2_K: offset("Q2_K", 80, UNIT_SIZE.Q2_K, 1.5),
  Q3_K: scaled("Q3_K", 108, UNIT_SIZE.Q3_K),
  Q4_K: offset("Q4_K", 0, UNIT_SIZE.Q4_K, 7.5),
  Q5_K: offset("Q5_K", 0, UNIT_SIZE.Q5_K, 15.5),
  Q6_K: scaled("Q6_K", 208, UNIT_SIZE.Q6_K),
  IQ4_NL: scaled("IQ4_NL", 0, UNIT_SIZE.IQ4_NL),
  IQ4_XS: scaled("IQ4_XS", 0, UNIT_SIZE.IQ4_XS),
  TQ1_0: packedTrits,
  TQ2_0: pairedTrits,
  MXFP4: powerScaled,
  NVFP4: floatScaled,
};

/** A tensor of random values with about the root mean square `size`. */
export function randomTensor(dice: Dice, type: SupportedTypeName, elements: number, size: number): Uint8Array {
  if (type === "F32" || type === "F16" || type === "BF16") {
    return encodeTensor(
      type,
      drawFloats(elements, () => dice.bell() * size),
    );
  }
  const { blockElements, blockBytes } = layoutByName(type);
  const bytes = new Uint8Array((elements / blockElements) * blockBytes);
  for (let at = 0; at < bytes.length; at += blockBytes) MAKERS[type](dice, bytes, at, size);
  return bytes;
}

/** Types whose blocks have one scale of f16, with its offset. */
const HALF_SCALES: Partial<Record<SupportedTypeName, number>> = {
  Q4_0: 0,
  Q5_0: 0,
  Q8_0: 0,
  IQ4_NL: 0,
  TQ1_0: 52,
  TQ2_0: 64,
};

/** Blocks whose bytes are all possible ones, also those that quantisers never write; scales give values of f16's range. */
export function anyBlocks(dice: Dice, type: SupportedTypeName, blocks: number): Uint8Array {
  const { blockBytes } = layoutByName(type);
  const bytes = new Uint8Array(blocks * blockBytes);
  for (let index = 0; index < bytes.length; index++) bytes[index] = dice.below(256);
  const scaleAt = HALF_SCALES[type];
  for (let at = 0; at < bytes.length; at += blockBytes) {
    if (scaleAt !== undefined) putHalf(bytes, at + scaleAt, dice.between(0.001, 0.1));
    if (type === "MXFP4") bytes[at] = 118 + dice.below(20);
  }
  return bytes;
}

function fill(dice: Dice, bytes: Uint8Array, at: number, count: number): void {
  // -128 is left out: quantisers are symmetric, and fast kernels elsewhere rely on it.
  for (let index = at; index < at + count; index++) bytes[index] = (dice.below(255) + 129) & 0xff;
}

function putHalf(bytes: Uint8Array, at: number, value: number): void {
  const half = floatToHalf(value);
  bytes[at] = half;
  bytes[at + 1] = half >> 8;
}

function scaled(type: SupportedTypeName, scaleAt: number, unit: number): BlockMaker {
  const { blockBytes } = layoutByName(type);
  return (dice, bytes, at, size) => {
    fill(dice, bytes, at, blockBytes);
    putHalf(bytes, at + scaleAt, (size / unit) * dice.between(0.6, 1.4));
  };
}

/** A minimum follows the scale; `ratio` times the scale it brings the mean to zero. */
function offset(type: SupportedTypeName, scaleAt: number, unit: number, ratio: number): BlockMaker {
  const { blockBytes } = layoutByName(type);
  return (dice, bytes, at, size) => {
    fill(dice, bytes, at, blockBytes);
    const scale = (size / unit) * dice.between(0.6, 1.4);
    putHalf(bytes, at + scaleAt, scale);
    putHalf(bytes, at + scaleAt + 2, scale * ratio);
  };
}

/** Only bytes that stand for five (at the end four) base-3 digits: ⌈n · 256 / 243⌉. */
function packedTrits(dice: Dice, bytes: Uint8Array, at: number, size: number): void {
  for (let index = 0; index < 48; index++) bytes[at + index] = Math.ceil((dice.below(243) * 256) / 243);
  for (let index = 48; index < 52; index++) bytes[at + index] = Math.ceil((dice.below(81) * 3 * 256) / 243);
  putHalf(bytes, at + 52, (size / UNIT_SIZE.TQ1_0) * dice.between(0.6, 1.4));
}

/** The fourth code of two bits is left out: it stands for nothing in a ternary format. */
function pairedTrits(dice: Dice, bytes: Uint8Array, at: number, size: number): void {
  for (let index = 0; index < 64; index++) {
    bytes[at + index] = dice.below(3) | (dice.below(3) << 2) | (dice.below(3) << 4) | (dice.below(3) << 6);
  }
  putHalf(bytes, at + 64, (size / UNIT_SIZE.TQ2_0) * dice.between(0.6, 1.4));
}

function powerScaled(dice: Dice, bytes: Uint8Array, at: number, size: number): void {
  fill(dice, bytes, at + 1, 16);
  bytes[at] = 127 + Math.round(Math.log2(size / UNIT_SIZE.FP4)) + dice.below(3) - 1;
}

function floatScaled(dice: Dice, bytes: Uint8Array, at: number, size: number): void {
  fill(dice, bytes, at + 4, 32);
  for (let group = 0; group < 4; group++)
    bytes[at + group] = nearestSmallFloat((size / UNIT_SIZE.FP4) * dice.between(0.6, 1.4));
}

/** The UE4M3 code just above a value: four bits of exponent with bias 7, three of mantissa. */
function nearestSmallFloat(value: number): number {
  for (let code = 1; code < 0x7e; code++) {
    const exponent = code >> 3;
    const mantissa = code & 7;
    const decoded = exponent === 0 ? mantissa * 2 ** -9 : (8 + mantissa) * 2 ** (exponent - 10);
    if (decoded >= value) return code;
  }
  return 0x7e;
}
