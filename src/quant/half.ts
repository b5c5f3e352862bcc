// 16-bit floats: IEEE half (F16) and bfloat16 (BF16), to and from f32 by bit arithmetic.
// Widening is exact for every pattern (a signalling NaN becomes quiet, as hardware does it);
// narrowing rounds to nearest, ties to even.
//
//   F16   s eeeee mmmmmmmmmm           bias 15      BF16  s eeeeeeee mmmmmmm   the upper half of an f32
//   F32   s eeeeeeee mmmmmmmmmmmmmmmmmmmmmmm        bias 127

const F32_INFINITY = 0x7f800000;
const F32_QUIET = 0x00400000;
/** 65520, the first magnitude that rounds past the largest half, 65504. */
const HALF_OVERFLOW = 0x477ff000;
/** 2^-14, the smallest normal half. */
const HALF_NORMAL = 0x38800000;
/** 2^-25, half of the smallest half: it ties to zero, and nothing below it rounds up. */
const HALF_UNDERFLOW = 0x33000000;

const floatScratch = new Float32Array(1);
const bitsScratch = new Uint32Array(floatScratch.buffer);

/** The value of every half by its bit pattern: block decoders look up one or more scales per block. */
export const HALF_VALUES: Float32Array = widenEveryHalf();

function widenEveryHalf(): Float32Array {
  const values = new Float32Array(0x10000);
  const bits = new Uint32Array(values.buffer);
  for (let half = 0; half < 0x10000; half++) {
    const sign = (half & 0x8000) << 16;
    const exponent = (half >> 10) & 0x1f;
    const mantissa = half & 0x3ff;
    if (exponent === 0) {
      values[half] = mantissa * 2 ** -24 * (sign === 0 ? 1 : -1);
    } else if (exponent === 0x1f) {
      bits[half] = sign | F32_INFINITY | (mantissa === 0 ? 0 : F32_QUIET | (mantissa << 13));
    } else {
      bits[half] = sign | ((exponent + 112) << 23) | (mantissa << 13);
    }
  }
  return values;
}

/** The bits of the nearest half-precision float. */
export function floatToHalf(value: number): number {
  floatScratch[0] = value;
  const sign = (bitsScratch[0] >>> 16) & 0x8000;
  const magnitude = bitsScratch[0] & 0x7fffffff;
  if (magnitude > F32_INFINITY) return sign | 0x7e00 | ((magnitude >>> 13) & 0x3ff);
  if (magnitude >= HALF_OVERFLOW) return sign | 0x7c00;
  if (magnitude >= HALF_NORMAL) {
    const rebiased = magnitude - (112 << 23);
    return sign | ((rebiased + 0xfff + ((rebiased >>> 13) & 1)) >>> 13);
  }
  if (magnitude <= HALF_UNDERFLOW) return sign;
  // Subnormal: the mantissa with its hidden bit, in units of 2^-24.
  const mantissa = (magnitude & 0x7fffff) | 0x800000;
  const shift = 126 - (magnitude >>> 23);
  const units = mantissa >>> shift;
  const rest = mantissa & ((1 << shift) - 1);
  const middle = 1 << (shift - 1);
  const roundsUp = rest > middle || (rest === middle && (units & 1) === 1);
  return sign | (units + (roundsUp ? 1 : 0));
}

/** The bits of the nearest bfloat16. */
export function floatToBfloat(value: number): number {
  floatScratch[0] = value;
  const bits = bitsScratch[0];
  // A NaN whose payload lies in the lower half alone would otherwise turn into infinity.
  if ((bits & 0x7fffffff) > F32_INFINITY) return (bits >>> 16) | 0x40;
  return (bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16;
}
