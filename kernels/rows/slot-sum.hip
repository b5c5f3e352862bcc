// The sum over the slots of a network of experts, with the shared expert's rows and the residual, and the norm of the next
// layer as halves: what sum_slots (rows/elementwise.hip) and norm_half (rows/quantize.hip) compute, in the same order.
// One block a row; grid: one block for each row there may be. HELD, WEIGHT_TYPE: those of rows/quantize.hip.
// v1 one launch instead of two: 1 to 2 % of a step of 64 sequences of GLM-4.7-Flash on an H200.
#include "rows/prepared-row.h"

/** As SumSlotsArguments of rows/elementwise.hip, and what the norm takes. */
struct SumNormArguments {
  const float* input;
  const float* shared;
  const float* shared_weight;
  const float* residual;
  const u8* weight;
  const int* row_count;
  /** The sum, which may be the residual. */
  float* out;
  u16* halves;
  float* row_scales;
  int slots;
  int width;
  int input_stride;
  int shared_stride;
  int residual_stride;
  int out_stride;
  /** In halves; columns from the width to it become zero. */
  int half_stride;
  float epsilon;
};

/** The slots of a row and what is added to them; rows that there are not have no floats. */
struct SlotSumRow {
  /** Of the first slot: the others begin a width further on each, and are as aligned as it is. */
  Row first;
  Row shared;
  Row residual;
  int slots;
  float shared_factor;
};

DEVICE void add_quad(Quad& sum, const Row& row, int quad, float factor = 1.0f) {
  const Quad values = read_quad(row, quad);
#pragma unroll
  for (int i = 0; i < 4; i++) sum.at[i] = fma(values.at[i], factor, sum.at[i]);
}

DEVICE Quad read_quad(const SlotSumRow& row, int quad) {
  Quad sum = {{0, 0, 0, 0}};
#pragma unroll 4
  for (int slot = 0; slot < row.slots; slot++)
    add_quad(sum, {row.first.floats + u64(slot) * u64(row.first.width), row.first.width, row.first.aligned}, quad);
  if (row.shared.floats != nullptr) add_quad(sum, row.shared, quad, row.shared_factor);
  if (row.residual.floats != nullptr) add_quad(sum, row.residual, quad);
  return sum;
}

DEVICE Row added_row(const float* rows, int index, int stride, int width) {
  return row_of(rows == nullptr ? nullptr : rows + u64(index) * u64(stride), width);
}

KERNEL(sum_norm_half, SumNormArguments, kRowThreads) {
  dependency_release();
  const int quads = quads_of(a.half_stride);
  const Team team = block_team(quads);
  if (team.thread >= team.threads) return;
  const HeldWeights weights = hold_weights(a.weight, a.width, team);
  const int rows = *a.row_count;
  dependency_wait();
  const int index = block_x();
  if (index >= rows) return;
  const SlotSumRow source = {row_of(a.input, index, a.input_stride, a.width),
                             added_row(a.shared, index, a.shared_stride, a.width),
                             added_row(a.residual, index, a.residual_stride, a.width), a.slots,
                             a.shared_weight == nullptr ? 1.0f : sigmoid(a.shared_weight[index])};
  const Row out = row_of(a.out, index, a.out_stride, a.width);
  const HeldRow<SlotSumRow> sums = hold_row(source, team, quads);
  write_floats(sums, out);
  // What does not stay in registers each thread reads again where it has just written it.
  HeldRow<Row> row = {out, team, quads, {}};
#pragma unroll
  for (int sweep = 0; sweep < HELD; sweep++) row.held[sweep] = sums.held[sweep];
  write_halves(norm_held(row, weights, a.epsilon), a.halves + u64(index) * u64(a.half_stride), a.half_stride,
               a.row_scales + index);
}
