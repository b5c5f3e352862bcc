// Weights as halves, 16 of a group at a time, for the matrix units: HalfSource<Type> is Format<Type> of
// weights/weights.h (and the plain types) with the decoded group as eight words of two halves. Scale and minimum are
// rounded to halves, and so is each weight: at most 2 in 2048 off. Plain weights larger than a half can be become the
// largest half.
#pragma once
#include "device/half-pair.h"
#include "weights/weights.h"

/**
 * Bits by which a format holds its levels higher than the file does. Levels are taken down by as many and scales up, so
 * that a scale which is a half in the file stays one: small halves have few bits to lose.
 */
DEVICE constexpr int level_shift(int type) {
  return type == kQ4_0    ? 4
         : type == kQ5_0  ? 3
         : type == kQ6_K  ? 2
         : type == kQ3_K  ? 5
         : type == kMXFP4 ? 1
         : type == kTQ2_0 ? 6
                          : 0;
}

/** Four signed bytes to four halves: a byte below the right exponent is 2^(10 − Shift) + (byte + 128) / 2^Shift. */
template <int Shift>
DEVICE void quad_to_halves(u32 quad, u32 scale, u32 minus_minimum, u32& first, u32& second) {
  const u32 exponent = (0x64u - 4u * Shift) * 0x01010101u;
  const u32 zero = (0x6480u - 0x400u * Shift) * 0x00010001u;
  const u32 raised = quad ^ 0x80808080u;
  first = pair_fma(pair_subtract(bytes_below<0>(raised, exponent), zero), scale, minus_minimum);
  second = pair_fma(pair_subtract(bytes_below<1>(raised, exponent), zero), scale, minus_minimum);
}

/** The same, the first pair of bytes 0 and 2 and the second of 1 and 3: what needs no bytes moved. */
template <int Shift>
DEVICE void quad_to_crossed(u32 quad, u32 scale, u32 minus_minimum, u32& first, u32& second) {
  const u32 mask = 0x00ff00ffu, exponent = (((0x64u - 4u * Shift) << 8) | 0x80u) * 0x00010001u;
  const u32 zero = (0x6480u - 0x400u * Shift) * 0x00010001u;
  first = pair_fma(pair_subtract(masked_flip(quad, mask, exponent), zero), scale, minus_minimum);
  second = pair_fma(pair_subtract(masked_flip(quad >> 8, mask, exponent), zero), scale, minus_minimum);
}

/** Nibbles in the same order, less `Less`: those of the second group stay where they are, below the exponent for that. */
template <int Less>
DEVICE void nibbles_to_crossed(const Words4& nibbles, int group, u32 scale, u32 minus_minimum, u32 (&words)[8]) {
  const u32 mask = group == 0 ? 0x000f000fu : 0x00f000f0u, exponent = group == 0 ? 0x64006400u : 0x54005400u;
  const u32 zero = exponent + u32(group == 0 ? Less : Less * 16) * 0x00010001u;
  const u32 fours[4] = {nibbles.x, nibbles.y, nibbles.z, nibbles.w};
#pragma unroll
  for (int i = 0; i < 4; i++) {
    const u32 even = masked_flip(fours[i], mask, exponent), odd = masked_flip(fours[i] >> 8, mask, exponent);
    words[2 * i] = pair_fma(pair_subtract(even, zero), scale, minus_minimum);
    words[2 * i + 1] = pair_fma(pair_subtract(odd, zero), scale, minus_minimum);
  }
}

/** Scale and minus minimum of a group, each twice as a half. */
struct GroupPairs {
  u32 scale, minus_minimum;
};

template <int Type>
DEVICE GroupPairs group_pairs(const Block& values, int group) {
  const float scale = values.scale[group] * float(1 << level_shift(Type)), minimum = -values.minimum[group];
  return {float2_to_half2(scale, scale), Format<Type>::has_minimum ? float2_to_half2(minimum, minimum) : 0};
}

