// Weights as bytes with AVX2: dot products of unsigned and signed bytes in pairs of 16 bits, which never saturate
// because levels have at most 7 bits, and if they are signed, their signs move to the activations.

#pragma once

#include "avx2-float.h"

#include "x86-bytes.h"

namespace rocmforge {
namespace {

inline Bytes add_where(Bytes bytes, __m256i bits, __m256i selected, int value) {
  const __m256i set = _mm256_cmpeq_epi8(_mm256_and_si256(bits, selected), selected);
  return _mm256_add_epi8(bytes, _mm256_and_si256(set, _mm256_set1_epi8(static_cast<char>(value))));
}
/// Adds `value` to the levels of unit u whose byte has bit u set; 32 bytes for eight units.
inline Bytes add_bit_plane(Bytes bytes, const uint8_t* plane, size_t unit, int value) {
  return add_where(bytes, load_32(plane), _mm256_set1_epi8(static_cast<char>(1 << unit)), value);
}
/// Adds `value` to level i where bit i of 32 bits is set.
inline Bytes add_bits(Bytes bytes, const uint8_t* from, int value) {
  int32_t word;
  memcpy(&word, from, sizeof word);
  const __m256i byte_of_lane = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
  const __m256i bits = _mm256_shuffle_epi8(_mm256_set1_epi32(word), byte_of_lane);
  return add_where(bytes, bits, _mm256_set1_epi64x(static_cast<int64_t>(0x8040201008040201)), value);
}

template <bool kSigned>
inline __m256i dot(Bytes weight, __m256i token) {
  const __m256i pairs = kSigned ? _mm256_maddubs_epi16(_mm256_abs_epi8(weight), _mm256_sign_epi8(token, weight))
                                : _mm256_maddubs_epi16(weight, token);
  return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}

// ---- one weight row times one token
// ------------------------------------------------------------------------------------

struct RowSums {
  __m256 dots[2];
  __m256 minima;
};

inline RowSums no_sums() { return {{_mm256_setzero_ps(), _mm256_setzero_ps()}, _mm256_setzero_ps()}; }

constexpr size_t kRowUnits = 1;

template <class Type>
inline Bytes row_levels(const uint8_t* chunk, size_t unit) {
  return Type::levels(chunk, unit);
}

/// Scales of weight and token multiplied, in memory, from where a multiply-add broadcasts them.
template <class Scales>
struct alignas(32) Combined {
  float scales[sizeof(Scales) == sizeof(Scales32) ? 8 : 16];
};

/// The minima's share of the result is collected on the way.
template <bool kMinima>
inline void combine(const Scales32& weight, const RowChunk& token, Combined<Scales32>& combined, RowSums& sums) {
  _mm256_store_ps(combined.scales, _mm256_mul_ps(weight.scales, _mm256_loadu_ps(token.scales)));
  if (kMinima) sums.minima = _mm256_fmadd_ps(weight.minima, _mm256_loadu_ps(token.sums), sums.minima);
  // Without this the compiler would take single scales out of the vector again by shuffles, which are scarce.
  __asm__("" : "+m"(combined.scales));
}
template <bool kMinima>
inline void combine(const Scales16& weight, const RowChunk& token, Combined<Scales16>& combined, RowSums& sums) {
  for (size_t half = 0; half < 2; half++) {
    _mm256_store_ps(combined.scales + half * 8,
                    _mm256_mul_ps(weight.scales[half], _mm256_loadu_ps(token.scales_16 + half * 8)));
    if (kMinima)
      sums.minima = _mm256_fmadd_ps(weight.minima[half], _mm256_loadu_ps(token.sums_16 + half * 8), sums.minima);
  }
  __asm__("" : "+m"(combined.scales));
}

inline __m256 unit_scale(const Combined<Scales32>& combined, size_t unit) {
  return _mm256_set1_ps(combined.scales[unit]);
}
inline __m256 unit_scale(const Combined<Scales16>& combined, size_t unit) {
  double pair;
  memcpy(&pair, combined.scales + 2 * unit, sizeof pair);
  return _mm256_permutevar_ps(_mm256_castpd_ps(_mm256_set1_pd(pair)), _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1));
}

template <class Scales, bool kSigned>
inline void accumulate(Bytes weight, const RowChunk& token, size_t unit, const Combined<Scales>& combined,
                       RowSums& sums) {
  const __m256i dots = dot<kSigned>(weight, load_32(token.values + unit * 32));
  __m256& target = sums.dots[unit % 2];
  target = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dots), unit_scale(combined, unit), target);
}

inline float sum_256(__m256 lanes) {
  __m128 folded = _mm_add_ps(_mm256_castps256_ps128(lanes), _mm256_extractf128_ps(lanes, 1));
  folded = _mm_add_ps(folded, _mm_movehl_ps(folded, folded));
  return _mm_cvtss_f32(_mm_add_ss(folded, _mm_movehdup_ps(folded)));
}
template <class Scales, bool kMinima>
inline float total(const RowSums& sums, float offset) {
  const __m256 dots = _mm256_add_ps(sums.dots[0], sums.dots[1]);
  if (!kMinima) return sum_256(dots);
  return sum_256(_mm256_fnmadd_ps(sums.minima, _mm256_set1_ps(offset), dots));
}

}  // namespace
}  // namespace rocmforge
