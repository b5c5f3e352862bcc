// The two inner loops of attention: scores of a few tokens for a few rows, and values of a few columns for a few rows,
// both with all their sums in registers. Include after a simd/*-float.h. A score is one chain of additions over the
// columns and a sum of values one chain over the tokens, whichever tile computes it, so that what a row gets depends on
// that row alone. Loops over a tile are unrolled by pragma: GCC keeps an array of sums in memory if it finds out too
// late that it need not.

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernel-table.h"

namespace rocmforge {
namespace {

/// Half of the registers hold sums, the rest is for operands.
constexpr size_t kTileSums = kRegisters / 2;
constexpr size_t kTokenVectors = 2;
constexpr size_t kTileRows = kTileSums / kTokenVectors;

/// How a cell stores its keys: column by column, so that lanes are tokens; or token by token, so that lanes are columns,
/// because its values are columns of the keys.
enum class KeyOrder { columns, tokens };

/// Column by column, 8-bit keys need a second set of sums, of levels that have not met their scale yet.
constexpr size_t score_tile_rows(KvType type, KeyOrder order) {
  return type == KvType::q8_0 && order == KeyOrder::columns ? kTileRows / 2 : kTileRows;
}
/// Whole vectors are written, which may begin before the span and end after it.
constexpr size_t kScoreMargin = kTokenVectors * kLanes;
constexpr size_t kScoreStride = kScoreMargin + kAttentionSpan + kScoreMargin;
constexpr size_t kCacheLineBytes = 64;

template <KvType type>
struct Elements;
template <>
struct Elements<KvType::f32> {
  static constexpr size_t bytes = 4;
  static F load_lanes(const uint8_t* from) { return load(reinterpret_cast<const float*>(from)); }
};
template <>
struct Elements<KvType::f16> {
  static constexpr size_t bytes = 2;
  static F load_lanes(const uint8_t* from) { return load_f16(from); }
};
template <>
struct Elements<KvType::q8_0> {
  static constexpr size_t bytes = 1;
  static F load_lanes(const uint8_t* from) { return load_i8(reinterpret_cast<const int8_t*>(from)); }
};

/// Into the second-level cache: the first is too small to hold what is needed that much later.
inline void prefetch_line(const uint8_t* from) { __builtin_prefetch(from, 0, 2); }
template <size_t bytes>
inline void prefetch_lines(const uint8_t* from) {
  for (size_t offset = 0; offset < bytes; offset += kCacheLineBytes) prefetch_line(from + offset);
}

/// The lanes of a row that is stored token by token. Its scales are those of the row (q8_0 only).
template <KvType type>
inline F load_row_lanes(const uint8_t* from, const uint8_t* scales, size_t block) {
  const F lanes = Elements<type>::load_lanes(from);
  if constexpr (type == KvType::q8_0) return mul(lanes, set(reinterpret_cast<const float*>(scales)[block]));
  return lanes;
}

template <size_t rows, size_t columns>
inline void clear_sums(F (&sums)[rows][columns]) {
#pragma GCC unroll 8
  for (size_t row = 0; row < rows; row++) {
#pragma GCC unroll 8
    for (size_t column = 0; column < columns; column++) sums[row][column] = zero();
  }
}

template <size_t count>
struct RowCount {
  static constexpr size_t value = count;
};

/// Calls `run` with a number of rows, from 1 to 8, as a constant.
template <typename Run>
inline void with_row_count(size_t rows, const Run& run) {
  switch (rows) {
    case 1: return run(RowCount<1>());
    case 2: return run(RowCount<2>());
    case 3: return run(RowCount<3>());
    case 4: return run(RowCount<4>());
    case 5: return run(RowCount<5>());
    case 6: return run(RowCount<6>());
    case 7: return run(RowCount<7>());
    default: return run(RowCount<8>());
  }
}

/// Keys of some neighbouring tokens, and the rows that look at them.
struct ScoreTile {
  const KvCell* cell;
  /// Of the first token.
  const uint8_t* keys;
  /// q8_0 only.
  const uint8_t* key_scales;
  /// What is needed soon: prefetched at the pace at which the keys are read.
  const uint8_t* prefetch_from;
  const float* const* queries;
  /// kScoreStride floats from row to row.
  float* scores;
};

/// Lanes are tokens: a score is one chain over the columns.
template <KvType type, size_t rows, size_t vectors>
inline void add_columns(const ScoreTile& tile, size_t first, size_t end, F (&sums)[rows][vectors]) {
  using Element = Elements<type>;
  const size_t column_bytes = tile.cell->token_stride * Element::bytes;
  const uint8_t* keys = tile.keys + first * column_bytes;
  const uint8_t* prefetch_from = tile.prefetch_from + first * column_bytes;
  for (size_t column = first; column < end; column++, keys += column_bytes, prefetch_from += column_bytes) {
    prefetch_lines<vectors * kLanes * Element::bytes>(prefetch_from);
    F key[vectors];
#pragma GCC unroll 8
    for (size_t v = 0; v < vectors; v++) key[v] = Element::load_lanes(keys + v * kLanes * Element::bytes);
#pragma GCC unroll 8
    for (size_t row = 0; row < rows; row++) {
      const F query = set(tile.queries[row][column]);
#pragma GCC unroll 8
      for (size_t v = 0; v < vectors; v++) sums[row][v] = fma(query, key[v], sums[row][v]);
    }
  }
}

/// The same, by blocks of columns with a scale for each token.
template <size_t rows, size_t vectors>
inline void add_scaled_columns(const ScoreTile& tile, F (&sums)[rows][vectors]) {
  for (size_t block = 0; block < tile.cell->key_width / kKvScaleBlock; block++) {
    F levels[rows][vectors];
    clear_sums(levels);
    add_columns<KvType::q8_0>(tile, block * kKvScaleBlock, (block + 1) * kKvScaleBlock, levels);
    const uint8_t* scales = tile.key_scales + block * tile.cell->token_stride * sizeof(float);
#pragma GCC unroll 8
    for (size_t v = 0; v < vectors; v++) {
      const F scale = load(reinterpret_cast<const float*>(scales) + v * kLanes);
#pragma GCC unroll 8
      for (size_t row = 0; row < rows; row++) sums[row][v] = fma(levels[row][v], scale, sums[row][v]);
    }
  }
}

/// Lanes are columns: a score is the sum of the lanes, each a chain over its columns.
template <KvType type, size_t rows, size_t tokens>
inline void add_key_rows(const ScoreTile& tile, F (&sums)[rows][tokens]) {
  using Element = Elements<type>;
  const size_t row_bytes = tile.cell->value_stride * Element::bytes;
  const size_t scale_blocks = tile.cell->value_width / kKvScaleBlock;
  for (size_t column = 0; column < tile.cell->value_stride; column += kLanes) {
    F key[tokens];
#pragma GCC unroll 8
    for (size_t token = 0; token < tokens; token++) {
      const size_t offset = token * row_bytes + column * Element::bytes;
      prefetch_lines<kLanes * Element::bytes>(tile.prefetch_from + offset);
      key[token] =
          load_row_lanes<type>(tile.keys + offset, tile.key_scales, token * scale_blocks + column / kKvScaleBlock);
    }
#pragma GCC unroll 8
    for (size_t row = 0; row < rows; row++) {
      const F query = load(tile.queries[row] + column);
#pragma GCC unroll 8
      for (size_t token = 0; token < tokens; token++) sums[row][token] = fma(query, key[token], sums[row][token]);
    }
  }
}

/// `units` are vectors of tokens if lanes are tokens, and tokens otherwise.
template <KvType type, KeyOrder order, size_t rows, size_t units>
__attribute__((noinline)) void score_tile(const ScoreTile& tile) {
  F sums[rows][units];
  clear_sums(sums);
  if constexpr (order == KeyOrder::tokens) {
    add_key_rows<type>(tile, sums);
  } else if constexpr (type == KvType::q8_0) {
    add_scaled_columns(tile, sums);
  } else {
    add_columns<type>(tile, 0, tile.cell->key_width, sums);
  }
#pragma GCC unroll 8
  for (size_t row = 0; row < rows; row++) {
    float* const scores = tile.scores + row * kScoreStride;
#pragma GCC unroll 8
    for (size_t unit = 0; unit < units; unit++) {
      if constexpr (order == KeyOrder::tokens) {
        scores[unit] = sum(sums[row][unit]);
      } else {
        store(scores + unit * kLanes, sums[row][unit]);
      }
    }
  }
}

/// At most score_tile_rows(type, order) rows, and 1 or kTokenVectors units.
template <KvType type, KeyOrder order>
inline void score_rows(const ScoreTile& tile, size_t rows, size_t units) {
  with_row_count(rows, [&](auto count) {
    if constexpr (count.value <= score_tile_rows(type, order)) {
      if (units == kTokenVectors) return score_tile<type, order, count.value, kTokenVectors>(tile);
      return score_tile<type, order, count.value, 1>(tile);
    }
  });
}

/// Values of some neighbouring columns, and the rows that take them.
struct ValueTile {
  const KvCell* cell;
  const uint8_t* values;
  /// q8_0 only.
  const uint8_t* value_scales;
  const uint8_t* prefetch_from;
  size_t first_column;
  size_t first_token;
  size_t end_token;
  /// Of the first token; kScoreStride floats from row to row.
  const float* weights;
  const AttentionPartial* partials;
};

template <KvType type, size_t rows, size_t vectors>
__attribute__((noinline)) void value_tile(const ValueTile& tile) {
  using Element = Elements<type>;
  F sums[rows][vectors];
#pragma GCC unroll 8
  for (size_t row = 0; row < rows; row++) {
#pragma GCC unroll 8
    for (size_t v = 0; v < vectors; v++)
      sums[row][v] = load(tile.partials[row].values + tile.first_column + v * kLanes);
  }
  const size_t row_bytes = tile.cell->value_stride * Element::bytes;
  const size_t offset = tile.first_token * row_bytes + tile.first_column * Element::bytes;
  const uint8_t* values = tile.values + offset;
  const uint8_t* prefetch_from = tile.prefetch_from + offset;
  const size_t scale_blocks = tile.cell->value_width / kKvScaleBlock;
  for (size_t token = tile.first_token; token < tile.end_token;
       token++, values += row_bytes, prefetch_from += row_bytes) {
    prefetch_lines<vectors * kLanes * Element::bytes>(prefetch_from);
    F value[vectors];
#pragma GCC unroll 8
    for (size_t v = 0; v < vectors; v++) {
      const size_t block = token * scale_blocks + (tile.first_column + v * kLanes) / kKvScaleBlock;
      value[v] = load_row_lanes<type>(values + v * kLanes * Element::bytes, tile.value_scales, block);
    }
#pragma GCC unroll 8
    for (size_t row = 0; row < rows; row++) {
      const F weight = set(tile.weights[row * kScoreStride + token - tile.first_token]);
#pragma GCC unroll 8
      for (size_t v = 0; v < vectors; v++) sums[row][v] = fma(weight, value[v], sums[row][v]);
    }
  }
#pragma GCC unroll 8
  for (size_t row = 0; row < rows; row++) {
#pragma GCC unroll 8
    for (size_t v = 0; v < vectors; v++)
      store(tile.partials[row].values + tile.first_column + v * kLanes, sums[row][v]);
  }
}

/// Columns in steps of `vectors` vectors, then the rest in smaller steps.
template <KvType type, size_t rows, size_t vectors>
inline void value_columns(ValueTile& tile) {
  for (; tile.first_column + vectors * kLanes <= tile.cell->value_stride; tile.first_column += vectors * kLanes) {
    value_tile<type, rows, vectors>(tile);
  }
  if constexpr (vectors > 1) value_columns<type, rows, vectors / 2>(tile);
}

/// At most kTileRows.
template <KvType type>
inline void value_rows(ValueTile tile, size_t rows) {
  with_row_count(rows, [&](auto count) {
    if constexpr (count.value <= kTileRows)
      value_columns<type, count.value, kTileSums / count.value >= 4 ? 4 : 2>(tile);
  });
}

}  // namespace
}  // namespace rocmforge
