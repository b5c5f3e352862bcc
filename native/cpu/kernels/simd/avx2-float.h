// Eight floats at a time with AVX2, FMA and F16C. Every *-float.h offers the same names, so that kernels are written
// once over them. No load or store needs alignment.
// min and max give their second operand when either is NaN (on NEON: NaN); the rest follows IEEE 754.

#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace rocmforge {
namespace {

constexpr size_t kLanes = 8;
/// Vector registers of type F that a kernel's tile may count on.
constexpr size_t kRegisters = 16;

using F = __m256;
using I = __m256i;
/// All bits of a lane set, or none.
struct M {
  __m256i lanes;
};

inline M first_lanes(size_t count) {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return {_mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int32_t>(count)), lane)};
}

inline F zero() { return _mm256_setzero_ps(); }
inline F set(float value) { return _mm256_set1_ps(value); }
inline F load(const float* from) { return _mm256_loadu_ps(from); }
/// The first `count` lanes (at most kLanes); the rest are zero, and their memory is not touched.
inline F load_part(const float* from, size_t count) { return _mm256_maskload_ps(from, first_lanes(count).lanes); }
inline void store(float* to, F value) { _mm256_storeu_ps(to, value); }
inline void store_part(float* to, F value, size_t count) { _mm256_maskstore_ps(to, first_lanes(count).lanes, value); }

inline F load_f16(const void* from) { return _mm256_cvtph_ps(_mm_loadu_si128(static_cast<const __m128i*>(from))); }
inline F load_bf16(const void* from) {
  const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(static_cast<const __m128i*>(from)));
  return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}
inline F load_i8(const int8_t* from) {
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from))));
}
/// Nearest, ties to even.
inline void store_f16(void* to, F value) {
  _mm_storeu_si128(static_cast<__m128i*>(to), _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT));
}
/// Lanes hold whole numbers from -128 to 127.
inline void store_i8(int8_t* to, I value) {
  const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(value), _mm256_extracti128_si256(value, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(to), _mm_packs_epi16(words, words));
}

inline F add(F a, F b) { return _mm256_add_ps(a, b); }
inline F sub(F a, F b) { return _mm256_sub_ps(a, b); }
inline F mul(F a, F b) { return _mm256_mul_ps(a, b); }
inline F div(F a, F b) { return _mm256_div_ps(a, b); }
inline F min(F a, F b) { return _mm256_min_ps(a, b); }
inline F max(F a, F b) { return _mm256_max_ps(a, b); }
inline F abs(F a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a); }
/// a × b + c, rounded once if the instruction set can.
inline F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }

/// Over all lanes, always in the same order.
inline float sum(F a) {
  __m128 folded = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  folded = _mm_add_ps(folded, _mm_movehl_ps(folded, folded));
  return _mm_cvtss_f32(_mm_add_ss(folded, _mm_movehdup_ps(folded)));
}
inline float reduce_max(F a) {
  __m128 folded = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  folded = _mm_max_ps(folded, _mm_movehl_ps(folded, folded));
  return _mm_cvtss_f32(_mm_max_ss(folded, _mm_movehdup_ps(folded)));
}

/// To the nearest whole number, ties to even.
inline F round(F a) { return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
/// The same as integers; the value must fit.
inline I round_to_int(F a) { return _mm256_cvtps_epi32(round(a)); }
inline F to_float(I a) { return _mm256_cvtepi32_ps(a); }
inline I set_int(int32_t value) { return _mm256_set1_epi32(value); }
inline F power_of_two(__m256i power) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(power, _mm256_set1_epi32(127)), 23));
}
/// value × 2^power, where `power` holds whole numbers from -252 to 254.
inline F times_power_of_two(F value, F power) {
  // In two steps, because 2^power itself may be no normal float.
  const __m256i whole = _mm256_cvtps_epi32(power);
  const __m256i half = _mm256_srai_epi32(whole, 1);
  return mul(mul(value, power_of_two(half)), power_of_two(_mm256_sub_epi32(whole, half)));
}

inline F select(M mask, F yes, F no) { return _mm256_blendv_ps(no, yes, _mm256_castsi256_ps(mask.lanes)); }
inline M greater(F a, F b) { return {_mm256_castps_si256(_mm256_cmp_ps(a, b, _CMP_GT_OQ))}; }
inline M equal(F a, F b) { return {_mm256_castps_si256(_mm256_cmp_ps(a, b, _CMP_EQ_OQ))}; }
/// Neither NaN nor infinite.
inline M finite(F a) {
  return {_mm256_castps_si256(_mm256_cmp_ps(abs(a), _mm256_set1_ps(__builtin_inff()), _CMP_LT_OQ))};
}
inline M both(M a, M b) { return {_mm256_and_si256(a.lanes, b.lanes)}; }
inline uint32_t lane_bits(M mask) { return static_cast<uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(mask.lanes))); }
inline bool any(M mask) { return lane_bits(mask) != 0; }
inline bool all(M mask) { return lane_bits(mask) == 0xff; }
/// The lowest lane that is set; some must be.
inline size_t first(M mask) { return static_cast<size_t>(__builtin_ctz(lane_bits(mask))); }

}  // namespace
}  // namespace rocmforge
