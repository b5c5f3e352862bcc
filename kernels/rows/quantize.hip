// Rows of f32 made ready for matmuls: as they are or normed; written as f32, quantized to 8 bits, or as halves
// (rows/prepared-row.h says how each form lies). One block a row; grid: one block for each row there may be.
// HELD: quads that a thread keeps in registers, best ⌈width ÷ 2048⌉ (or for norm_groups ⌈group ÷ (4 × wave)⌉); any
// works.
// WEIGHT_TYPE: of the norm's weights, 0 (F32), 1 (F16) or 30 (BF16). WEIGHTED 0: norms have none.
// The row count comes with the step and is no kernel's, so it is read before dependency_wait().
// v1 512 threads, the row read once into registers, weights while the kernel before still runs, one barrier a sum;
//    waves that a narrow row has no work for leave at once. Not measured yet.
// v2 a norm whose result is only added to a residual adds it: a launch less for each norm behind a matmul (Gemma).
#include "rows/prepared-row.h"

/** `residual`: rows that are added to the normed ones, or null; out may be the residual. */
struct NormRowsArguments {
  const float* input;
  const u8* weight;
  const float* residual;
  const int* row_count;
  float* out;
  int width;
  int input_stride;
  int residual_stride;
  int out_stride;
  float epsilon;
};

KERNEL(norm_rows, NormRowsArguments, kRowThreads) {
  dependency_release();
  const int quads = quads_of(a.width);
  const Team team = block_team(quads);
  if (team.thread >= team.threads) return;
  const HeldWeights weights = hold_weights(a.weight, a.width, team);
  const int rows = *a.row_count;
  dependency_wait();
  const int index = block_x();
  if (index >= rows) return;
  const HeldRow<NormedRow> row =
      hold_normed(row_of(a.input, index, a.input_stride, a.width), weights, a.epsilon, team, quads);
  const Row out = row_of(a.out, index, a.out_stride, a.width);
  if (a.residual == nullptr) return write_floats(row, out);
  add_floats(row, row_of(a.residual, index, a.residual_stride, a.width), out);
}

/**
 * Groups of columns normed by themselves: the weights of neighbouring groups are weight_stride elements apart, 0 if they
 * are the same. Grid: rows × ⌈groups ÷ (128 ÷ wave)⌉.
 */
struct NormGroupsArguments {
  const float* input;
  const u8* weight;
  const int* row_count;
  float* out;
  int group_width;
  int groups;
  int weight_stride;
  int input_stride;
  int out_stride;
  float epsilon;
};

constexpr int kGroupThreads = 128;

KERNEL(norm_groups, NormGroupsArguments, kGroupThreads) {
  dependency_release();
  const int quads = quads_of(a.group_width);
  const Team team = wave_team();
  const int group = block_y() * (kGroupThreads / WAVE) + wave_index();
  if (group >= a.groups) return;
  const u64 weight_bytes = u64(group) * u64(a.weight_stride) * (WEIGHT_TYPE == 0 ? 4 : 2);
  const HeldWeights weights = hold_weights(a.weight + weight_bytes, a.group_width, team);
  const int rows = *a.row_count;
  dependency_wait();
  const int index = block_x();
  if (index >= rows) return;
  const int column = group * a.group_width;
  const Row source = row_of(a.input + column, index, a.input_stride, a.group_width);
  write_floats(hold_normed(source, weights, a.epsilon, team, quads),
               row_of(a.out + column, index, a.out_stride, a.group_width));
}

/** `floats`: the normed rows as f32 too, or null. */
struct NormQuantizeArguments {
  const float* input;
  const u8* weight;
  const int* row_count;
  i8* values;
  float* scales;
  float* sums;
  float* floats;
  int width;
  int input_stride;
  int float_stride;
  float epsilon;
};

KERNEL(norm_quantize, NormQuantizeArguments, kRowThreads) {
  dependency_release();
  const int quads = quads_of(a.width);
  const Team team = block_team(quads);
  if (team.thread >= team.threads) return;
  const HeldWeights weights = hold_weights(a.weight, a.width, team);
  const int rows = *a.row_count;
  dependency_wait();
  const int index = block_x();
  if (index >= rows) return;
  const HeldRow<NormedRow> row =
      hold_normed(row_of(a.input, index, a.input_stride, a.width), weights, a.epsilon, team, quads);
  write_quantized(row, quantized_place(a.values, a.scales, a.sums, index, a.width));
  if (a.floats != nullptr) write_floats(row, row_of(a.floats, index, a.float_stride, a.width));
}

