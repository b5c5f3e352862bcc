// Tiles of 16 weight rows with AVX-512: a vector holds four columns of every row, and one vpdpbusd multiplies it with
// four columns of one token, which the instruction itself broadcasts from memory.
// Levels that are signed or have an offset are kept with 128 added, and the accumulators start with what takes it back.

#pragma once

#include "avx512-bytes.h"

#include "../panel-unit.h"
#include "../prefetch.h"
#include "../tile-target.h"
#include "../unroll.h"

namespace rocmforge {
namespace {

constexpr size_t kTileRows = 16;
constexpr size_t kPanelTokens = 16;
/// The largest batch of GEMV over quantized weights. On a Zen 4, GEMM is faster at five tokens for every type but Q2_K
/// and MXFP4, at four for none but Q4_K (by 2 %). Types with a form for one panel take it from two tokens on.
constexpr size_t kMaxGemvTokens = 4;
/// Whether multiply_tiles_of issues the prefetches that it is given.
constexpr bool kPrefetches = true;
/// Whether multiply_tiles_of writes to the target that it is given.
constexpr bool kWritesTarget = true;
/// How many tiles multiply_tiles_of takes at most.
constexpr size_t kTilesTogether = 2;

using TileQuad = uint8_t[kTileRows][4];
using TileFloats = float[kTileRows];

template <class Type>
constexpr bool kTileMinima = Type::kMinima;

template <class Type>
inline Bytes tile_levels(Bytes levels) {
  return Type::kMinima ? levels : plus(levels, 128 - Type::kOffset);
}
template <class Type>
inline float tile_minimum(float, float minimum) {
  return minimum;
}

/// 16 rows of 32 bytes as eight vectors of four columns.
inline void transpose_unit(const Bytes* rows, __m512i* quads) {
  // Rows i and i + 8 share a vector, so that one transposition of 8 × 8 quads serves both halves of it.
  __m512i both[8], pairs[8], fours[8];
  for (size_t row = 0; row < 8; row++)
    both[row] = _mm512_inserti64x4(_mm512_castsi256_si512(rows[row]), rows[row + 8], 1);
  for (size_t row = 0; row < 8; row += 2) {
    pairs[row] = _mm512_unpacklo_epi32(both[row], both[row + 1]);
    pairs[row + 1] = _mm512_unpackhi_epi32(both[row], both[row + 1]);
  }
  // fours[4 g + j]: rows 4 g to 4 g + 3 of quad j, then of quad 4 + j; the same of the later rows.
  for (size_t group = 0; group < 8; group += 4) {
    fours[group] = _mm512_unpacklo_epi64(pairs[group], pairs[group + 2]);
    fours[group + 1] = _mm512_unpackhi_epi64(pairs[group], pairs[group + 2]);
    fours[group + 2] = _mm512_unpacklo_epi64(pairs[group + 1], pairs[group + 3]);
    fours[group + 3] = _mm512_unpackhi_epi64(pairs[group + 1], pairs[group + 3]);
  }
  const __m512i first = _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13);
  const __m512i second = _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15);
  for (size_t quad = 0; quad < 4; quad++) {
    quads[quad] = _mm512_permutex2var_epi64(fours[quad], first, fours[4 + quad]);
    quads[4 + quad] = _mm512_permutex2var_epi64(fours[quad], second, fours[4 + quad]);
  }
}

/// Writes one unit of 16 rows as quads of columns.
inline void store_tile_unit(const Bytes* rows, TileQuad* quads) {
  __m512i columns[8];
  transpose_unit(rows, columns);
  for (size_t quad = 0; quad < 8; quad++) _mm512_storeu_si512(quads[quad], columns[quad]);
}

