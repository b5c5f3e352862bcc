// What the AVX2 and AVX-512 layers of weights as bytes have in common: a `Bytes` holds one unit of 32 levels.
// Every *-bytes.h offers the same names, so that block types and matmuls are written once over them.

#pragma once

#include <cstring>

#include "../activations.h"

namespace rocmforge {
namespace {

/// The most tokens that share a pass over weight rows.
constexpr size_t kMaxRowTokens = 8;

using Bytes = __m256i;

inline void prefetch(const uint8_t* address) { _mm_prefetch(reinterpret_cast<const char*>(address), _MM_HINT_T0); }

inline float half_at(const uint8_t* from) {
  uint16_t half;
  memcpy(&half, from, sizeof half);
  return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(half)));
}

// ---- levels
// ------------------------------------------------------------------------------------------------------------

inline __m128i load_16(const void* from) { return _mm_loadu_si128(static_cast<const __m128i*>(from)); }
inline __m256i load_32(const void* from) { return _mm256_loadu_si256(static_cast<const __m256i*>(from)); }
inline Bytes masked(__m256i bytes, char mask) { return _mm256_and_si256(bytes, _mm256_set1_epi8(mask)); }

inline Bytes load_unit(const uint8_t* from) { return load_32(from); }
inline void store_unit(uint8_t* to, Bytes bytes) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), bytes); }

/// 16 bytes: the low nibbles are the first 16 levels, the high nibbles the others.
inline Bytes load_nibbles(const uint8_t* from) {
  return masked(_mm256_srlv_epi64(_mm256_broadcastsi128_si256(load_16(from)), _mm256_setr_epi64x(0, 0, 4, 4)), 15);
}
/// The same with groups of 16 levels in 8 bytes.
inline Bytes load_short_nibbles(const uint8_t* from) {
  const __m256i spread = _mm256_permute4x64_epi64(_mm256_castsi128_si256(load_16(from)), 0x50);
  return masked(_mm256_srlv_epi64(spread, _mm256_setr_epi64x(0, 4, 0, 4)), 15);
}
/// 32 bytes hold an even unit in their low and the odd one after it in their high nibbles.
inline Bytes load_nibble_plane(const uint8_t* plane, size_t unit) {
  const __m256i pairs = load_32(plane + unit / 2 * 32);
  return masked(unit % 2 == 0 ? pairs : _mm256_srli_epi16(pairs, 4), 15);
}
/// 64 bytes hold four units: the first two in their low, the others in their high nibbles.
inline Bytes load_wide_nibble_plane(const uint8_t* plane, size_t unit) {
  const __m256i pairs = load_32(plane + unit / 4 * 64 + unit % 2 * 32);
  return masked(unit % 4 < 2 ? pairs : _mm256_srli_epi16(pairs, 4), 15);
}
/// 32 bytes hold four units, two bits each, from the low bits up.
inline Bytes load_pair_plane(const uint8_t* plane, size_t unit) {
  return masked(_mm256_srli_epi16(load_32(plane + unit / 4 * 32), static_cast<int>(unit % 4 * 2)), 3);
}
/// The same pairs as bits 4 and 5.
inline Bytes load_high_pair_plane(const uint8_t* plane, size_t unit) {
  const __m256i pairs = load_32(plane + unit / 4 * 32);
  const int shift = static_cast<int>(unit % 4 * 2);
  return masked(shift < 4 ? _mm256_slli_epi16(pairs, 4 - shift) : _mm256_srli_epi16(pairs, shift - 4), 0x30);
}
inline Bytes either(Bytes a, Bytes b) { return _mm256_or_si256(a, b); }
inline Bytes plus(Bytes bytes, int value) { return _mm256_add_epi8(bytes, _mm256_set1_epi8(static_cast<char>(value))); }
inline Bytes look_up(Bytes indices, const int8_t* table) {
  return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(load_16(table)), indices);
}

// ---- scales of 256 elements
// ----------------------------------------------------------------------------------------------

/// One scale and one minimum for each unit. Types without minima have their scales twice, because a constant offset of
/// the levels is a minimum of offset × scale.
struct Scales32 {
  __m256 scales, minima;
};
/// The same for groups of 16.
struct Scales16 {
  __m256 scales[2], minima[2];
};

inline Scales32 scales_of(const float* scales) {
  const __m256 loaded = _mm256_loadu_ps(scales);
  return {loaded, loaded};
}
inline Scales16 scales_16_of(const float* scales) {
  const __m256 first = _mm256_loadu_ps(scales), second = _mm256_loadu_ps(scales + 8);
  return {{first, second}, {first, second}};
}
/// Scales only for the first `units`.
inline Scales32 first_units(Scales32 from, size_t units) {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256 kept = _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(units)), lane));
  return {_mm256_and_ps(from.scales, kept), _mm256_and_ps(from.minima, kept)};
}
inline Scales16 first_units(Scales16 from, size_t units) {
  for (int half = 0; half < 2; half++) {
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const __m256 kept =
        _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(2 * units) - 8 * half), lane));
    from.scales[half] = _mm256_and_ps(from.scales[half], kept);
    from.minima[half] = _mm256_and_ps(from.minima[half], kept);
  }
  return from;
}
inline void store_scales(const Scales32& from, float* scales, float* minima) {
  _mm256_storeu_ps(scales, from.scales);
  _mm256_storeu_ps(minima, from.minima);
}
inline void store_scales(const Scales16& from, float* scales, float* minima) {
  for (size_t half = 0; half < 2; half++) {
    _mm256_storeu_ps(scales + half * 8, from.scales[half]);
    _mm256_storeu_ps(minima + half * 8, from.minima[half]);
  }
}

