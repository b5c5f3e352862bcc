// How the result of attention leaves a kernel: OUTPUT 0 as f32 rows, 1 as quantized rows (where VALUE_WIDTH is a
// multiple of 32), 2 as half rows, zeros past the width, 3 as half rows of each head, with a scale each, 4 the same in the
// order of wide products (rows/wide-order.h, where VALUE_WIDTH is a multiple of 128), 5 in the panels of matmul/wide-gemm.hip, whose
// tiles are those of the step's tokens; rows are whole slabs of 128 columns. Results are averages of cached values,
// so half rows have the scale 1; what is finite and too large for f16 (only an f32 or q8_0 cache can hold it) becomes ±65504.
// The arguments of a kernel that writes so have these members; those of other forms are not looked at:
//   const StepHead* step; float* out; int out_stride; i8* quantized; float* scales; float* sums; u16* halves; int half_stride; float*
//   row_scales; int heads;
#pragma once
#include "rows/prepared-row.h"
#include "rows/wide-order.h"
#ifndef OUTPUT
#define OUTPUT 0
#endif
#if OUTPUT == 1 && VALUE_WIDTH % 32 != 0
#error "quantized rows need heads of whole blocks of 32 columns"
#endif
#if OUTPUT == 4 && VALUE_WIDTH % 128 != 0
#error "the order of wide products needs heads of whole slabs of 128 columns"
#endif

constexpr float kMaxHalf = 65504.0f;

/** Infinity and NaN stay what they are. */
DEVICE u16 saturated_half(float value) {
  if (is_finite(value) && magnitude(value) > kMaxHalf) return value < 0.0f ? u16(0xfbff) : u16(0x7bff);
  return float_to_half(value);
}

/**
 * One column of a token's row; every lane of the wave calls, those with nothing to say with `present` false. Groups of
 * 32 lanes hold neighbouring columns from a multiple of 32 on where OUTPUT is 1.
 */
template <typename Arguments>
DEVICE void write_column(const Arguments& a, int token, int column, bool present, float value) {
  const int width = a.heads * VALUE_WIDTH;
  if (OUTPUT == 0) {
    if (present) a.out[u64(token) * u64(a.out_stride) + u64(column)] = value;
  }
  if (OUTPUT == 1) {
    write_quantized_column(quantized_place(a.quantized, a.scales, a.sums, token, width), column, present, value);
  }
  if (OUTPUT == 2) {
    u16* const halves = a.halves + u64(token) * u64(a.half_stride);
    if (present) {
      halves[column] = saturated_half(value);
      if (column == 0) a.row_scales[token] = 1.0f;
      if (column == width - 1) {
        for (int past = width; past < a.half_stride; past++) halves[past] = 0;
      }
    }
  }
  if (OUTPUT == 5) {
    if (present) {
      const int tokens = panel_tokens(a.step->tokens);
      u16* const tile = a.halves + u64(token / tokens) * u64(tokens) * u64(a.half_stride);
      tile[panel_half(tokens, token % tokens, column)] = saturated_half(value);
      if (column == 0) a.row_scales[token] = 1.0f;
    }
  }
  if (OUTPUT == 3 || OUTPUT == 4) {
    if (present) {
      // Heads follow one another without a gap.
      const u64 first = u64(token) * u64(a.half_stride);
      a.halves[first + u64(OUTPUT == 4 ? wide_half(column) : column)] = saturated_half(value);
      if (column % VALUE_WIDTH == 0) a.row_scales[token * a.heads + column / VALUE_WIDTH] = 1.0f;
    }
  }
}
