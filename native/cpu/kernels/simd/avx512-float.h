// Sixteen floats at a time with AVX-512 (F, BW, VL, DQ). Every *-float.h offers the same names, so that kernels are
// written once over them. No load or store needs alignment.
// min and max give their second operand when either is NaN (on NEON: NaN); the rest follows IEEE 754.

#pragma once

// GCC 12 takes its own "undefined" operands of these intrinsics for uses of an uninitialised variable.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

#include <cstddef>
#include <cstdint>

namespace rocmforge {
namespace {

constexpr size_t kLanes = 16;
/// Vector registers of type F that a kernel's tile may count on.
constexpr size_t kRegisters = 32;

using F = __m512;
using I = __m512i;
using M = __mmask16;

inline M first_lanes(size_t count) { return static_cast<M>((1u << count) - 1); }

inline F zero() { return _mm512_setzero_ps(); }
inline F set(float value) { return _mm512_set1_ps(value); }
inline F load(const float* from) { return _mm512_loadu_ps(from); }
/// The first `count` lanes (at most kLanes); the rest are zero, and their memory is not touched.
inline F load_part(const float* from, size_t count) { return _mm512_maskz_loadu_ps(first_lanes(count), from); }
inline void store(float* to, F value) { _mm512_storeu_ps(to, value); }
inline void store_part(float* to, F value, size_t count) { _mm512_mask_storeu_ps(to, first_lanes(count), value); }

inline F load_f16(const void* from) { return _mm512_cvtph_ps(_mm256_loadu_si256(static_cast<const __m256i*>(from))); }
inline F load_bf16(const void* from) {
  const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(static_cast<const __m256i*>(from)));
  return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}
inline F load_i8(const int8_t* from) {
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
}
/// Nearest, ties to even.
inline void store_f16(void* to, F value) {
  _mm256_storeu_si256(static_cast<__m256i*>(to), _mm512_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
/// Lanes hold whole numbers from -128 to 127.
inline void store_i8(int8_t* to, I value) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_cvtepi32_epi8(value));
}

inline F add(F a, F b) { return _mm512_add_ps(a, b); }
inline F sub(F a, F b) { return _mm512_sub_ps(a, b); }
inline F mul(F a, F b) { return _mm512_mul_ps(a, b); }
inline F div(F a, F b) { return _mm512_div_ps(a, b); }
inline F min(F a, F b) { return _mm512_min_ps(a, b); }
inline F max(F a, F b) { return _mm512_max_ps(a, b); }
inline F abs(F a) { return _mm512_abs_ps(a); }
/// a × b + c, rounded once if the instruction set can.
inline F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }

/// Over all lanes, always in the same order.
inline float sum(F a) { return _mm512_reduce_add_ps(a); }
inline float reduce_max(F a) { return _mm512_reduce_max_ps(a); }

/// To the nearest whole number, ties to even.
inline F round(F a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
/// The same as integers; the value must fit.
inline I round_to_int(F a) { return _mm512_cvt_roundps_epi32(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
inline F to_float(I a) { return _mm512_cvtepi32_ps(a); }
inline I set_int(int32_t value) { return _mm512_set1_epi32(value); }
/// value × 2^power, where `power` holds whole numbers from -252 to 254.
inline F times_power_of_two(F value, F power) { return _mm512_scalef_ps(value, power); }

inline F select(M mask, F yes, F no) { return _mm512_mask_blend_ps(mask, no, yes); }
inline M greater(F a, F b) { return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ); }
inline M equal(F a, F b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
/// Neither NaN nor infinite.
inline M finite(F a) { return static_cast<M>(~_mm512_fpclass_ps_mask(a, 0x01 | 0x80 | 0x08 | 0x10)); }
inline M both(M a, M b) { return a & b; }
inline bool any(M mask) { return mask != 0; }
inline bool all(M mask) { return mask == 0xffff; }
/// The lowest lane that is set; some must be.
inline size_t first(M mask) { return static_cast<size_t>(__builtin_ctz(mask)); }

}  // namespace
}  // namespace rocmforge