/** Halves of a group by its decoded quads. */
template <int Type>
struct HalvesOfQuads : Format<Type> {
  typedef typename Format<Type>::Raw Raw;

  DEVICE void halves(const Raw& raw, int block, int group, u32 (&words)[8]) {
    const Block values = Format<Type>::decode(raw, block);
    const GroupPairs pairs = group_pairs<Type>(values, group);
#pragma unroll
    for (int i = 0; i < 4; i++) {
      quad_to_halves<level_shift(Type)>(values.quads[group][i], pairs.scale, pairs.minus_minimum, words[2 * i],
                                        words[2 * i + 1]);
    }
  }
};

template <int Type>
struct HalfSource : HalvesOfQuads<Type> {
  typedef typename Format<Type>::Raw Raw;

  /** The same in the order of matmul/wide-gemm.hip: of each four columns first 0 and 2, then 1 and 3. */
  DEVICE void crossed(const Raw& raw, int block, int group, u32 (&words)[8]) {
    const Block values = Format<Type>::decode(raw, block);
    const GroupPairs pairs = group_pairs<Type>(values, group);
#pragma unroll
    for (int i = 0; i < 4; i++) {
      quad_to_crossed<level_shift(Type)>(values.quads[group][i], pairs.scale, pairs.minus_minimum, words[2 * i],
                                         words[2 * i + 1]);
    }
  }
};

/**
 * The same halves with half of the instructions: levels are not signed, those of high nibbles stay where they are, below
 * the exponent that takes their factor of 16 down, and scale and minimum are made as halves in the first place.
 */
template <>
struct HalfSource<kQ4_K> : Format<kQ4_K> {
  DEVICE void halves(const Raw& raw, int, int group, u32 (&words)[8]) {
    const u32 levels = pair_subtract(bytes_below<0>(raw.scales, 0x64646464u), 0x64006400u);
    const u32 both = pair_multiply(levels, raw.units);
    const u32 scale = first_twice(both), minus_minimum = second_twice(both) ^ 0x80008000u;
    const u32 mask = group == 0 ? 0x0f0f0f0fu : 0xf0f0f0f0u, exponent = group == 0 ? 0x64646464u : 0x54545454u;
    const u32 zero = exponent & 0xff00ff00u;
    const u32 nibbles[4] = {raw.nibbles.x, raw.nibbles.y, raw.nibbles.z, raw.nibbles.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const u32 quad = nibbles[i] & mask;
      words[2 * i] = pair_fma(pair_subtract(bytes_below<0>(quad, exponent), zero), scale, minus_minimum);
      words[2 * i + 1] = pair_fma(pair_subtract(bytes_below<1>(quad, exponent), zero), scale, minus_minimum);
    }
  }

  DEVICE void crossed(const Raw& raw, int, int group, u32 (&words)[8]) {
    const u32 levels = pair_subtract(bytes_below<0>(raw.scales, 0x64646464u), 0x64006400u);
    const u32 both = pair_multiply(levels, raw.units);
    nibbles_to_crossed<0>(raw.nibbles, group, first_twice(both), second_twice(both) ^ 0x80008000u, words);
  }
};

template <>
struct HalfSource<kQ4_0> : HalvesOfQuads<kQ4_0> {
  DEVICE void crossed(const Raw& raw, int, int group, u32 (&words)[8]) {
    nibbles_to_crossed<8>(raw.nibbles, group, first_twice(raw.scale), 0, words);
  }
};

template <>
struct HalfSource<kQ4_1> : HalvesOfQuads<kQ4_1> {
  DEVICE void crossed(const Raw& raw, int, int group, u32 (&words)[8]) {
    nibbles_to_crossed<0>(raw.nibbles, group, first_twice(raw.scales), second_twice(raw.scales), words);
  }
};

/**
 * Nibbles and pairs of bits meet below the exponent, without signed bytes between: as 1024 and the level, or of high nibbles
 * as 64 and the level. Scales are made as halves in the first place.
 */