inline short word_at(const uint8_t* from) {
  short word;
  memcpy(&word, from, sizeof word);
  return word;
}
/// Eight halves that lie kStride bytes apart.
template <size_t kStride>
inline __m256 strided_halves(const uint8_t* from) {
  return _mm256_cvtph_ps(_mm_setr_epi16(word_at(from), word_at(from + kStride), word_at(from + 2 * kStride),
                                        word_at(from + 3 * kStride), word_at(from + 4 * kStride),
                                        word_at(from + 5 * kStride), word_at(from + 6 * kStride),
                                        word_at(from + 7 * kStride)));
}
/// A half at the start of each block.
template <size_t kStride>
inline Scales32 half_scales(const uint8_t* from) {
  const __m256 scales = strided_halves<kStride>(from);
  return {scales, scales};
}
/// Two halves: the scale, and a value that is added to every element.
template <size_t kStride>
inline Scales32 half_scales_and_base(const uint8_t* from) {
  return {strided_halves<kStride>(from), _mm256_xor_ps(strided_halves<kStride>(from + 2), _mm256_set1_ps(-0.0f))};
}
/// A byte for each unit, the first one lowest.
struct SixBitCodes {
  uint64_t scales, minima;
};
/// | scale f16 | minimum f16 | 12 bytes of 6-bit scales and minima |, as Q4_K and Q5_K have them. The codes are put
/// together by general registers, because the vector units are the bottleneck of a matmul.
inline SixBitCodes six_bit_codes(const uint8_t* from) {
  uint32_t last;
  uint64_t first;
  memcpy(&first, from + 4, sizeof first);
  memcpy(&last, from + 12, sizeof last);
  // Scales in the lower word, minima in the upper: units 0 to 3, then 4 to 7.
  const uint64_t early = first & 0x3f3f3f3f3f3f3f3f;
  const uint64_t nibbles = (last & 0x0f0f0f0f) | static_cast<uint64_t>(last >> 4 & 0x0f0f0f0f) << 32;
  const uint64_t late = nibbles | (first >> 2 & 0x3030303030303030);
  return {(early & 0xffffffff) | late << 32, early >> 32 | (late & 0xffffffff00000000)};
}
inline Scales32 six_bit_scales(const uint8_t* from) {
  uint32_t factors;
  memcpy(&factors, from, sizeof factors);
  const SixBitCodes codes = six_bit_codes(from);
  const __m128 units = _mm_cvtph_ps(_mm_cvtsi32_si128(static_cast<int>(factors)));
  const __m256i scale_codes = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(static_cast<int64_t>(codes.scales)));
  const __m256i minimum_codes = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(static_cast<int64_t>(codes.minima)));
  return {_mm256_mul_ps(_mm256_cvtepi32_ps(scale_codes), _mm256_broadcastss_ps(units)),
          _mm256_mul_ps(_mm256_cvtepi32_ps(minimum_codes), _mm256_broadcastss_ps(_mm_movehdup_ps(units)))};
}
/// scale × code
inline __m256 scaled_codes(__m256i codes, float scale) {
  return _mm256_mul_ps(_mm256_cvtepi32_ps(codes), _mm256_set1_ps(scale));
}
inline __m256i eight_codes(const int8_t* codes) {
  return _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes)));
}
inline Scales32 coded_scales(float scale, const int8_t* codes) {
  const __m256 scales = scaled_codes(eight_codes(codes), scale);
  return {scales, scales};
}
inline Scales16 coded_scales_16(float scale, const int8_t* codes) {
  const __m256 first = scaled_codes(eight_codes(codes), scale), second = scaled_codes(eight_codes(codes + 8), scale);
  return {{first, second}, {first, second}};
}
/// Scales in the low, minima in the high nibbles.
inline Scales16 nibble_scales_16(float scale, float minimum, const uint8_t* codes) {
  Scales16 scales;
  for (size_t half = 0; half < 2; half++) {
    const __m256i whole = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes + half * 8)));
    scales.scales[half] = scaled_codes(_mm256_and_si256(whole, _mm256_set1_epi32(15)), scale);
    scales.minima[half] = scaled_codes(_mm256_srli_epi32(whole, 4), minimum);
  }
  return scales;
}

}  // namespace
}  // namespace rocmforge