inline __m512i dot_quad(__m512i sums, __m512i weight, const int8_t* token) {
#ifdef __GNUC__
  // Neither compiler folds the broadcast into this instruction by itself, and the tile needs every slot.
  typedef int32_t __attribute__((may_alias, aligned(1))) Quad;
  __asm__("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sums) : "v"(weight), "m"(*reinterpret_cast<const Quad*>(token)));
  return sums;
#else
  int32_t quad;
  memcpy(&quad, token, sizeof quad);
  return _mm512_dpbusd_epi32(sums, weight, _mm512_set1_epi32(quad));
#endif
}

/// Interleaves a unit: the tokens are the rows of a tile, and sums of levels are dot products with ones.
inline void interleave_unit(const PanelUnit<kPanelTokens>& from, size_t unit, PanelChunk<kPanelTokens>& to) {
  static_assert(kPanelTokens == kTileRows && kPanelTokens == kLanes, "a vector has the tokens of a panel");
  Bytes rows[kTileRows];
  ROCMFORGE_UNROLL(16)
  for (size_t token = 0; token < kTileRows; token++)
    rows[token] = load_32(reinterpret_cast<const uint8_t*>(from.levels[token]));
  __m512i quads[8], sums[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()};
  transpose_unit(rows, quads);
  ROCMFORGE_UNROLL(8)
  for (size_t quad = 0; quad < 8; quad++) {
    _mm512_storeu_si512(to.values[unit * 8 + quad], quads[quad]);
    sums[quad / 4] = _mm512_dpbusd_epi32(sums[quad / 4], _mm512_set1_epi8(1), quads[quad]);
  }
  const F scale = load(from.scales);
  const __m512i both = _mm512_add_epi32(sums[0], sums[1]);
  store(to.scales[unit], scale);
  store(to.sums[unit], mul(scale, to_float(both)));
  const auto negated = [](__m512i sum) { return _mm512_slli_epi32(_mm512_sub_epi32(_mm512_setzero_si512(), sum), 7); };
  _mm512_storeu_si512(to.corrections[unit], negated(both));
  for (size_t half = 0; half < 2; half++) {
    store(to.sums_16[2 * unit + half], mul(scale, to_float(sums[half])));
    _mm512_storeu_si512(to.corrections_16[2 * unit + half], negated(sums[half]));
  }
}

/// Fills short_sums of a chunk whose sums are there.
inline void shorten_sums(PanelChunk<kPanelTokens>& panel) {
  F largest = zero();
  for (size_t unit = 0; unit < kChunkUnits; unit++) largest = max(largest, abs(load(panel.sums[unit])));
  // Never zero, so that there is no quotient that is none. A sum that is NaN has a scale that is NaN, too.
  const F scale = max(mul(largest, set(1.0f / 32767)), set(1e-37f));
  store(panel.short_sum_scales, scale);
  for (size_t pair = 0; pair < kChunkUnits / 2; pair++) {
    const __m512i low = round_to_int(div(load(panel.sums[2 * pair]), scale));
    const __m512i high = round_to_int(div(load(panel.sums[2 * pair + 1]), scale));
    _mm512_storeu_si512(panel.short_sums[pair], _mm512_mask_blend_epi16(0xaaaaaaaa, low, _mm512_slli_epi32(high, 16)));
  }
}

/// See MatmulKernels::dot_products.
inline size_t dot_products(size_t rounds, int32_t* sink) {
  constexpr size_t kChains = 16;
  __m512i sums[kChains];
  for (__m512i& sum : sums) sum = _mm512_setzero_si512();
  const __m512i ones = _mm512_set1_epi8(1);
  for (size_t round = 0; round < rounds; round++) {
    ROCMFORGE_UNROLL(16)
    for (size_t chain = 0; chain < kChains; chain++) sums[chain] = _mm512_dpbusd_epi32(sums[chain], ones, ones);
  }
  for (size_t chain = 0; chain < kChains; chain++) sink[chain] = _mm512_reduce_add_epi32(sums[chain]);
  return rounds * kChains * 64;
}

/// Dot products of kQuads quads from `first` on, whose values of the first token are at `values`: each value of a token
/// serves all tiles.
template <size_t kQuads, size_t kTiles, size_t kTokens, class Tile>
inline void dot_quads(const Tile* tiles, const int8_t (*values)[4], size_t first, __m512i (&dots)[kTiles][kTokens]) {
#ifdef __GNUC__
  // GCC would keep a pointer for each token, in memory.
  __asm__("" : "+r"(values));
#endif
  ROCMFORGE_UNROLL(8)
  for (size_t quad = 0; quad < kQuads; quad++) {
    const int8_t (*tokens)[4] = values + quad * kPanelTokens;
    __m512i weights[kTiles];
    for (size_t tile = 0; tile < kTiles; tile++) weights[tile] = _mm512_loadu_si512(tiles[tile].quads[first + quad]);
    ROCMFORGE_UNROLL(16)
    for (size_t token = 0; token < kTokens; token++) {
      if constexpr (kTiles == 1) {
        dots[0][token] = dot_quad(dots[0][token], weights[0], tokens[token]);
      } else {
        int32_t four;
        memcpy(&four, tokens[token], sizeof four);
        const __m512i values = _mm512_set1_epi32(four);
        for (size_t tile = 0; tile < kTiles; tile++)
          dots[tile][token] = _mm512_dpbusd_epi32(dots[tile][token], weights[tile], values);
      }
    }
  }
}

/// sums[tile][token][row] += tile × panel, over one chunk, kTokens tokens at a time, as many as leave all sums in
/// registers; `first` starts from zero. One tile takes a load for each dot product, which is all that a core can load:
/// with two tiles Zen 5 multiplies Q4_K 4 %, Q4_0 8 % and Q6_K 11 % faster. With a target the result goes there: writes to
/// memory that is far away then run beside the next multiplications.
template <size_t kElements, bool kMinima, bool kStarted, size_t kTiles, size_t kTokens, class Tile>
__attribute__((noinline)) void multiply_tiles(const Tile* tiles, const PanelChunk<kPanelTokens>& panel, size_t tokens,
                                              float* sums, bool first, TileTarget target, Prefetch next) {
  constexpr size_t kParts = 32 / kElements;
  constexpr size_t kQuads = kElements / 4;
  constexpr size_t kSums = kPanelTokens * kTileRows;
  for (size_t start = 0; start < tokens; start += kTokens) {
    F totals[kTiles][kTokens];
    for (size_t tile = 0; tile < kTiles; tile++) {
      ROCMFORGE_UNROLL(16)
      for (size_t token = 0; token < kTokens; token++)
        totals[tile][token] = first ? zero() : load(sums + tile * kSums + (start + token) * kTileRows);
    }
    for (size_t unit = 0; unit < kChunkUnits; unit++) {
      if (start == 0) next.issue(unit, kChunkUnits);
      F parts[kTiles][kTokens];
      ROCMFORGE_UNROLL(2)
      for (size_t part = 0; part < kParts; part++) {
        const size_t group = unit * kParts + part;
        const int32_t* corrections = (kElements == 32 ? panel.corrections[unit] : panel.corrections_16[group]) + start;
        __m512i dots[kTiles][kTokens];
        ROCMFORGE_UNROLL(16)
        for (size_t token = 0; token < kTokens; token++) {
          const __m512i begun = kStarted ? _mm512_set1_epi32(corrections[token]) : _mm512_setzero_si512();
          for (size_t tile = 0; tile < kTiles; tile++) dots[tile][token] = begun;
        }
        dot_quads<kQuads>(tiles, panel.values[unit * 8 + part * kQuads] + start, unit * 8 + part * kQuads, dots);
        const float* token_sums = (kElements == 32 ? panel.sums[unit] : panel.sums_16[group]) + start;
        for (size_t tile = 0; tile < kTiles; tile++) {
          const F scale = load(tiles[tile].scales[group]);
          ROCMFORGE_UNROLL(16)
          for (size_t token = 0; token < kTokens; token++) {
            F& sum = parts[tile][token];
            sum = part == 0 ? mul(to_float(dots[tile][token]), scale) : fma(to_float(dots[tile][token]), scale, sum);
          }
          if (!kMinima) continue;
          const F minimum = load(tiles[tile].minima[group]);
          ROCMFORGE_UNROLL(16)
          for (size_t token = 0; token < kTokens; token++)
            totals[tile][token] = _mm512_fnmadd_ps(minimum, set(token_sums[token]), totals[tile][token]);
        }
      }
      for (size_t tile = 0; tile < kTiles; tile++) {
        ROCMFORGE_UNROLL(16)
        for (size_t token = 0; token < kTokens; token++) {
          totals[tile][token] = fma(parts[tile][token], set(panel.scales[unit][start + token]), totals[tile][token]);
        }
      }
    }
    float* const to = target.rows == nullptr ? sums : target.rows;
    const size_t stride = target.rows == nullptr ? kTileRows : target.stride;
    const size_t tile_stride = target.rows == nullptr ? kSums : kTileRows;
    for (size_t tile = 0; tile < kTiles; tile++) {
      ROCMFORGE_UNROLL(16)
      for (size_t token = 0; token < kTokens; token++)
        store(to + tile * tile_stride + (start + token) * stride, totals[tile][token]);
    }
  }
}

}  // namespace
}  // namespace rocmforge
