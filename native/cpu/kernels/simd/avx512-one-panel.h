// Eight tokens are too few to pay for a tile: what a chunk of 16 rows is unpacked to stays in registers and is
// multiplied at once, so that shuffles of the next part run beside the multiplications of this one. With two or four
// tokens in the panel the others are left out, and reading the weights takes longer than all of it. To be included after
// the types.

#pragma once

#include "avx512-tile-forms.h"

namespace rocmforge {
namespace {

/// The sums of one tile, in registers while a chunk is multiplied.
template <size_t kTokens>
struct PanelTotals {
  F tokens[kTokens];

  PanelTotals(const float* sums, bool first) {
    ROCMFORGE_UNROLL(16)
    for (size_t token = 0; token < kTokens; token++) tokens[token] = first ? zero() : load(sums + token * kTileRows);
  }
  /// Sums of a super-block: see avx512-super-blocks.h.
  void add_unit(const __m512i* dots, const float* row_scales, const float* token_scales) {
    const F scale = load(row_scales);
    ROCMFORGE_UNROLL(16)
    for (size_t token = 0; token < kTokens; token++)
      tokens[token] = fma(to_float(dots[token]), mul(scale, set(token_scales[token])), tokens[token]);
  }
  void end_super_block(const TileFloats* scales, const __m512i* minima, const PanelChunk<kTokens>& panel, float* sums,
                       bool first) const {
    const F scale = load(scales[kSuperScale]), minimum = load(scales[kSuperMinimum]);
    ROCMFORGE_UNROLL(16)
    for (size_t token = 0; token < kTokens; token++) {
      const F before = first ? zero() : load(sums + token * kTileRows);
      store(sums + token * kTileRows,
            add_super_block(before, tokens[token], scale, minima[token], set(panel.short_sum_scales[token]), minimum));
    }
  }
  void store_to(float* sums) const {
    ROCMFORGE_UNROLL(16)
    for (size_t token = 0; token < kTokens; token++) store(sums + token * kTileRows, tokens[token]);
  }
  void add(const __m512i* dots, const float* row_scales, const float* token_scales) {
    const F scale = load(row_scales);
    ROCMFORGE_UNROLL(16)
    for (size_t token = 0; token < kTokens; token++) {
      tokens[token] = fma(mul(to_float(dots[token]), scale), set(token_scales[token]), tokens[token]);
    }
  }
  /// The same for both halves of a unit, each with scales of its own.
  void add_halves(const __m512i (*dots)[kTokens], const TileFloats* row_scales, const float* token_scales) {
    const F first = load(row_scales[0]), second = load(row_scales[1]);
    ROCMFORGE_UNROLL(16)
    for (size_t token = 0; token < kTokens; token++) {
      const F both = fma(to_float(dots[1][token]), second, mul(to_float(dots[0][token]), first));
      tokens[token] = fma(both, set(token_scales[token]), tokens[token]);
    }
  }
};

template <size_t kTokens>
inline void dot_tokens(__m512i* dots, __m512i weight, const int8_t (*tokens)[4]) {
  ROCMFORGE_UNROLL(16)
  for (size_t token = 0; token < kTokens; token++) dots[token] = dot_quad(dots[token], weight, tokens[token]);
}

template <>
struct OnePanelForm<Q4_K> {
  static constexpr bool kExists = true;

  template <size_t kTokens>
  ROCMFORGE_INLINE static void multiply(const uint8_t* const* chunks, const PanelChunk<kTokens>& panel, float* sums,
                                        bool first, Prefetch next) {
    TileFloats scales[kChunkUnits + 2], minima[kChunkUnits / 2];
    store_six_bit_scales(chunks, scales, minima);
    PanelTotals<kTokens> totals(sums, true);
    __m512i minimum_dots[kTokens] = {};
    for (size_t pair = 0; pair < kChunkUnits / 2; pair++) {
      next.issue(pair, kChunkUnits / 2);
      const TileUnit both = transposed_bytes(chunks, 16 + pair * 32);
      ROCMFORGE_UNROLL(16)
      for (size_t token = 0; token < kTokens; token++)
        minimum_dots[token] = dot_words(minimum_dots[token], minima[pair], panel.short_sums[pair][token]);
      ROCMFORGE_UNROLL(2)
      for (size_t half = 0; half < 2; half++) {
        const size_t unit = 2 * pair + half;
        __m512i dots[kTokens] = {};
        ROCMFORGE_UNROLL(8)
        for (size_t quad = 0; quad < 8; quad++) {
          const __m512i nibbles = half == 0 ? both.quads[quad] : _mm512_srli_epi16(both.quads[quad], 4);
          dot_tokens<kTokens>(dots, _mm512_and_si512(nibbles, _mm512_set1_epi8(15)), panel.values[unit * 8 + quad]);
        }
        totals.add_unit(dots, scales[unit], panel.scales[unit]);
      }
    }
    totals.end_super_block(scales, minimum_dots, panel, sums, first);
  }
};

template <>
struct OnePanelForm<Q6_K> {
  static constexpr bool kExists = true;

