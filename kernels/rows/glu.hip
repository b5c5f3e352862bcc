// Gated linear unit, activation(gate) × up of two matrices, written as f32 rows, as quantized rows or as half rows
// (rows/prepared-row.h says how each form lies). One block a row; grid: one block for each row there may be.
// GATE_COLUMN 1: the gate has one column, which is that of the whole row (glu_rows only).
// ACTIVATION: device/activation.h. HELD: quads that a thread keeps in registers, best ⌈width ÷ 2048⌉; any works.
// v1 512 threads, both rows read once, results in registers until the row's scale is known. Not measured yet.
#include "rows/prepared-row.h"

#ifndef GATE_COLUMN
#define GATE_COLUMN 0
#endif

/** A row whose columns have one gate. */
struct SingleGateRow {
  float gate;
  Row up;
};

DEVICE Quad read_quad(const SingleGateRow& row, int quad) {
  Quad result = read_quad(row.up, quad);
#pragma unroll
  for (int i = 0; i < 4; i++) result.at[i] = gated_unit(row.gate, result.at[i]);
  return result;
}

struct GluRowsArguments {
  const float* gate;
  const float* up;
  const int* row_count;
  float* out;
  int width;
  int gate_stride;
  int up_stride;
  int out_stride;
};

KERNEL(glu_rows, GluRowsArguments, kRowThreads) {
  dependency_release();
  const int quads = quads_of(a.width);
  const Team team = block_team(quads);
  if (team.thread >= team.threads) return;
  const int rows = *a.row_count;
  dependency_wait();
  const int index = block_x();
  if (index >= rows) return;
  const Row up = row_of(a.up, index, a.up_stride, a.width), out = row_of(a.out, index, a.out_stride, a.width);
#if GATE_COLUMN
  const SingleGateRow source = {a.gate[u64(index) * u64(a.gate_stride)], up};
#else
  const GatedRow source = {row_of(a.gate, index, a.gate_stride, a.width), up};
#endif
  write_floats(hold_row(source, team, quads), out);
}

struct GluQuantizeArguments {
  const float* gate;
  const float* up;
  const int* row_count;
  i8* values;
  float* scales;
  float* sums;
  int width;
  int gate_stride;
  int up_stride;
};

KERNEL(glu_quantize, GluQuantizeArguments, kRowThreads) {
  dependency_release();
  const int quads = quads_of(a.width);
  const Team team = block_team(quads);
  if (team.thread >= team.threads) return;
  const int rows = *a.row_count;
  dependency_wait();
  const int index = block_x();
  if (index >= rows) return;
  const GatedRow source = {row_of(a.gate, index, a.gate_stride, a.width), row_of(a.up, index, a.up_stride, a.width)};
  write_quantized(hold_row(source, team, quads), quantized_place(a.values, a.scales, a.sums, index, a.width));
}

/** `out_stride` is in halves; columns from the width to it become zero. */
struct GluHalfArguments {
  const float* gate;
  const float* up;
  const int* row_count;
  u16* halves;
  float* row_scales;
  int width;
  int gate_stride;
  int up_stride;
  int out_stride;
};

KERNEL(glu_half, GluHalfArguments, kRowThreads) {
  dependency_release();
  const int quads = quads_of(a.out_stride);
  const Team team = block_team(quads);
  if (team.thread >= team.threads) return;
  const int rows = *a.row_count;
  dependency_wait();
  const int index = block_x();
  if (index >= rows) return;
  const GatedRow source = {row_of(a.gate, index, a.gate_stride, a.width), row_of(a.up, index, a.up_stride, a.width)};
  write_halves(hold_row(source, team, quads), a.halves + u64(index) * u64(a.out_stride), a.out_stride,
               a.row_scales + index);
}
