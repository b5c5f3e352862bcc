// Rows of f32 added, gathered, copied, cut head by head, scaled, summed over slots or shifted by a bias. One thread a quad of columns.
// Grid: ⌈width ÷ 1024⌉ × one for each row there may be.
// WEIGHT_TYPE: of the bias or the scale, 0 (F32), 1 (F16) or 30 (BF16).
// v1 16-byte access where the rows allow it. Not measured yet.
#include "device/quad.h"

constexpr int kThreads = 256;

DEVICE int own_quad() { return block_x() * kThreads + thread_index(); }

/** `out` may be `left` or `right`. */
struct AddRowsArguments {
  const float* left;
  const float* right;
  const int* row_count;
  float* out;
  int width;
  int left_stride;
  int right_stride;
  int out_stride;
};

KERNEL(add_rows, AddRowsArguments, kThreads) {
  dependency_release();
  const int rows = *a.row_count;
  dependency_wait();
  const int index = block_y();
  if (index >= rows) return;
  const Quad left = read_quad(row_of(a.left, index, a.left_stride, a.width), own_quad());
  const Quad right = read_quad(row_of(a.right, index, a.right_stride, a.width), own_quad());
  Quad sum;
#pragma unroll
  for (int i = 0; i < 4; i++) sum.at[i] = left.at[i] + right.at[i];
  write_quad(row_of(a.out, index, a.out_stride, a.width), own_quad(), sum);
}

/** Row i of `out` is row indexes[i] of `input`. */
struct SelectRowsArguments {
  const float* input;
  const int* indexes;
  const int* row_count;
  float* out;
  int width;
  int input_stride;
  int out_stride;
};

KERNEL(select_rows, SelectRowsArguments, kThreads) {
  dependency_release();
  const int rows = *a.row_count;
  dependency_wait();
  const int index = block_y();
  if (index >= rows) return;
  const Quad values = read_quad(row_of(a.input, a.indexes[index], a.input_stride, a.width), own_quad());
  write_quad(row_of(a.out, index, a.out_stride, a.width), own_quad(), values);
}

/** Both point at the first column wanted. */
struct CopyColumnsArguments {
  const float* input;
  const int* row_count;
  float* out;
  int width;
  int input_stride;
  int out_stride;
};

KERNEL(copy_columns, CopyColumnsArguments, kThreads) {
  dependency_release();
  const int rows = *a.row_count;
  dependency_wait();
  const int index = block_y();
  if (index >= rows) return;
  const Quad values = read_quad(row_of(a.input, index, a.input_stride, a.width), own_quad());
  write_quad(row_of(a.out, index, a.out_stride, a.width), own_quad(), values);
}

/** Columns `offset` … `offset` + `head_width` − 1 of heads that are `head_stride` columns apart; `width` of all heads. */
struct HeadColumnsArguments {
  const float* input;
  const int* row_count;
  float* out;
  int width;
  int head_width;
  int head_stride;
  int offset;
  int input_stride;
  int out_stride;
};

KERNEL(head_columns, HeadColumnsArguments, kThreads) {
  dependency_release();
  const int rows = *a.row_count;
  dependency_wait();
  const int index = block_y();
  if (index >= rows) return;
  const float* const input = a.input + u64(index) * u64(a.input_stride) + a.offset;
  const bool whole = ((a.head_width | a.head_stride) & 3) == 0;
  const int first = own_quad() * 4;
  const int place = first / a.head_width * a.head_stride + first % a.head_width;
  Quad values = {{0, 0, 0, 0}};
  if (whole) {
    if (first < a.width) values = read_quad(row_of(input + place, 4), 0);
  } else {
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const int column = first + i;
      if (column < a.width) values.at[i] = input[column / a.head_width * a.head_stride + column % a.head_width];
    }
  }
  write_quad(row_of(a.out, index, a.out_stride, a.width), own_quad(), values);
}

/** `out` may be `input`. */
struct AddBiasArguments {
  const float* input;
  const u8* bias;
  const int* row_count;
  float* out;
  int width;
  int input_stride;
  int out_stride;
};

KERNEL(add_bias, AddBiasArguments, kThreads) {
  dependency_release();
  const Quad bias = read_weights(a.bias, a.width, own_quad());
  const int rows = *a.row_count;
  dependency_wait();
  const int index = block_y();
  if (index >= rows) return;
  const Quad values = read_quad(row_of(a.input, index, a.input_stride, a.width), own_quad());
  Quad sum;
#pragma unroll
  for (int i = 0; i < 4; i++) sum.at[i] = values.at[i] + bias.at[i];
  write_quad(row_of(a.out, index, a.out_stride, a.width), own_quad(), sum);
}

/** × factor × the first element of `weight`, if there is one. `out` may be `input`. */
struct ScaleRowsArguments {
  const float* input;
  const u8* weight;
  const int* row_count;
  float* out;
  float factor;
  int width;
  int input_stride;
  int out_stride;
};

KERNEL(scale_rows, ScaleRowsArguments, kThreads) {
  dependency_release();
  const float factor = a.weight == nullptr ? a.factor : a.factor * read_weights(a.weight, 1, 0).at[0];
  const int rows = *a.row_count;
  dependency_wait();
  const int index = block_y();
  if (index >= rows) return;
  Quad values = read_quad(row_of(a.input, index, a.input_stride, a.width), own_quad());
#pragma unroll
  for (int i = 0; i < 4; i++) values.at[i] *= factor;
  write_quad(row_of(a.out, index, a.out_stride, a.width), own_quad(), values);
}

/**
 * Slot s of a row begins at column s × width. The shared expert's rows, times σ of the column shared_weight, and a residual
 * are added; null: they are not, or not weighed.
 */
struct SumSlotsArguments {
  const float* input;
  const float* shared;
  const float* shared_weight;
  const float* residual;
  const int* row_count;
  float* out;
  int slots;
  int width;
  int input_stride;
  int shared_stride;
  int residual_stride;
  int out_stride;
};

DEVICE void add_quad(Quad& sum, const float* rows, int index, int stride, int width, float factor = 1.0f) {
  if (rows == nullptr) return;
  const Quad values = read_quad(row_of(rows, index, stride, width), own_quad());
#pragma unroll
  for (int i = 0; i < 4; i++) sum.at[i] = fma(values.at[i], factor, sum.at[i]);
}

KERNEL(sum_slots, SumSlotsArguments, kThreads) {
  dependency_release();
  const int rows = *a.row_count;
  dependency_wait();
  const int index = block_y();
  if (index >= rows) return;
  Quad sum = {{0, 0, 0, 0}};
  for (int slot = 0; slot < a.slots; slot++)
    add_quad(sum, a.input + u64(slot) * u64(a.width), index, a.input_stride, a.width);
  add_quad(sum, a.shared, index, a.shared_stride, a.width,
           a.shared_weight == nullptr ? 1.0f : sigmoid(a.shared_weight[index]));
  add_quad(sum, a.residual, index, a.residual_stride, a.width);
  write_quad(row_of(a.out, index, a.out_stride, a.width), own_quad(), sum);
}
