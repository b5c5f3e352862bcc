// Matmuls of many tokens with up to four rows of F32, F16 or BF16 weights, in f32: the gate of a shared expert. Each input
// is read once, straight from memory, which is all the time it takes: a wave has kTokens tokens, its lanes a quad of
// columns each at a time, and their sums are added at the end in an order that no batch changes.
// Defines: TYPE0 of the weights, BIAS_TYPE: 0 (F32), 1 (F16) or 30 (BF16). SOFT_CAP: device/activation.h. ROWS: 1 to 4.
//   ALIGNED: matmul/float-quads.h.
// Grid: x = ⌈tokens ÷ 16⌉.
// v1 two tokens a wave, eight quads of each on their way. H200, a row of 2048 × 4,096 tokens: 8 µs by bandwidth, 12 expected,
//    5.4 found, as part of the input was in the device's cache (gemm-float.hip took 161 µs).
#include "device/activation.h"
#include "matmul/float-quads.h"

#ifndef BIAS_TYPE
#define BIAS_TYPE 0
#endif

constexpr int kThreads = 256;
constexpr int kBlockTokens = 16;
/** Of a wave. */
constexpr int kTokens = kBlockTokens * WAVE / kThreads;
constexpr int kRows = ROWS;

struct DotFloatArguments {
  const float* inputs;
  const int* row_count;
  const u8* weights;
  const u8* bias;
  const float* factor;
  const float* residual;
  float* out;
  int input_stride;
  int width;
  int stride;
  int residual_stride;
};

KERNEL(dot_float, DotFloatArguments, kThreads) {
  dependency_release();
  const int count = *a.row_count;
  dependency_wait();
  const int first = block_x() * kBlockTokens + wave_index() * kTokens;
  if (first >= count) return;
  const float* tokens[kTokens];
#pragma unroll
  for (int t = 0; t < kTokens; t++) tokens[t] = a.inputs + u64(min(first + t, count - 1)) * u64(a.input_stride);
  float sums[kTokens][kRows] = {};
  const int quads = quads_of(a.width);
#pragma unroll 8
  for (int quad = lane_index(); quad < quads; quad += WAVE) {
    Quad inputs[kTokens];
#pragma unroll
    for (int t = 0; t < kTokens; t++) inputs[t] = float_quad(tokens[t], a.width, quad);
#pragma unroll
    for (int row = 0; row < kRows; row++) {
      const Quad weights = weight_quad(weights_row(a.weights, row, a.width), a.width, quad);
#pragma unroll
      for (int t = 0; t < kTokens; t++) {
#pragma unroll
        for (int i = 0; i < 4; i++) sums[t][row] = fma(inputs[t].at[i], weights.at[i], sums[t][row]);
      }
    }
  }
  const float factor = a.factor == nullptr ? 1.0f : *a.factor;
#pragma unroll
  for (int row = 0; row < kRows; row++) {
    const float bias = a.bias == nullptr ? 0.0f : Plain<BIAS_TYPE>::value(a.bias, row);
#pragma unroll
    for (int t = 0; t < kTokens; t++) {
      const float sum = wave_sum(sums[t][row]);
      if (lane_index() != 0 || first + t >= count) continue;
      const float value = soft_capped(fma(sum, factor, bias));
      const float added = a.residual == nullptr ? 0.0f : a.residual[u64(first + t) * u64(a.residual_stride) + u64(row)];
      a.out[u64(first + t) * u64(a.stride) + u64(row)] = value + added;
    }
  }
}