/** `out_stride` is in halves; columns from the width to it become zero. `floats`: the normed rows as f32 too, or null. */
struct NormHalfArguments {
  const float* input;
  const u8* weight;
  const int* row_count;
  u16* halves;
  float* row_scales;
  float* floats;
  int width;
  int input_stride;
  int out_stride;
  int float_stride;
  float epsilon;
};

KERNEL(norm_half, NormHalfArguments, kRowThreads) {
  dependency_release();
  const int quads = quads_of(a.out_stride);
  const Team team = block_team(quads);
  if (team.thread >= team.threads) return;
  const HeldWeights weights = hold_weights(a.weight, a.width, team);
  const int rows = *a.row_count;
  dependency_wait();
  const int index = block_x();
  if (index >= rows) return;
  const HeldRow<NormedRow> row =
      hold_normed(row_of(a.input, index, a.input_stride, a.width), weights, a.epsilon, team, quads);
  write_half_row(row, a.halves, index, a.out_stride, a.row_scales);
  if (a.floats != nullptr) write_floats(row, row_of(a.floats, index, a.float_stride, a.width));
}

struct QuantizeRowsArguments {
  const float* input;
  const int* row_count;
  i8* values;
  float* scales;
  float* sums;
  int width;
  int input_stride;
};

KERNEL(quantize_rows, QuantizeRowsArguments, kRowThreads) {
  dependency_release();
  const int quads = quads_of(a.width);
  const Team team = block_team(quads);
  if (team.thread >= team.threads) return;
  const int rows = *a.row_count;
  dependency_wait();
  const int index = block_x();
  if (index >= rows) return;
  const HeldRow<Row> row = hold_row(row_of(a.input, index, a.input_stride, a.width), team, quads);
  write_quantized(row, quantized_place(a.values, a.scales, a.sums, index, a.width));
}

/**
 * The columns of every slot of a grouped matmul as a quantized row of their own: slot s begins at column s × slot_stride.
 * Grid: one block for each row there may be × slots.
 */
struct QuantizeSlotsArguments {
  const float* input;
  const int* row_count;
  i8* values;
  float* scales;
  float* sums;
  int width;
  int input_stride;
  int slots;
  int slot_stride;
};

KERNEL(quantize_slots, QuantizeSlotsArguments, kRowThreads) {
  dependency_release();
  const int quads = quads_of(a.width);
  const Team team = block_team(quads);
  if (team.thread >= team.threads) return;
  const int rows = *a.row_count;
  dependency_wait();
  const int index = block_x(), slot = block_y();
  if (index >= rows) return;
  const Row source = row_of(a.input + slot * a.slot_stride, index, a.input_stride, a.width);
  write_quantized(hold_row(source, team, quads),
                  quantized_place(a.values, a.scales, a.sums, index * a.slots + slot, a.width));
}

struct HalfRowsArguments {
  const float* input;
  const int* row_count;
  u16* halves;
  float* row_scales;
  int width;
  int input_stride;
  int out_stride;
};

KERNEL(half_rows, HalfRowsArguments, kRowThreads) {
  dependency_release();
  const int quads = quads_of(a.out_stride);
  const Team team = block_team(quads);
  if (team.thread >= team.threads) return;
  const int rows = *a.row_count;
  dependency_wait();
  const int index = block_x();
  if (index >= rows) return;
  const HeldRow<Row> row = hold_row(row_of(a.input, index, a.input_stride, a.width), team, quads);
  write_half_row(row, a.halves, index, a.out_stride, a.row_scales);
}

/** The operation `quantize-activations`: any width. */
struct DequantizedRowsArguments {
  const float* input;
  const int* row_count;
  float* out;
  int width;
  int input_stride;
  int out_stride;
};

KERNEL(quantize_dequantize_rows, DequantizedRowsArguments, kRowThreads) {
  dependency_release();
  const int quads = quads_of(a.width);
  const Team team = block_team(quads);
  if (team.thread >= team.threads) return;
  const int rows = *a.row_count;
  dependency_wait();
  const int index = block_x();
  if (index >= rows) return;
  const HeldRow<Row> row = hold_row(row_of(a.input, index, a.input_stride, a.width), team, quads);
  write_dequantized(row, row_of(a.out, index, a.out_stride, a.width));
}