  /// Half a unit at a time, which is as much as fits beside the sums: 16 bytes of two stretches of nibbles, and the
  /// pairs of bits above them, are the same half of four units.
  template <size_t kTokens>
  ROCMFORGE_INLINE static void multiply(const uint8_t* const* chunks, const PanelChunk<kTokens>& panel, float* sums,
                                        bool first, Prefetch next) {
    if constexpr (kTokens < kOnePanelTokens) return multiply_few<kTokens>(chunks, panel, sums, first, next);
    TileFloats scales[2 * kChunkUnits];
    store_byte_scales(chunks, scales);
    PanelTotals<kTokens> totals(sums, first);
    for (size_t quarter = 0; quarter < 4; quarter++) {
      next.issue(quarter, 4);
      const size_t half = quarter / 2, part = quarter % 2;
      const TileWords pairs = transposed_words(chunks, 128 + half * 32 + part * 16);
      ROCMFORGE_UNROLL(2)
      for (size_t stretch = 0; stretch < 2; stretch++) {
        const TileWords nibbles = transposed_words(chunks, half * 64 + stretch * 32 + part * 16);
        ROCMFORGE_UNROLL(2)
        for (size_t upper = 0; upper < 2; upper++) {
          const size_t pair = stretch + 2 * upper;
          const size_t unit = half * 4 + pair, group = 2 * unit + part;
          __m512i dots[kTokens];
          ROCMFORGE_UNROLL(16)
          for (size_t token = 0; token < kTokens; token++)
            dots[token] = _mm512_set1_epi32(panel.corrections_16[group][token]);
          ROCMFORGE_UNROLL(4)
          for (size_t quad = 0; quad < 4; quad++) {
            const __m512i low = upper == 0 ? nibbles.words[quad] : _mm512_srli_epi16(nibbles.words[quad], 4);
            dot_tokens<kTokens>(dots, six_bit_levels(low, shifted_pair(pairs.words[quad], pair)),
                                panel.values[unit * 8 + part * 4 + quad]);
          }
          totals.add(dots, scales[group], panel.scales[unit]);
        }
      }
    }
    totals.store_to(sums);
  }

 private:
  /// Whole units at a time, which takes fewer shuffles: the sums of few tokens leave registers for them.
  template <size_t kTokens>
  ROCMFORGE_INLINE static void multiply_few(const uint8_t* const* chunks, const PanelChunk<kTokens>& panel, float* sums,
                                            bool first, Prefetch next) {
    TileFloats scales[2 * kChunkUnits];
    store_byte_scales(chunks, scales);
    PanelTotals<kTokens> totals(sums, first);
    for (size_t half = 0; half < 2; half++) {
      const TileUnit pairs = transposed_bytes(chunks, 128 + half * 32);
      ROCMFORGE_UNROLL(2)
      for (size_t stretch = 0; stretch < 2; stretch++) {
        next.issue(2 * half + stretch, 4);
        const TileUnit nibbles = transposed_bytes(chunks, half * 64 + stretch * 32);
        ROCMFORGE_UNROLL(2)
        for (size_t upper = 0; upper < 2; upper++) {
          const size_t pair = stretch + 2 * upper;
          const size_t unit = half * 4 + pair;
          __m512i dots[2][kTokens];
          ROCMFORGE_UNROLL(2)
          for (size_t part = 0; part < 2; part++) {
            ROCMFORGE_UNROLL(4)
            for (size_t token = 0; token < kTokens; token++)
              dots[part][token] = _mm512_set1_epi32(panel.corrections_16[2 * unit + part][token]);
            ROCMFORGE_UNROLL(4)
            for (size_t quad = part * 4; quad < part * 4 + 4; quad++) {
              const __m512i low = upper == 0 ? nibbles.quads[quad] : _mm512_srli_epi16(nibbles.quads[quad], 4);
              dot_tokens<kTokens>(dots[part], six_bit_levels(low, shifted_pair(pairs.quads[quad], pair)),
                                  panel.values[unit * 8 + quad]);
            }
          }
          totals.add_halves(dots, scales + 2 * unit, panel.scales[unit]);
        }
      }
    }
    totals.store_to(sums);
  }

  /// Pair `pair` of every byte at bits 4 and 5.
  static __m512i shifted_pair(__m512i pairs, size_t pair) {
    if (pair == 0) return _mm512_slli_epi16(pairs, 4);
    if (pair == 1) return _mm512_slli_epi16(pairs, 2);
    return pair == 2 ? pairs : _mm512_srli_epi16(pairs, 2);
  }
};

}  // namespace
}  // namespace rocmforge
