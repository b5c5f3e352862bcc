// The rows of a grouped matmul in the order of their matrices. A pair is a slot of a token (token × slots + slot); pairs
// of one matrix stand together, so that its rows are read once for all of them: few by GEMV, many by GEMM. Numbers of
// experts come from a value and are trusted no more than any other: one that no matrix has is taken for 0.

#pragma once

#include <cstddef>
#include <cstdint>

#include "../engine/step-run.h"
#include "matmul-plan.h"

namespace rocmforge {

/// A matrix that has pairs.
struct ActiveMatrix {
  uint32_t matrix;
  /// Its pairs are [first_pair, first_pair + count) of the order.
  uint32_t first_pair;
  uint32_t count;
  bool gemm;
  /// Groups of activations before its own: rows, and panels.
  uint32_t rows_before;
  uint32_t panels_before;
};

/// A group of activations: one row, or one panel.
struct PairGroup {
  /// Index of the active matrix.
  uint32_t active;
  /// Its pairs are [first_pair, first_pair + pairs) of the order.
  uint32_t first_pair;
  uint32_t pairs;
};

/// What the order of a step is made from.
struct ExpertOrderShape {
  size_t tokens = 0;
  size_t slots = 0;
  size_t matrices = 0;
  size_t panel_tokens = 1;
  /// More pairs of a matrix than this are multiplied by GEMM.
  size_t max_gemv_pairs = 0;

  size_t pairs() const { return tokens * slots; }
  size_t most_active() const { return matrices < pairs() ? matrices : pairs(); }
  /// Bounds that hold for every choice of matrices.
  size_t most_rows() const;
  size_t most_panels() const;
  size_t most_groups() const { return most_rows() + most_panels(); }
};

/// The order as arrays in scratch memory; one thread fills it, all read it.
struct ExpertOrder {
  uint32_t* counts;
  uint32_t* pairs;
  ActiveMatrix* active;
  PairGroup* groups;
  /// How many of both there are.
  uint32_t* active_count;
  uint32_t* group_count;

  /// Bytes of the arrays.
  static size_t size_bytes(const ExpertOrderShape& shape);
  ExpertOrder(const ExpertOrderShape& shape, uint8_t* memory);

  /// `routing` has no rows if slot s has matrix s.
  void fill(const ExpertOrderShape& shape, const Rows& routing) const;
};

/// The matrix of a slot of one token, given the token's row of a routing; null for matrix `slot`.
inline size_t matrix_of(const float* routing, size_t slot, size_t matrices) {
  if (routing == nullptr) return slot;
  const float number = routing[slot];
  // False for NaN as well.
  return number >= 0 && number < static_cast<float>(matrices) ? static_cast<size_t>(number) : 0;
}

}  // namespace rocmforge
