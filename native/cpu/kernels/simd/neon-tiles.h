// Tiles of 8 weight rows with NEON: a vector holds four columns of four rows, and one sdot multiplies it with four
// columns of one token, chosen as a lane of a vector that holds four tokens.
// Levels are kept signed, with their offset taken off.

#pragma once

#include "neon-bytes.h"

#include "../panel-unit.h"
#include "../prefetch.h"
#include "../tile-target.h"
#include "../unroll.h"

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
/// Tokens whose sums fit the registers, and one vector of activations.
constexpr size_t kTokenStep = 4;

using TileQuad = uint8_t[kTileRows][4];
using TileFloats = float[kTileRows];

template <class Type>
constexpr bool kTileMinima = Type::kMinima;

template <class Type>
inline Bytes tile_levels(Bytes levels) {
  return Type::kOffset == 0 ? levels : minus(levels, Type::kOffset);
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
  for (size_t first = 0; first < kTileRows; first += 4) {
    for (size_t half = 0; half < 2; half++) {
      uint32x4x4_t columns;
      for (size_t row = 0; row < 4; row++) {
        const Bytes& bytes = rows[first + row];
        columns.val[row] = vreinterpretq_u32_u8(half == 0 ? bytes.low : bytes.high);
      }
      // Storing four vectors interleaved puts the first quads of all four rows first, and so on.
      uint32_t transposed[16];
      vst4q_u32(transposed, columns);
      for (size_t quad = 0; quad < 4; quad++) memcpy(quads[half * 4 + quad][first], transposed + quad * 4, 16);
    }
  }
}

template <int kToken>
inline void dot_lane(int32x4_t (*dots)[2], int8x16_t first, int8x16_t second, int8x16_t tokens) {
  dots[kToken][0] = vdotq_laneq_s32(dots[kToken][0], first, tokens, kToken);
  dots[kToken][1] = vdotq_laneq_s32(dots[kToken][1], second, tokens, kToken);
}

/// See MatmulKernels::dot_products.
inline size_t dot_products(size_t rounds, int32_t* sink) {
  constexpr size_t kChains = 16;
  int32x4_t sums[kChains];
  for (int32x4_t& sum : sums) sum = vdupq_n_s32(0);
  const int8x16_t ones = vdupq_n_s8(1);
  for (size_t round = 0; round < rounds; round++) {
    ROCMFORGE_UNROLL(16)
    for (size_t chain = 0; chain < kChains; chain++) sums[chain] = vdotq_s32(sums[chain], ones, ones);
  }
  for (size_t chain = 0; chain < kChains; chain++) sink[chain] = vaddvq_s32(sums[chain]);
  return rounds * kChains * 16;
}

/// sums[token][row] += tile × panel, over one chunk; `first` starts from zero.
template <size_t kElements, bool kMinima>
__attribute__((noinline)) void multiply_tile(const TileQuad* quads, const TileFloats* scales, const TileFloats* minima,
                                             const PanelChunk<kPanelTokens>& panel, float* sums, bool first) {
  constexpr size_t kParts = 32 / kElements;
  for (size_t start = 0; start < kPanelTokens; start += kTokenStep) {
    F totals[kTokenStep][2];
    for (size_t token = 0; token < kTokenStep; token++) {
      for (size_t part = 0; part < 2; part++) {
        totals[token][part] = first ? zero() : load(sums + (start + token) * kTileRows + part * 4);
      }
    }
    for (size_t group = 0; group < kChunkUnits * kParts; group++) {
      int32x4_t dots[kTokenStep][2];
      for (size_t token = 0; token < kTokenStep; token++) dots[token][0] = dots[token][1] = vdupq_n_s32(0);
      ROCMFORGE_UNROLL(8)
      for (size_t quad = 0; quad < kElements / 4; quad++) {
        const size_t column = group * (kElements / 4) + quad;
        const int8x16_t low = vreinterpretq_s8_u8(vld1q_u8(quads[column][0]));
        const int8x16_t high = vreinterpretq_s8_u8(vld1q_u8(quads[column][4]));
        const int8x16_t tokens = vld1q_s8(panel.values[column][start]);
        dot_lane<0>(dots, low, high, tokens);
        dot_lane<1>(dots, low, high, tokens);
        dot_lane<2>(dots, low, high, tokens);
        dot_lane<3>(dots, low, high, tokens);
      }
      const float* token_scales = panel.scales[group / kParts] + start;
      const float* token_sums = (kElements == 32 ? panel.sums[group / kParts] : panel.sums_16[group]) + start;
      ROCMFORGE_UNROLL(2)
      for (size_t part = 0; part < 2; part++) {
        const F scale = load(scales[group] + part * 4);
        const F minimum = kMinima ? load(minima[group] + part * 4) : zero();
        ROCMFORGE_UNROLL(4)
        for (size_t token = 0; token < kTokenStep; token++) {
          F& target = totals[token][part];
          target = vfmaq_n_f32(target, mul(to_float(dots[token][part]), scale), token_scales[token]);
          if (kMinima) target = vfmsq_n_f32(target, minimum, token_sums[token]);
        }
      }
    }
    for (size_t token = 0; token < kTokenStep; token++) {
      for (size_t part = 0; part < 2; part++) store(sums + (start + token) * kTileRows + part * 4, totals[token][part]);
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
