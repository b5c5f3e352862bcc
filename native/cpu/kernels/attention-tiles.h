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
/// 8-bit keys need a second set of sums, of levels that have not met their scale yet.
constexpr size_t score_tile_rows(KvType type) { return type == KvType::q8_0 ? kTileRows / 2 : kTileRows; }
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

/// Keys of some neighbouring tokens, and the rows that look at them.
struct ScoreTile {
  const KvCell* cell;
  const uint8_t* keys;
  /// q8_0 only.
  const uint8_t* key_scales;
  /// What is needed soon: prefetched at the pace at which the keys are read.
  const uint8_t* prefetch_from;
  const float* const* queries;
  /// kScoreStride floats from row to row.
  float* scores;
};

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

template <KvType type, size_t rows, size_t vectors>
__attribute__((noinline)) void score_tile(const ScoreTile& tile) {
  F sums[rows][vectors];
#pragma GCC unroll 8
  for (size_t row = 0; row < rows; row++) {
#pragma GCC unroll 8
    for (size_t v = 0; v < vectors; v++) sums[row][v] = zero();
  }
  const size_t width = tile.cell->key_width;
  if constexpr (type == KvType::q8_0) {
    for (size_t block = 0; block < width / kKvScaleBlock; block++) {
      F levels[rows][vectors];
#pragma GCC unroll 8
      for (size_t row = 0; row < rows; row++) {
#pragma GCC unroll 8
        for (size_t v = 0; v < vectors; v++) levels[row][v] = zero();
      }
      add_columns<type, rows, vectors>(tile, block * kKvScaleBlock, (block + 1) * kKvScaleBlock, levels);
      const uint8_t* scales = tile.key_scales + block * tile.cell->token_stride * sizeof(float);
#pragma GCC unroll 8
      for (size_t v = 0; v < vectors; v++) {
        const F scale = load(reinterpret_cast<const float*>(scales) + v * kLanes);
#pragma GCC unroll 8
        for (size_t row = 0; row < rows; row++) sums[row][v] = fma(levels[row][v], scale, sums[row][v]);
      }
    }
  } else {
    add_columns<type, rows, vectors>(tile, 0, width, sums);
  }
#pragma GCC unroll 8
  for (size_t row = 0; row < rows; row++) {
#pragma GCC unroll 8
    for (size_t v = 0; v < vectors; v++) store(tile.scores + row * kScoreStride + v * kLanes, sums[row][v]);
  }
}

template <KvType type, size_t rows>
inline void score_vectors(const ScoreTile& tile, size_t vectors) {
  if constexpr (rows <= score_tile_rows(type)) {
    if (vectors == kTokenVectors) return score_tile<type, rows, kTokenVectors>(tile);
    return score_tile<type, rows, 1>(tile);
  }
}

/// At most score_tile_rows(type).
template <KvType type>
inline void score_rows(const ScoreTile& tile, size_t rows, size_t vectors) {
  switch (rows) {
    case 1: return score_vectors<type, 1>(tile, vectors);
    case 2: return score_vectors<type, 2>(tile, vectors);
    case 3: return score_vectors<type, 3>(tile, vectors);
    case 4: return score_vectors<type, 4>(tile, vectors);
    case 5: return score_vectors<type, 5>(tile, vectors);
    case 6: return score_vectors<type, 6>(tile, vectors);
    case 7: return score_vectors<type, 7>(tile, vectors);
    default: return score_vectors<type, 8>(tile, vectors);
  }
}

/// Keys that are stored token by token, as the rows of values are.
struct RowScoreTile {
  const KvCell* cell;
  /// Of the first token.
  const uint8_t* keys;
  /// q8_0 only.
  const uint8_t* key_scales;
  const uint8_t* prefetch_from;
  const float* const* queries;
  /// kScoreStride floats from row to row.
  float* scores;
};

