// Tiles of types with super-blocks: each unit of 32 columns has an integer scale of 6 bits, and the 256 columns of a
// super-block share one scale and one minimum, by which sums are multiplied once. Minima are dot products of 16 bits.
// A token's scale times an integer has the same bits wherever it is computed, so that GEMM with tokens in the lanes
// (avx512-lane-gemm.h) gives what tiles give.

#pragma once

#include "avx512-tiles.h"

namespace rocmforge {
namespace {

/// Where a tile keeps the scale and the minimum of the super-block: after the scales of the units. The minima of the units
/// are integers as well, interleaved by pairs of units.
constexpr size_t kSuperScale = kChunkUnits;
constexpr size_t kSuperMinimum = kChunkUnits + 1;

inline __m512i dot_words(__m512i sums, const void* weight, const int16_t* token) {
  int32_t two;
  memcpy(&two, token, sizeof two);
  return _mm512_dpwssd_epi32(sums, _mm512_loadu_si512(weight), _mm512_set1_epi32(two));
}

/// What a super-block adds to sums from before.
inline F add_super_block(F before, F total, F scale, __m512i minima, F sum_scale, F minimum) {
  return _mm512_fnmadd_ps(mul(to_float(minima), sum_scale), minimum, fma(total, scale, before));
}

/// As multiply_tiles (avx512-tiles.h).
template <size_t kTiles, size_t kTokens, class Tile>
__attribute__((noinline)) void multiply_super_blocks(const Tile* tiles, const PanelChunk<kPanelTokens>& panel,
                                                     size_t tokens, float* sums, bool first, TileTarget target,
                                                     Prefetch next) {
  constexpr size_t kQuads = kUnit / 4;
  constexpr size_t kSums = kPanelTokens * kTileRows;
  for (size_t start = 0; start < tokens; start += kTokens) {
    F totals[kTiles][kTokens];
    __m512i dots[kTiles][kTokens];
    for (size_t tile = 0; tile < kTiles; tile++) {
      ROCMFORGE_UNROLL(16)
      for (size_t token = 0; token < kTokens; token++) totals[tile][token] = zero();
    }
    for (size_t unit = 0; unit < kChunkUnits; unit++) {
      if (start == 0) next.issue(unit, kChunkUnits);
      for (size_t tile = 0; tile < kTiles; tile++) {
        ROCMFORGE_UNROLL(16)
        for (size_t token = 0; token < kTokens; token++) dots[tile][token] = _mm512_setzero_si512();
      }
      dot_quads<kQuads>(tiles, panel.values[unit * kQuads] + start, unit * kQuads, dots);
      for (size_t tile = 0; tile < kTiles; tile++) {
        const F row_scale = load(tiles[tile].scales[unit]);
        ROCMFORGE_UNROLL(16)
        for (size_t token = 0; token < kTokens; token++) {
          const F scale = mul(row_scale, set(panel.scales[unit][start + token]));
          totals[tile][token] = fma(to_float(dots[tile][token]), scale, totals[tile][token]);
        }
      }
    }
    ROCMFORGE_UNROLL(4)
    for (size_t pair = 0; pair < kChunkUnits / 2; pair++) {
      for (size_t tile = 0; tile < kTiles; tile++) {
        ROCMFORGE_UNROLL(16)
        for (size_t token = 0; token < kTokens; token++) {
          const __m512i begun = pair == 0 ? _mm512_setzero_si512() : dots[tile][token];
          dots[tile][token] = dot_words(begun, tiles[tile].minima[pair], panel.short_sums[pair][start + token]);
        }
      }
    }
    const TileTarget to = target.rows == nullptr ? TileTarget{sums, kTileRows} : target;
    const size_t tile_stride = target.rows == nullptr ? kSums : kTileRows;
    for (size_t tile = 0; tile < kTiles; tile++) {
      const F scale = load(tiles[tile].scales[kSuperScale]), minimum = load(tiles[tile].scales[kSuperMinimum]);
      ROCMFORGE_UNROLL(16)
      for (size_t token = 0; token < kTokens; token++) {
        const size_t place = start + token;
        const F before = first ? zero() : load(sums + tile * kSums + place * kTileRows);
        store(to.rows + tile * tile_stride + place * to.stride,
              add_super_block(before, totals[tile][token], scale, dots[tile][token], set(panel.short_sum_scales[place]),
                              minimum));
      }
    }
  }
}

/// Types that multiply_super_blocks multiplies.
template <class Type>
constexpr bool kSuperBlocks = false;

/// Tiles whose sums, and whose rows, are neighbours.
template <class Type, size_t kTiles, class Tile>
inline void multiply_tiles_of(const Tile* tiles, const PanelChunk<kPanelTokens>& panel, size_t tokens, float* sums,
                              bool first, TileTarget target, Prefetch next) {
  if constexpr (kSuperBlocks<Type>) {
    multiply_super_blocks<kTiles, 8 / kTiles>(tiles, panel, tokens, sums, first, target, next);
  } else {
    multiply_tiles<kGroup<Type>, Type::kMinima, !Type::kMinima, kTiles, 8 / kTiles>(tiles, panel, tokens, sums, first,
                                                                                    target, next);
  }
}

}  // namespace
}  // namespace rocmforge
