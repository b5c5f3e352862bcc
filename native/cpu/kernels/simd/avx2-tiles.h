// Tiles of 8 weight rows with AVX2: a vector holds four columns of every row. Dot products of small levels are summed
// in 16 bits for as long as they fit, and then widened. A constant offset of the levels is taken back like a minimum.

#pragma once

#include "avx2-bytes.h"

#include "../panel-unit.h"
#include "../prefetch.h"
#include "../tile-target.h"
#include "../unroll.h"

namespace rocmforge {
namespace {

constexpr size_t kTileRows = 8;
constexpr size_t kPanelTokens = 8;
/// The largest batch of GEMV over quantized weights. At six tokens GEMV is faster than GEMM for nearly every type, at
/// eight for half of them, Q4_K among these.
constexpr size_t kMaxGemvTokens = 8;
/// Whether multiply_tiles_of issues the prefetches that it is given.
constexpr bool kPrefetches = false;
/// Whether multiply_tiles_of writes to the target that it is given.
constexpr bool kWritesTarget = false;
/// How many tiles multiply_tiles_of takes at most.
constexpr size_t kTilesTogether = 1;
/// Tokens whose sums fit the registers.
constexpr size_t kTokenStep = 4;

using TileQuad = uint8_t[kTileRows][4];
using TileFloats = float[kTileRows];

template <class Type>
constexpr bool kTileMinima = Type::kMinima || Type::kOffset != 0;

template <class Type>
inline Bytes tile_levels(Bytes levels) {
  return levels;
}
template <class Type>
inline float tile_minimum(float scale, float minimum) {
  return Type::kMinima ? minimum : static_cast<float>(Type::kOffset) * scale;
}

inline void interleave_unit(const PanelUnit<kPanelTokens>& from, size_t unit, PanelChunk<kPanelTokens>& to) {
  interleave_tokens(from, unit, to);
}
/// See PanelChunk: multiply_tiles_of does not read them.
inline void shorten_sums(PanelChunk<kPanelTokens>&) {}

/// Writes one unit of 8 rows as quads of columns.
inline void store_tile_unit(const Bytes* rows, TileQuad* quads) {
  __m256i pairs[8], fours[8];
  for (size_t row = 0; row < 8; row += 2) {
    pairs[row] = _mm256_unpacklo_epi32(rows[row], rows[row + 1]);
    pairs[row + 1] = _mm256_unpackhi_epi32(rows[row], rows[row + 1]);
  }
  // fours[4 g + j]: rows 4 g to 4 g + 3 of quad j, then of quad 4 + j.
  for (size_t group = 0; group < 8; group += 4) {
    fours[group] = _mm256_unpacklo_epi64(pairs[group], pairs[group + 2]);
    fours[group + 1] = _mm256_unpackhi_epi64(pairs[group], pairs[group + 2]);
    fours[group + 2] = _mm256_unpacklo_epi64(pairs[group + 1], pairs[group + 3]);
    fours[group + 3] = _mm256_unpackhi_epi64(pairs[group + 1], pairs[group + 3]);
  }
  for (size_t quad = 0; quad < 4; quad++) {
    store_unit(quads[quad][0], _mm256_permute2x128_si256(fours[quad], fours[4 + quad], 0x20));
    store_unit(quads[4 + quad][0], _mm256_permute2x128_si256(fours[quad], fours[4 + quad], 0x31));
  }
}

/// Quads whose pairs of products, at most 2 × 127 × kHighest each, add up within 16 bits.
constexpr size_t quads_in_words(int highest, size_t quads) {
  const size_t fitting = static_cast<size_t>(32767 / (2 * 127 * highest));
  return fitting >= quads ? quads : fitting >= 4 ? 4 : fitting >= 2 ? 2 : 1;
}

template <bool kSigned>
inline __m256i dot_words(__m256i weight, const int8_t* token) {
  int32_t quad;
  memcpy(&quad, token, sizeof quad);
  const __m256i values = _mm256_set1_epi32(quad);
  if (kSigned) return _mm256_maddubs_epi16(_mm256_abs_epi8(weight), _mm256_sign_epi8(values, weight));
  return _mm256_maddubs_epi16(weight, values);
}

/// See MatmulKernels::dot_products: there is no such instruction.
inline size_t dot_products(size_t, int32_t*) { return 0; }

/// sums[token][row] += tile × panel, over one chunk; `first` starts from zero.
template <size_t kElements, bool kMinima, bool kSigned, size_t kWordQuads>
__attribute__((noinline)) void multiply_tile(const TileQuad* quads, const TileFloats* scales, const TileFloats* minima,
                                             const PanelChunk<kPanelTokens>& panel, float* sums, bool first) {
  constexpr size_t kParts = 32 / kElements;
  for (size_t start = 0; start < kPanelTokens; start += kTokenStep) {
    F totals[kTokenStep];
    for (size_t token = 0; token < kTokenStep; token++)
      totals[token] = first ? zero() : load(sums + (start + token) * kTileRows);
    for (size_t group = 0; group < kChunkUnits * kParts; group++) {
      const size_t unit = group / kParts;
      __m256i dots[kTokenStep];
      ROCMFORGE_UNROLL(8)
      for (size_t quad = 0; quad < kElements / 4; quad += kWordQuads) {
        __m256i words[kTokenStep];
        ROCMFORGE_UNROLL(8)
        for (size_t step = 0; step < kWordQuads; step++) {
          const size_t column = group * (kElements / 4) + quad + step;
          const __m256i weight = load_32(quads[column]);
          ROCMFORGE_UNROLL(4)
          for (size_t token = 0; token < kTokenStep; token++) {
            const __m256i dots = dot_words<kSigned>(weight, panel.values[column][start + token]);
            words[token] = step == 0 ? dots : _mm256_add_epi16(words[token], dots);
          }
        }
        ROCMFORGE_UNROLL(4)
        for (size_t token = 0; token < kTokenStep; token++) {
          const __m256i wide = _mm256_madd_epi16(words[token], _mm256_set1_epi16(1));
          dots[token] = quad == 0 ? wide : _mm256_add_epi32(dots[token], wide);
        }
      }
      const F scale = load(scales[group]);
      ROCMFORGE_UNROLL(4)
      for (size_t token = 0; token < kTokenStep; token++) {
        totals[token] = fma(mul(to_float(dots[token]), scale), set(panel.scales[unit][start + token]), totals[token]);
      }
      if (kMinima) {
        const float* token_sums = (kElements == 32 ? panel.sums[unit] : panel.sums_16[group]) + start;
        const F minimum = load(minima[group]);
        ROCMFORGE_UNROLL(4)
        for (size_t token = 0; token < kTokenStep; token++) {
          totals[token] = _mm256_fnmadd_ps(minimum, set(token_sums[token]), totals[token]);
        }
      }
    }
    for (size_t token = 0; token < kTokenStep; token++) store(sums + (start + token) * kTileRows, totals[token]);
  }
}

template <class Type, size_t kTiles, class Tile>
inline void multiply_tiles_of(const Tile* tile, const PanelChunk<kPanelTokens>& panel, size_t, float* sums, bool first,
                              TileTarget, Prefetch) {
  static_assert(kTiles == 1, "one tile at a time");
  multiply_tile<kGroup<Type>, kTileMinima<Type>, Type::kSigned,
                quads_in_words(Type::kSigned ? 128 : Type::kHighest, kGroup<Type> / 4)>(
      tile->quads, tile->scales, tile->minima, panel, sums, first);
}

}  // namespace
}  // namespace rocmforge