/// Lanes are columns: a score is the sum of the lanes, each a chain over its columns.
template <KvType type, size_t rows, size_t tokens>
__attribute__((noinline)) void row_score_tile(const RowScoreTile& tile) {
  using Element = Elements<type>;
  F sums[rows][tokens];
#pragma GCC unroll 8
  for (size_t row = 0; row < rows; row++) {
#pragma GCC unroll 8
    for (size_t token = 0; token < tokens; token++) sums[row][token] = zero();
  }
  const size_t row_bytes = tile.cell->value_stride * Element::bytes;
  const size_t scale_blocks = tile.cell->value_width / kKvScaleBlock;
  for (size_t column = 0; column < tile.cell->value_stride; column += kLanes) {
    F key[tokens];
#pragma GCC unroll 8
    for (size_t token = 0; token < tokens; token++) {
      const size_t offset = token * row_bytes + column * Element::bytes;
      prefetch_lines<kLanes * Element::bytes>(tile.prefetch_from + offset);
      key[token] = Element::load_lanes(tile.keys + offset);
      if constexpr (type == KvType::q8_0) {
        const size_t block = token * scale_blocks + column / kKvScaleBlock;
        key[token] = mul(key[token], set(reinterpret_cast<const float*>(tile.key_scales)[block]));
      }
    }
#pragma GCC unroll 8
    for (size_t row = 0; row < rows; row++) {
      const F query = load(tile.queries[row] + column);
#pragma GCC unroll 8
      for (size_t token = 0; token < tokens; token++) sums[row][token] = fma(query, key[token], sums[row][token]);
    }
  }
#pragma GCC unroll 8
  for (size_t row = 0; row < rows; row++) {
#pragma GCC unroll 8
    for (size_t token = 0; token < tokens; token++) tile.scores[row * kScoreStride + token] = sum(sums[row][token]);
  }
}

template <KvType type, size_t rows>
inline void row_score_tokens(const RowScoreTile& tile, size_t tokens) {
  if constexpr (rows <= kTileRows) {
    if (tokens == kTokenVectors) return row_score_tile<type, rows, kTokenVectors>(tile);
    return row_score_tile<type, rows, 1>(tile);
  }
}

/// At most kTileRows rows, and 1 or kTokenVectors tokens.
template <KvType type>
inline void row_scores(const RowScoreTile& tile, size_t rows, size_t tokens) {
  switch (rows) {
    case 1: return row_score_tokens<type, 1>(tile, tokens);
    case 2: return row_score_tokens<type, 2>(tile, tokens);
    case 3: return row_score_tokens<type, 3>(tile, tokens);
    case 4: return row_score_tokens<type, 4>(tile, tokens);
    case 5: return row_score_tokens<type, 5>(tile, tokens);
    case 6: return row_score_tokens<type, 6>(tile, tokens);
    case 7: return row_score_tokens<type, 7>(tile, tokens);
    default: return row_score_tokens<type, 8>(tile, tokens);
  }
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
      value[v] = Element::load_lanes(values + v * kLanes * Element::bytes);
      if constexpr (type == KvType::q8_0) {
        const size_t block = token * scale_blocks + (tile.first_column + v * kLanes) / kKvScaleBlock;
        value[v] = mul(value[v], set(reinterpret_cast<const float*>(tile.value_scales)[block]));
      }
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

template <KvType type, size_t rows>
inline void value_all_columns(ValueTile tile) {
  if constexpr (rows <= kTileRows) value_columns<type, rows, kTileSums / rows >= 4 ? 4 : 2>(tile);
}

/// At most kTileRows.
template <KvType type>
inline void value_rows(const ValueTile& tile, size_t rows) {
  switch (rows) {
    case 1: return value_all_columns<type, 1>(tile);
    case 2: return value_all_columns<type, 2>(tile);
    case 3: return value_all_columns<type, 3>(tile);
    case 4: return value_all_columns<type, 4>(tile);
    case 5: return value_all_columns<type, 5>(tile);
    case 6: return value_all_columns<type, 6>(tile);
    case 7: return value_all_columns<type, 7>(tile);
    default: return value_all_columns<type, 8>(tile);
  }
}

}  // namespace
}  // namespace rocmforge
