// How gemv reads some types with AVX-512, where the general way (two units unpacked and joined) has too many
// shuffles and shifts for the ports that do them. High nibbles are not shifted down but multiplied where they lie, as
// 16 times their level, under a sixteenth of the token's scale: both exact. To be included after the block types.

#pragma once

#include "avx512-bytes.h"

namespace rocmforge {
namespace {

inline __m512i halves_of(char low, char high) {
  return _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_set1_epi8(low)), _mm256_set1_epi8(high), 1);
}

/// Scales of units whose levels are in low and high nibbles in turn.
struct NibbleScales {
  Scales32 units;
};
inline NibbleScales first_units(const NibbleScales& from, size_t units) { return {first_units(from.units, units)}; }

template <bool kMinima>
inline void combine(const NibbleScales& weight, const RowChunk& token, Combined<NibbleScales>& combined,
                    RowSums& sums) {
  combined.scales = _mm512_castps256_ps512(_mm256_mul_ps(weight.units.scales, _mm256_loadu_ps(token.nibble_scales)));
  if (kMinima) sums.minima = _mm256_fmadd_ps(weight.units.minima, _mm256_loadu_ps(token.sums), sums.minima);
}
inline __m512 spread(const Combined<NibbleScales>& combined, size_t unit) {
  return spread(Combined<Scales32>{combined.scales}, unit);
}

template <>
struct RowScales<Q4_K> {
  using Result = NibbleScales;
  static Result of(const uint8_t* chunk) { return {six_bit_scales(chunk)}; }
};
template <>
inline __m512i row_levels<Q4_K>(const uint8_t* chunk, size_t unit) {
  return _mm512_and_si512(_mm512_broadcast_i64x4(load_32(chunk + 16 + unit * 16)),
                          halves_of(0x0f, static_cast<char>(0xf0)));
}

template <>
struct RowScales<Q6_K> {
  using Result = WideScales16;
  static Result of(const uint8_t* chunk) {
    const __m512 scales = mul(load_i8(reinterpret_cast<const int8_t*>(chunk + 192)), set(half_at(chunk + 208)));
    return {scales, scales};
  }
};
template <>
inline __m512i row_levels<Q6_K>(const uint8_t* chunk, size_t unit) {
  const __m512i nibbles = _mm512_loadu_si512(chunk + unit / 4 * 64);
  const __m512i low = _mm512_and_si512(unit % 4 == 0 ? nibbles : _mm512_srli_epi16(nibbles, 4), _mm512_set1_epi8(15));
  // Bits 4 and 5 from pair q of the first unit and pair q + 1 of the second.
  const __m512i pairs = _mm512_broadcast_i64x4(load_32(chunk + 128 + unit / 4 * 32));
  const __m512i first = _mm512_setr_epi64(4, 4, 4, 4, 2, 2, 2, 2), second = _mm512_setr_epi64(0, 0, 0, 0, 2, 2, 2, 2);
  const __m512i high = unit % 4 == 0 ? _mm512_sllv_epi64(pairs, first) : _mm512_srlv_epi64(pairs, second);
  return _mm512_or_si512(low, _mm512_and_si512(high, _mm512_set1_epi8(0x30)));
}

/// The other types with groups of 16.
template <class Type>
struct JoinedScales {
  using Result = WideScales16;
  static Result of(const uint8_t* chunk) {
    const Scales16 scales = Type::scales(chunk);
    return {joined(scales.scales), joined(scales.minima)};
  }
};
template <>
struct RowScales<Q2_K> : JoinedScales<Q2_K> {};
template <>
struct RowScales<Q3_K> : JoinedScales<Q3_K> {};
template <>
struct RowScales<NVFP4> : JoinedScales<NVFP4> {};

}  // namespace
}  // namespace rocmforge
