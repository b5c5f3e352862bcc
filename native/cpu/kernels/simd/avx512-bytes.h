// Weights as bytes with AVX-512 (BW, VL, VNNI): what masks and vpdpbusd do better than AVX2 alone.
// vpdpbusd wants its first factor unsigned: if levels are signed, their signs move to the activations.

#pragma once

#include "avx512-float.h"

#include "x86-bytes.h"

namespace rocmforge {
namespace {

/// Adds `value` to the levels of unit u whose byte has bit u set; 32 bytes for eight units.
inline Bytes add_bit_plane(Bytes bytes, const uint8_t* plane, size_t unit, int value) {
  const __mmask32 set = _mm256_test_epi8_mask(load_32(plane), _mm256_set1_epi8(static_cast<char>(1 << unit)));
  return _mm256_mask_add_epi8(bytes, set, bytes, _mm256_set1_epi8(static_cast<char>(value)));
}
/// Adds `value` to level i where bit i of 32 bits is set.
inline Bytes add_bits(Bytes bytes, const uint8_t* from, int value) {
  uint32_t set;
  memcpy(&set, from, sizeof set);
  return _mm256_mask_add_epi8(bytes, set, bytes, _mm256_set1_epi8(static_cast<char>(value)));
}

template <>
inline __m256 strided_halves<18>(const uint8_t* from) {
  // Four blocks' scales lie within 64 bytes, so two loads and one permutation of words collect all eight.
  const __m512i words = _mm512_permutex2var_epi16(_mm512_loadu_si512(from),
                                                  _mm512_castsi128_si512(_mm_setr_epi16(0, 9, 18, 27, 32, 41, 50, 59)),
                                                  _mm512_loadu_si512(from + 72));
  return _mm256_cvtph_ps(_mm512_castsi512_si128(words));
}

// ---- one weight row times one token
// ------------------------------------------------------------------------------------

/// Units that are multiplied together.
constexpr size_t kRowUnits = 2;

template <class Type>
inline __m512i row_levels(const uint8_t* chunk, size_t unit) {
  return _mm512_inserti64x4(_mm512_castsi256_si512(Type::levels(chunk, unit)), Type::levels(chunk, unit + 1), 1);
}

/// 16 scales and minima in one vector each.
struct WideScales16 {
  __m512 scales, minima;
};
inline WideScales16 first_units(WideScales16 from, size_t units) {
  const __mmask16 kept = static_cast<__mmask16>((1u << 2 * units) - 1);
  return {_mm512_maskz_mov_ps(kept, from.scales), _mm512_maskz_mov_ps(kept, from.minima)};
}
inline __m512 joined(const __m256* halves) {
  return _mm512_insertf32x8(_mm512_castps256_ps512(halves[0]), halves[1], 1);
}

/// Types with 32 elements a scale use `minima`, those with 16 `minima_16`.
struct RowSums {
  __m512 dots[2];
  __m256 minima;
  __m512 minima_16;
};

inline RowSums no_sums() { return {{zero(), zero()}, _mm256_setzero_ps(), zero()}; }

/// Scales of weight and token multiplied; of Scales32 in the low half alone.
template <class Scales>
struct Combined {
  __m512 scales;
};

/// The minima's share of the result is collected on the way.
template <bool kMinima>
inline void combine(const Scales32& weight, const RowChunk& token, Combined<Scales32>& combined, RowSums& sums) {
  combined.scales = _mm512_castps256_ps512(_mm256_mul_ps(weight.scales, _mm256_loadu_ps(token.scales)));
  if (kMinima) sums.minima = _mm256_fmadd_ps(weight.minima, _mm256_loadu_ps(token.sums), sums.minima);
}
template <bool kMinima>
inline void combine(const WideScales16& weight, const RowChunk& token, Combined<WideScales16>& combined,
                    RowSums& sums) {
  combined.scales = mul(weight.scales, load(token.scales_16));
  if (kMinima) sums.minima_16 = fma(weight.minima, load(token.sums_16), sums.minima_16);
}

/// Every scale in the lanes of its group, for units `unit` and `unit` + 1.
inline __m512 spread(const Combined<Scales32>& combined, size_t unit) {
  const __m512i indices = _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
  return _mm512_permutexvar_ps(_mm512_add_epi32(indices, _mm512_set1_epi32(static_cast<int>(unit))), combined.scales);
}
inline __m512 spread(const Combined<WideScales16>& combined, size_t unit) {
  const __m512i indices = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
  return _mm512_permutexvar_ps(_mm512_add_epi32(indices, _mm512_set1_epi32(static_cast<int>(2 * unit))),
                               combined.scales);
}

template <class Scales, bool kSigned>
inline void accumulate(__m512i weight, const RowChunk& token, size_t unit, const Combined<Scales>& combined,
                       RowSums& sums) {
  __m512i values = _mm512_loadu_si512(token.values + unit * kUnit);
  if (kSigned) {
    values = _mm512_mask_sub_epi8(values, _mm512_movepi8_mask(weight), _mm512_setzero_si512(), values);
    weight = _mm512_abs_epi8(weight);
  }
  const __m512i dots = _mm512_dpbusd_epi32(_mm512_setzero_si512(), weight, values);
  F& target = sums.dots[unit / kRowUnits % 2];
  target = fma(to_float(dots), spread(combined, unit), target);
}

template <class Scales, bool kMinima>
inline float total(const RowSums& sums, float offset) {
  const __m512 dots = add(sums.dots[0], sums.dots[1]);
  if (!kMinima) return sum(dots);
  const __m512 minima = sizeof(Scales) == sizeof(Scales32) ? _mm512_zextps256_ps512(sums.minima) : sums.minima_16;
  return sum(_mm512_fnmadd_ps(minima, set(offset), dots));
}

}  // namespace
}  // namespace rocmforge