template <>
struct HalfSource<kQ6_K> : HalvesOfQuads<kQ6_K> {
  DEVICE void crossed(const Raw& raw, int, int group, u32 (&words)[8]) {
    const u32 levels = pair_subtract(bytes_below<0>(raw.scales ^ 0x8080u, 0x64646464u), 0x64806480u);
    const u32 both = pair_multiply(levels, first_twice(raw.unit));
    const u32 scale = group == 0 ? first_twice(both) : second_twice(both);
    const u32 nibble_mask = group == 0 ? 0x000f000fu : 0x00f000f0u, exponent = group == 0 ? 0x64006400u : 0x54005400u;
    // Levels are 32 higher than they should be.
    const u32 zero = group == 0 ? 0x64206420u : 0x56005600u;
    const u32 nibbles[4] = {raw.nibbles.x, raw.nibbles.y, raw.nibbles.z, raw.nibbles.w};
    const u32 top = group == 0 ? raw.pairs.x : raw.pairs.y;
#pragma unroll
    for (int i = 0; i < 4; i++) {
#pragma unroll
      for (int odd = 0; odd < 2; odd++) {
        const u32 low = masked_flip(odd ? nibbles[i] >> 8 : nibbles[i], nibble_mask, exponent);
        // Bits 2i and 2i + 1 of a byte, to the place above the nibble.
        const int left = (group == 0 ? 4 : 8) - 2 * i - 8 * odd;
        const u32 moved = left < 0 ? top >> -left : top << left;
        const u32 level = masked_flip(moved, group == 0 ? 0x00300030u : 0x03000300u, low);
        words[2 * i + odd] = pair_multiply(pair_subtract(level, zero), scale);
      }
    }
  }
};

DEVICE float saturated(float value) { return value > 65504.0f ? 65504.0f : value < -65504.0f ? -65504.0f : value; }

/** A group's 16 plain weights, 16 bytes a load; rows are multiples of 32 wide. */
template <int ElementBytes>
struct PlainBlocks : NeighbourColumns {
  struct Raw {
    Words4 loads[2 * ElementBytes];
  };
  DEVICE u64 row_bytes(int width) { return u64(width) * ElementBytes; }
  DEVICE Raw fetch(const u8* row, int, int block) {
    Raw raw;
#pragma unroll
    for (int i = 0; i < 2 * ElementBytes; i++) raw.loads[i] = load_once(row + block * (32 * ElementBytes) + i * 16);
    return raw;
  }
};

template <>
struct HalfSource<kF16> : PlainBlocks<2> {
  DEVICE void halves(const Raw& raw, int, int group, u32 (&words)[8]) {
#pragma unroll
    for (int i = 0; i < 2; i++) {
      const Words4& load = raw.loads[2 * group + i];
      words[4 * i] = load.x;
      words[4 * i + 1] = load.y;
      words[4 * i + 2] = load.z;
      words[4 * i + 3] = load.w;
    }
  }
};

template <>
struct HalfSource<kBF16> : PlainBlocks<2> {
  DEVICE u32 converted(u32 two) {
    return float2_to_half2(saturated(float_of(two << 16)), saturated(float_of(two & 0xffff0000u)));
  }
  DEVICE void halves(const Raw& raw, int, int group, u32 (&words)[8]) {
#pragma unroll
    for (int i = 0; i < 2; i++) {
      const Words4& load = raw.loads[2 * group + i];
      words[4 * i] = converted(load.x);
      words[4 * i + 1] = converted(load.y);
      words[4 * i + 2] = converted(load.z);
      words[4 * i + 3] = converted(load.w);
    }
  }
};

template <>
struct HalfSource<kF32> : PlainBlocks<4> {
  DEVICE void halves(const Raw& raw, int, int group, u32 (&words)[8]) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const Words4& load = raw.loads[4 * group + i];
      words[2 * i] = float2_to_half2(saturated(float_of(load.x)), saturated(float_of(load.y)));
      words[2 * i + 1] = float2_to_half2(saturated(float_of(load.z)), saturated(float_of(load.w)));
    }
  }
};
