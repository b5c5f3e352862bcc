// What delta-net.h and ssm-scan.h share: a state matrix is walked in tiles of whole vectors of columns, and the last
// columns in a part of one. Lanes are columns and never meet, so a column's bits do not depend on the tile it is in.

#pragma once

#include <cmath>
#include <cstddef>
#include <cstring>

#include "kernel-table.h"
#include "unroll.h"

namespace rocmforge {
namespace {

/// ln(1 + eˣ) without overflow.
inline double softplus(double x) { return x > 0 ? x + ::log1p(::exp(-x)) : ::log1p(::exp(x)); }

/// Lanes [column, column + vectors × kLanes), or the first `count` from there on if `part`.
template <bool part>
inline F load_columns(const float* from, size_t count) {
  if constexpr (part) return load_part(from, count);
  return load(from);
}

template <bool part>
inline void store_columns(float* to, F value, size_t count) {
  if constexpr (part) {
    store_part(to, value, count);
  } else {
    store(to, value);
  }
}

/// Calls tile.run<vectors, part>(column, count) over [first, end): as many vectors at once as fit, then fewer.
template <size_t vectors, class Tile>
inline void for_each_tile(const Tile& tile, size_t first, size_t end) {
  for (; first + vectors * kLanes <= end; first += vectors * kLanes) tile.template run<vectors, false>(first, kLanes);
  if constexpr (vectors > 1) {
    for_each_tile<vectors / 2>(tile, first, end);
  } else if (first < end) {
    tile.template run<1, true>(first, end - first);
  }
}

/// Calls chunk.run<count>(first, from) for all tokens of a run: as many at once as `tokens`, then fewer. `from` is the state
/// before them, which the first chunk finds at `from` and the others where they write.
template <size_t tokens, class Run, class Chunk>
inline void for_each_chunk(const Run& run, size_t first, const float* from, const Chunk& chunk) {
  for (; first + tokens <= run.tokens; first += tokens) {
    chunk.template run<tokens>(first, from);
    from = run.to;
  }
  if constexpr (tokens > 1) {
    if (first < run.tokens) for_each_chunk<tokens / 2>(run, first, from, chunk);
  }
}

/// Sets columns [first, end) of a matrix of `rows` rows to zero.
inline void clear_columns(float* matrix, size_t rows, size_t width, size_t first, size_t end) {
  for (size_t row = 0; row < rows; row++) memset(matrix + row * width + first, 0, (end - first) * sizeof(float));
}

/// The state before a run, whose columns are set to zero where it begins if there is none.
template <class Run>
inline const float* state_before(const Run& run, size_t rows, size_t width) {
  if (run.from != nullptr) return run.from;
  clear_columns(run.to, rows, width, run.first_column, run.end_column);
  return run.to;
}

/// Puts element r of each of `count` rows at r × 2 × count: what a tile multiplies one row of the state with.
inline void interleave(const float* rows, size_t count, size_t stride, size_t width, float* out) {
  for (size_t index = 0; index < count; index++) {
    for (size_t r = 0; r < width; r++) out[r * 2 * count + index] = rows[index * stride + r];
  }
}

}  // namespace
}  // namespace rocmforge
