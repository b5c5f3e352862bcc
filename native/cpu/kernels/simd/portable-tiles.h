// Tiles of 8 weight rows in plain C++: columns in fours, as everywhere, so that inner loops have a fixed length.
// Levels are kept signed, with their offset taken off.

#pragma once

#include "portable-bytes.h"

#include "../panel-unit.h"
#include "../prefetch.h"
#include "../tile-target.h"

namespace rocmforge {
namespace {

constexpr size_t kTileRows = 8;
constexpr size_t kPanelTokens = 8;
/// The largest batch of GEMV over quantized weights; not measured.
constexpr size_t kMaxGemvTokens = 8;
/// Whether multiply_tiles_of issues the prefetches that it is given.
constexpr bool kPrefetches = false;
/// Whether multiply_tiles_of writes to the target that it is given.
constexpr bool kWritesTarget = false;
/// How many tiles multiply_tiles_of takes at most.
constexpr size_t kTilesTogether = 1;

using TileQuad = uint8_t[kTileRows][4];
using TileFloats = float[kTileRows];

template <class Type>
constexpr bool kTileMinima = Type::kMinima;

template <class Type>
inline Bytes tile_levels(Bytes levels) {
  return {levels.low - static_cast<uint8_t>(Type::kOffset), levels.high - static_cast<uint8_t>(Type::kOffset)};
}
template <class Type>
inline float tile_minimum(float, float minimum) {
  return minimum;
}

inline void interleave_unit(const PanelUnit<kPanelTokens>& from, size_t unit, PanelChunk<kPanelTokens>& to) {
  interleave_tokens(from, unit, to);
}
/// See PanelChunk: multiply_tiles_of does not read them.
inline void shorten_sums(PanelChunk<kPanelTokens>&) {}

/// Writes one unit of 8 rows as quads of columns.
inline void store_tile_unit(const Bytes* rows, TileQuad* quads) {
  for (size_t row = 0; row < kTileRows; row++) {
    uint8_t levels[kUnit];
    store_unit(levels, rows[row]);
    for (size_t quad = 0; quad < kUnit / 4; quad++) memcpy(quads[quad][row], levels + quad * 4, 4);
  }
}

/// See MatmulKernels::dot_products: there is no such instruction.
inline size_t dot_products(size_t, int32_t*) { return 0; }

/// sums[token][row] += tile × panel, over one chunk; `first` starts from zero.
template <size_t kElements, bool kMinima>
__attribute__((noinline)) void multiply_tile(const TileQuad* quads, const TileFloats* scales, const TileFloats* minima,
                                             const PanelChunk<kPanelTokens>& panel, float* sums, bool first) {
  constexpr size_t kParts = 32 / kElements;
  if (first) memset(sums, 0, kPanelTokens * kTileRows * sizeof(float));
  for (size_t group = 0; group < kChunkUnits * kParts; group++) {
    // Once for all tokens: the rows of each column in 16 bits.
    WordVector columns[kElements];
    for (size_t column = 0; column < kElements; column++) {
      const TileQuad& quad = quads[group * (kElements / 4) + column / 4];
      for (size_t row = 0; row < kTileRows; row++) columns[column][row] = static_cast<int8_t>(quad[row][column % 4]);
    }
    for (size_t token = 0; token < kPanelTokens; token++) {
      QuadI even = {}, odd = {};
      for (size_t column = 0; column < kElements; column += 2) {
        const int8_t* values = panel.values[group * (kElements / 4) + column / 4][token] + column % 4;
        const WordVector pairs =
            columns[column] * static_cast<int16_t>(values[0]) + columns[column + 1] * static_cast<int16_t>(values[1]);
        even += even_words(pairs);
        odd += odd_words(pairs);
      }
      const F dots =
          to_float({__builtin_shufflevector(even, odd, 0, 4, 1, 5), __builtin_shufflevector(even, odd, 2, 6, 3, 7)});
      float* out = sums + token * kTileRows;
      F totals = fma(mul(dots, load(scales[group])), set(panel.scales[group / kParts][token]), load(out));
      if (kMinima) {
        const float token_sum = kElements == 32 ? panel.sums[group / kParts][token] : panel.sums_16[group][token];
        totals = sub(totals, mul(load(minima[group]), set(token_sum)));
      }
      store(out, totals);
    }
  }
}

template <class Type, size_t kTiles, class Tile>
inline void multiply_tiles_of(const Tile* tile, const PanelChunk<kPanelTokens>& panel, size_t, float* sums, bool first,
                              TileTarget, Prefetch) {
  static_assert(kTiles == 1, "one tile at a time");
  multiply_tile<kGroup<Type>, Type::kMinima>(tile->quads, tile->scales, tile->minima, panel, sums, first);
}

}  // namespace
}  // namespace rocmforge
