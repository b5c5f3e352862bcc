// activation(gate) × the norm of each group of columns, as f32 rows, as quantized rows or as half rows (rows/prepared-row.h
// says how each form lies): what follows a gated delta net. One block a row; grid: one block for each row there may be.
// GROUP_QUADS: quads of a group, a power of two of at most 32. WEIGHT_TYPE, WEIGHTED: device/quad.h. ACTIVATION:
// device/activation.h. HELD: quads that a thread keeps in registers, best ⌈width ÷ 2048⌉; any works.
// v1 the lanes of a group add up its squares as they read it. Not measured yet.
#include "rows/prepared-row.h"

#ifndef GROUP_QUADS
#define GROUP_QUADS 32
#endif
static_assert(GROUP_QUADS <= 32, "the lanes of a group are in one wave");

/** A row whose groups are normed and gated when they are read, by all lanes of a wave together. */
struct GatedNormRow {
  Row gate;
  Row input;
  const u8* weights;
  float epsilon;
};

DEVICE Quad read_quad(const GatedNormRow& row, int quad) {
  const Quad values = read_quad(row.input, quad), gate = read_quad(row.gate, quad);
  const Quad weights = read_weights(row.weights, GROUP_QUADS * 4, quad % GROUP_QUADS);
  float squares = 0;
#pragma unroll
  for (int i = 0; i < 4; i++) squares = fma(values.at[i], values.at[i], squares);
  const float inverse = reciprocal_root(wave_sum<GROUP_QUADS>(squares) / float(GROUP_QUADS * 4) + row.epsilon);
  const Quad normed_values = normed(values, weights, inverse);
  Quad result;
#pragma unroll
  for (int i = 0; i < 4; i++) result.at[i] = gated_unit(gate.at[i], normed_values.at[i]);
  return result;
}

struct GatedNormArguments {
  const float* gate;
  const float* input;
  const u8* weight;
  const int* row_count;
  float* out;
  int width;
  int gate_stride;
  int input_stride;
  int out_stride;
  float epsilon;
};

KERNEL(gated_norm_rows, GatedNormArguments, kRowThreads) {
  dependency_release();
  const int quads = quads_of(a.width);
  const Team team = block_team(quads);
  if (team.thread >= team.threads) return;
  const int rows = *a.row_count;
  dependency_wait();
  const int index = block_x();
  if (index >= rows) return;
  const GatedNormRow source = {row_of(a.gate, index, a.gate_stride, a.width),
                               row_of(a.input, index, a.input_stride, a.width), a.weight, a.epsilon};
  write_floats(hold_row(source, team, quads), row_of(a.out, index, a.out_stride, a.width));
}

struct GatedNormQuantizeArguments {
  const float* gate;
  const float* input;
  const u8* weight;
  const int* row_count;
  i8* values;
  float* scales;
  float* sums;
  int width;
  int gate_stride;
  int input_stride;
  float epsilon;
};

KERNEL(gated_norm_quantize, GatedNormQuantizeArguments, kRowThreads) {
  dependency_release();
  const int quads = quads_of(a.width);
  const Team team = block_team(quads);
  if (team.thread >= team.threads) return;
  const int rows = *a.row_count;
  dependency_wait();
  const int index = block_x();
  if (index >= rows) return;
  const GatedNormRow source = {row_of(a.gate, index, a.gate_stride, a.width),
                               row_of(a.input, index, a.input_stride, a.width), a.weight, a.epsilon};
  write_quantized(hold_row(source, team, quads), quantized_place(a.values, a.scales, a.sums, index, a.width));
}

/** `out_stride` is in halves and as wide as a row. */
struct GatedNormHalfArguments {
  const float* gate;
  const float* input;
  const u8* weight;
  const int* row_count;
  u16* halves;
  float* row_scales;
  int width;
  int gate_stride;
  int input_stride;
  int out_stride;
  float epsilon;
};

KERNEL(gated_norm_half, GatedNormHalfArguments, kRowThreads) {
  dependency_release();
  const int quads = quads_of(a.out_stride);
  const Team team = block_team(quads);
  if (team.thread >= team.threads) return;
  const int rows = *a.row_count;
  dependency_wait();
  const int index = block_x();
  if (index >= rows) return;
  const GatedNormRow source = {row_of(a.gate, index, a.gate_stride, a.width),
                               row_of(a.input, index, a.input_stride, a.width), a.weight, a.epsilon};
  write_halves(hold_row(source, team, quads), a.halves + u64(index) * u64(a.out_stride), a.out_stride,
               a.row_scales + index);
}
