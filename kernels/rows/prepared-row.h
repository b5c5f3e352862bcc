// The forms in which rows enter a matmul (or leave as they are), written from a held row:
//   quantized i8 values[width], float scales[width / 32], float sums[width / 16] = scale × the sum of 16 quantized
//   values half      u16 halves[stride], zeros past the width, and one row scale, a power of two: halves hold value ÷
//   scale
// Quantization is that of `quantize-activations`: scale = largest magnitude ÷ 127, to the nearest step, ties to even,
// exactly.
// A block of 32 with a NaN or an infinity gets a NaN for its scale, so that no matmul over it looks like a number.
#pragma once
#include "rows/held-row.h"
#include "rows/wide-order.h"

/** Tokens of a tile of half rows in panels (rows/wide-order.h); 0: half rows lie one after the other. */
#ifndef PANEL_TOKENS
#define PANEL_TOKENS 0
#endif

/** Lanes that hold one block of 32 columns, and one group of 16. */
constexpr int kBlockLanes = 8;
constexpr int kGroupLanes = 4;
/** Below it, 1 ÷ scale would not be a number: such a block is zero. */
constexpr float kMinScale = 1e-37f;
/** Rows with nothing larger keep their halves as they are; there is room for rounding below the largest half, 65504. */
constexpr float kMaxPlainHalf = 16384.0f;

struct QuantizedQuad {
  float steps[4];
  float scale;
};

/**
 * The nearest whole number to value ÷ scale: multiplying by the inverse can miss it where two are all but equally near.
 */
DEVICE float nearest_step(float value, float scale, float inverse) {
  float step = nearest(value * inverse);
  // Exact: the remainder of a division by a number of few bits more than it has itself.
  const float remainder = fma(-step, scale, value);
  const float twice = remainder + remainder;
  const bool odd = (int(step) & 1) != 0;
  if (twice > scale || (odd && twice == scale)) return step + 1.0f;
  if (twice < -scale || (odd && twice == -scale)) return step - 1.0f;
  return step;
}

/** Eight neighbouring lanes hold one block. */
DEVICE QuantizedQuad quantize_quad(const Quad& values) {
  u32 largest = 0;
#pragma unroll
  for (int i = 0; i < 4; i++) largest = max(largest, magnitude_bits(values.at[i]));
  largest = wave_max<kBlockLanes>(largest);
  const float scale = float_of(largest) / 127.0f;
  const bool usable = largest < kInfinityBits && scale >= kMinScale;
  const float inverse = usable ? 1.0f / scale : 0.0f;
  QuantizedQuad result;
  result.scale = usable ? scale : largest < kInfinityBits ? 0.0f : float_of(0x7fc00000u);
#pragma unroll
  for (int i = 0; i < 4; i++) result.steps[i] = usable ? nearest_step(values.at[i], scale, inverse) : 0.0f;
  return result;
}

template <typename Source>
DEVICE void write_floats(const HeldRow<Source>& row, const Row& out) {
  each_quad(row, [&](int quad, const Quad& values) { write_quad(out, quad, values); });
}

/** The sum with another row, which may be the one that is written. */
template <typename Source>
DEVICE void add_floats(const HeldRow<Source>& row, const Row& other, const Row& out) {
  each_quad(row, [&](int quad, const Quad& values) {
    const Quad added = read_quad(other, quad);
    Quad result;
#pragma unroll
    for (int i = 0; i < 4; i++) result.at[i] = added.at[i] + values.at[i];
    write_quad(out, quad, result);
  });
}

/** Rounded and back. */
template <typename Source>
DEVICE void write_dequantized(const HeldRow<Source>& row, const Row& out) {
  each_quad(row, [&](int quad, const Quad& values) {
    const QuantizedQuad quantized = quantize_quad(values);
    Quad result;
#pragma unroll
    for (int i = 0; i < 4; i++) result.at[i] = quantized.steps[i] * quantized.scale;
    write_quad(out, quad, result);
  });
}

/** Where row `index` of quantized rows goes; `width` is a multiple of 32. */
struct QuantizedPlace {
  u32* values;
  float* scales;
  float* sums;
};

DEVICE QuantizedPlace quantized_place(i8* values, float* scales, float* sums, int index, int width) {
  const u64 row = u64(index);
  return {reinterpret_cast<u32*>(values + row * u64(width)), scales + row * u64(width / 32),
          sums + row * u64(width / 16)};
}

/** Eight neighbouring lanes come here with the quads of one block; `kept` says whether this one's is stored. */
DEVICE void write_quantized_quad(const QuantizedPlace& place, int quad, const Quad& values, bool kept) {
  const QuantizedQuad quantized = quantize_quad(values);
  u32 word = 0;
  int sum = 0;
#pragma unroll
  for (int i = 0; i < 4; i++) {
    const int step = int(quantized.steps[i]);
    word |= (u32(step) & 255u) << (8 * i);
    sum += step;
  }
  sum = wave_sum<kGroupLanes>(sum);
  if (!kept) return;
  place.values[quad] = word;
  if (quad % kGroupLanes == 0) place.sums[quad / kGroupLanes] = quantized.scale * float(sum);
  if (quad % kBlockLanes == 0) place.scales[quad / kBlockLanes] = quantized.scale;
}

