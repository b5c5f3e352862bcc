// What the kernels of recurrent layers are given: tokens of one sequence in order, and the state before and after them.

#pragma once

#include <cstddef>
#include <cstdint>

namespace rocmforge {

/// One token of a depthwise convolution: out = bias + the sum of rows[j] × weights[j], column by column, and its SiLU.
struct CausalConvRow {
  size_t taps;
  size_t columns;
  /// The inputs of the last `taps` tokens, this one last.
  const float* const* rows;
  /// [taps][columns].
  const float* weights;
  /// Null for none.
  const float* bias;
  bool silu;
  float* out;
};

/// Tokens of one head of a gated delta net, for columns [first_column, end_column) of its values. The state is a matrix
/// [key column][value column], of which other columns are neither read nor written.
struct DeltaNetRun {
  size_t width;
  size_t first_column;
  size_t end_column;
  size_t tokens;
  /// A token's bits do not depend on how many tokens the run has.
  bool one_by_one;
  /// `width` columns of the first token each, as they are; the next token's are `stride` floats further.
  const float* queries;
  const float* keys;
  const float* values;
  size_t stride;
  const float* alphas;
  size_t alpha_stride;
  const float* betas;
  size_t beta_stride;
  float decay;
  float bias;
  float epsilon;
  /// Null for zeros; may be `to`.
  const float* from;
  float* to;
  float* out;
  size_t out_stride;
};

/// Tokens of one head of a Mamba-2 scan, for columns [first_column, end_column) of the head. The state is a matrix
/// [state column][head column], of which other columns are neither read nor written. A token's bits do not depend on how
/// many tokens the run has.
struct SsmScanRun {
  size_t state_width;
  size_t head_width;
  size_t first_column;
  size_t end_column;
  size_t tokens;
  /// x of the head, B and C of its group, of the first token; the next token's are `stride` floats further.
  const float* x;
  const float* b;
  const float* c;
  size_t stride;
  const float* steps;
  size_t step_stride;
  float decay;
  float bias;
  float skip;
  /// Null for zeros; may be `to`.
  const float* from;
  float* to;
  float* out;
  size_t out_stride;
};

}  // namespace rocmforge
