// How some types become tiles with AVX-512: bytes are transposed as they lie in the file, and nibbles are taken apart
// afterwards, for 16 rows at once. So a byte goes through the shuffles once, and not once for each level in it.
// To be included after the block types.

#pragma once

#include "avx512-super-blocks.h"

#include "../tile-form.h"

namespace rocmforge {
namespace {

/// Eight vectors, each with four neighbouring bytes of every row.
struct TileUnit {
  __m512i quads[8];
};

inline TileUnit transposed_bytes(const uint8_t* const* chunks, size_t offset) {
  Bytes rows[kTileRows];
  ROCMFORGE_UNROLL(16)
  for (size_t row = 0; row < kTileRows; row++) rows[row] = load_32(chunks[row] + offset);
  TileUnit unit;
  transpose_unit(rows, unit.quads);
  return unit;
}

/// Four vectors, each with one of four neighbouring words of every row.
struct TileWords {
  __m512i words[4];
};

inline TileWords transposed_words(const uint8_t* const* chunks, size_t offset) {
  __m512i fours[4];
  for (size_t row = 0; row < 4; row++) {
    // Part p of the vector is row 4 p + row.
    __m512i four = _mm512_castsi128_si512(load_16(chunks[row] + offset));
    four = _mm512_inserti32x4(four, load_16(chunks[4 + row] + offset), 1);
    four = _mm512_inserti32x4(four, load_16(chunks[8 + row] + offset), 2);
    fours[row] = _mm512_inserti32x4(four, load_16(chunks[12 + row] + offset), 3);
  }
  const __m512i low01 = _mm512_unpacklo_epi32(fours[0], fours[1]), high01 = _mm512_unpackhi_epi32(fours[0], fours[1]);
  const __m512i low23 = _mm512_unpacklo_epi32(fours[2], fours[3]), high23 = _mm512_unpackhi_epi32(fours[2], fours[3]);
  return {{_mm512_unpacklo_epi64(low01, low23), _mm512_unpackhi_epi64(low01, low23),
           _mm512_unpacklo_epi64(high01, high23), _mm512_unpackhi_epi64(high01, high23)}};
}

/// The lower halves of 16 words, as floats.
inline __m512 lower_halves(__m512i words) { return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(words)); }
inline __m512 upper_halves(__m512i words) { return lower_halves(_mm512_srli_epi32(words, 16)); }

inline void store_scaled(__m512i codes, __m512 factor, float* to) {
  _mm512_storeu_ps(to, _mm512_mul_ps(_mm512_cvtepi32_ps(codes), factor));
}
inline __m512i bits(__m512i words, unsigned shift, int mask) {
  return _mm512_and_si512(_mm512_srli_epi32(words, shift), _mm512_set1_epi32(mask));
}
/// Bits of `from` where the mask has them, and of `to` everywhere.
inline __m512i with_bits(__m512i to, __m512i from, __m512i mask) {
  return _mm512_ternarylogic_epi32(to, from, mask, 0xf8);
}

/// | scale f16 | minimum f16 | 12 bytes of 6-bit scales and minima |: see six_bit_scales. As multiply_super_blocks wants
/// them.
inline void store_six_bit_scales(const uint8_t* const* chunks, TileFloats* scales, TileFloats* minima) {
  const TileWords head = transposed_words(chunks, 0);
  store(scales[kSuperScale], lower_halves(head.words[0]));
  store(scales[kSuperMinimum], upper_halves(head.words[0]));
  const __m512i high = _mm512_set1_epi32(0x30);
  __m512i codes[kChunkUnits], minimum_codes[kChunkUnits];
  ROCMFORGE_UNROLL(4)
  for (unsigned unit = 0; unit < 4; unit++) {
    const unsigned shift = 8 * unit;
    codes[unit] = bits(head.words[1], shift, 63);
    minimum_codes[unit] = bits(head.words[2], shift, 63);
    codes[4 + unit] = with_bits(bits(head.words[3], shift, 15), _mm512_srli_epi32(head.words[1], shift + 2), high);
    minimum_codes[4 + unit] =
        with_bits(bits(head.words[3], shift + 4, 15), _mm512_srli_epi32(head.words[2], shift + 2), high);
  }
  ROCMFORGE_UNROLL(8)
  for (size_t unit = 0; unit < kChunkUnits; unit++) store(scales[unit], to_float(codes[unit]));
  ROCMFORGE_UNROLL(4)
  for (size_t unit = 0; unit < kChunkUnits; unit += 2) {
    const __m512i pair = _mm512_or_si512(minimum_codes[unit], _mm512_slli_epi32(minimum_codes[unit + 1], 16));
    _mm512_storeu_si512(minima[unit / 2], pair);
  }
}

/// | … | 16 scales of 8 bits | scale f16 | of Q6_K.
inline void store_byte_scales(const uint8_t* const* chunks, TileFloats* scales) {
  // The scale is the last half of a chunk, and so the upper half of its last word.
  const __m512 scale = upper_halves(transposed_words(chunks, Q6_K::kBytes - 16).words[3]);
  const TileWords codes = transposed_words(chunks, 192);
  for (unsigned group = 0; group < 2 * kChunkUnits; group++) {
    const __m512i code = _mm512_srai_epi32(_mm512_slli_epi32(codes.words[group / 4], 24 - group % 4 * 8), 24);
    store_scaled(code, scale, scales[group]);
  }
}

/// Levels of Q6_K as a tile keeps them, from bytes with the lower bits in place and bytes with the upper ones in place.
inline __m512i six_bit_levels(__m512i low, __m512i high) {
  const __m512i levels = with_bits(_mm512_and_si512(low, _mm512_set1_epi8(15)), high, _mm512_set1_epi8(0x30));
  return _mm512_add_epi8(levels, _mm512_set1_epi8(static_cast<char>(128 - Q6_K::kOffset)));
}

template <>
constexpr bool kSuperBlocks<Q4_K> = true;
template <>
struct TileForm<Q4_K> {
  static constexpr bool kWhole = true;
  static void unpack(const uint8_t* const* chunks, TileQuad* quads, TileFloats* scales, TileFloats* minima) {
    store_six_bit_scales(chunks, scales, minima);
    const __m512i nibble = _mm512_set1_epi8(15);
    for (size_t pair = 0; pair < kChunkUnits / 2; pair++) {
      const TileUnit both = transposed_bytes(chunks, 16 + pair * 32);
      TileQuad* const out = quads + pair * 16;
      for (size_t quad = 0; quad < 8; quad++) {
        _mm512_storeu_si512(out[quad], _mm512_and_si512(both.quads[quad], nibble));
        _mm512_storeu_si512(out[8 + quad], _mm512_and_si512(_mm512_srli_epi16(both.quads[quad], 4), nibble));
      }
    }
  }
};

template <>
struct TileForm<Q6_K> {
  static constexpr bool kWhole = true;
  static void unpack(const uint8_t* const* chunks, TileQuad* quads, TileFloats* scales, TileFloats*) {
    store_byte_scales(chunks, scales);
    for (size_t half = 0; half < 2; half++) unpack_half(chunks, half, quads + half * 32);
  }

 private:
  /// Four units: nibbles of two stretches of 32 bytes, and pairs of bits from a third one above them.
  static void unpack_half(const uint8_t* const* chunks, size_t half, TileQuad* out) {
    const TileUnit first = transposed_bytes(chunks, half * 64), second = transposed_bytes(chunks, half * 64 + 32);
    const TileUnit pairs = transposed_bytes(chunks, 128 + half * 32);
    for (size_t quad = 0; quad < 8; quad++) {
      const __m512i high = pairs.quads[quad];
      store_levels(first.quads[quad], _mm512_slli_epi16(high, 4), out[quad]);
      store_levels(second.quads[quad], _mm512_slli_epi16(high, 2), out[8 + quad]);
      store_levels(_mm512_srli_epi16(first.quads[quad], 4), high, out[16 + quad]);
      store_levels(_mm512_srli_epi16(second.quads[quad], 4), _mm512_srli_epi16(high, 2), out[24 + quad]);
    }
  }
  static void store_levels(__m512i low, __m512i high, TileQuad& out) {
    _mm512_storeu_si512(out, six_bit_levels(low, high));
  }
};

}  // namespace
}  // namespace rocmforge