/** One column; 32 neighbouring lanes come here with those of one block, the ones that `kept` is false for with nothing. */
DEVICE void write_quantized_column(const QuantizedPlace& place, int column, bool kept, float value) {
  const u32 largest = wave_max<32>(kept ? magnitude_bits(value) : 0u);
  const float scale = float_of(largest) / 127.0f;
  const bool usable = largest < kInfinityBits && scale >= kMinScale;
  const int step = usable && kept ? int(nearest_step(value, scale, 1.0f / scale)) : 0;
  const float kept_scale = usable ? scale : largest < kInfinityBits ? 0.0f : float_of(0x7fc00000u);
  const int sum = wave_sum<16>(step);
  if (!kept) return;
  reinterpret_cast<i8*>(place.values)[column] = i8(step);
  if (column % 32 == 0) place.scales[column / 32] = kept_scale;
  if (column % 16 == 0) place.sums[column / 16] = kept_scale * float(sum);
}

template <typename Source>
DEVICE void write_quantized(const HeldRow<Source>& row, const QuantizedPlace& place) {
  each_quad(row, [&](int quad, const Quad& values) { write_quantized_quad(place, quad, values, quad < row.quads); });
}

/** The power of two that brings a magnitude to 16384 or below. */
DEVICE float half_scale(u32 largest) {
  if (float_of(largest) <= kMaxPlainHalf || largest >= kInfinityBits) return 1.0f;
  return float_of((largest & kInfinityBits) - (13u << 23));
}

/** The scale of a row's halves; the whole team comes here. */
template <typename Source>
DEVICE float row_half_scale(const HeldRow<Source>& row) {
  u32 largest = 0;
  each_quad(row, [&](int, const Quad& values) {
#pragma unroll
    for (int i = 0; i < 4; i++) largest = max(largest, magnitude_bits(values.at[i]));
  });
  return half_scale(team_max(row.team, largest));
}

/** `row` was held with the quads of `stride` columns. */
template <typename Source>
DEVICE void write_halves(const HeldRow<Source>& row, u16* halves, int stride, float* row_scale) {
  const float scale = row_half_scale(row);
  const float inverse = 1.0f / scale;
  const bool aligned = (reinterpret_cast<u64>(halves) & 7) == 0 && (stride & 3) == 0;
  each_quad(row, [&](int quad, const Quad& values) {
    const int column = quad * 4;
    if (column >= stride) return;
    HalfQuad result;
    result.pairs[0] = float2_to_half2(values.at[0] * inverse, values.at[1] * inverse);
    result.pairs[1] = float2_to_half2(values.at[2] * inverse, values.at[3] * inverse);
    if (aligned) {
      *reinterpret_cast<HalfQuad*>(halves + column) = result;
      return;
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
      if (column + i < stride) halves[column + i] = u16(result.pairs[i / 2] >> (16 * (i % 2)));
    }
  });
  if (row.team.thread == 0) *row_scale = scale;
}

/** The same in panels, of each quad first columns 0 and 2, then 1 and 3 (HalfSource::crossed of weights/half-blocks.h); `stride`, a multiple of 128, is the width of a row in them. */
template <typename Source>
DEVICE void write_panels(const HeldRow<Source>& row, u16* halves, int index, int stride, float* row_scale) {
  constexpr int tokens = PANEL_TOKENS > 0 ? PANEL_TOKENS : 1;
  const float scale = row_half_scale(row);
  const float inverse = 1.0f / scale;
  const int token = index % tokens;
  u32* const tile = reinterpret_cast<u32*>(halves) + u64(index / tokens) * u64(stride / 2) * u64(tokens);
  each_quad(row, [&](int quad, const Quad& values) {
    if (quad * 4 >= stride) return;
    const int word = wide_word(quad);
    tile[panel_word(tokens, token, word)] = float2_to_half2(values.at[0] * inverse, values.at[2] * inverse);
    tile[panel_word(tokens, token, word + 4)] = float2_to_half2(values.at[1] * inverse, values.at[3] * inverse);
  });
  if (row.team.thread == 0) *row_scale = scale;
}

/** Row `index` of half rows, in panels or one after the other. */
template <typename Source>
DEVICE void write_half_row(const HeldRow<Source>& row, u16* halves, int index, int stride, float* row_scales) {
  if (PANEL_TOKENS > 0) {
    write_panels(row, halves, index, stride, row_scales + index);
  } else {
    write_halves(row, halves + u64(index) * u64(stride), stride, row_scales + index);
  }
}
