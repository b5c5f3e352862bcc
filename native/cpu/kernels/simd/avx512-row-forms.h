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

/// Loaded once and kept in a register: loads are what limits a row, and compilers repeat them.
inline __m512i kept(__m512i loaded) {
#ifdef __GNUC__
  __asm__("" : "+v"(loaded));
#endif
  return loaded;
}

/// Four blocks of Q4_0 at a time: their nibbles fill a vector, low ones against the first halves of four units of the
/// token and high ones against the second, in one sum for each block. A third of the instructions of two units at a time.
template <>
struct RowForm<Q4_0> {
  static constexpr bool kExists = true;
  static constexpr size_t kBlocks = 4;

  /// The 64 bytes of nibbles in 72 bytes of blocks, which begin with two bytes of scale each.
  static __m512i nibbles(const uint8_t* from) {
    // The last block's come from the second load: a wide one would cross another line of the cache.
    const __m512i words = _mm512_set_epi16(39, 38, 37, 36, 35, 34, 33, 32, 26, 25, 24, 23, 22, 21, 20, 19, 17, 16, 15,
                                           14, 13, 12, 11, 10, 8, 7, 6, 5, 4, 3, 2, 1);
    return _mm512_permutex2var_epi16(kept(_mm512_loadu_si512(from)), words, _mm512_castsi128_si512(load_16(from + 56)));
  }

  template <size_t kTokens>
  static void multiply(const uint8_t* chunk, const RowChunk* const* tokens, size_t index,
                       const Combined<Scales32>* combined, RowSums* sums) {
    const __m512i nibble = _mm512_set1_epi8(15);
    ROCMFORGE_UNROLL(2)
    for (size_t half = 0; half < kChunkUnits / kBlocks; half++) {
      const __m512i both = nibbles(chunk + half * kBlocks * Q4_0::kStride);
      const __m512i low = _mm512_and_si512(both, nibble);
      const __m512i high = _mm512_and_si512(_mm512_srli_epi16(both, 4), nibble);
      const int first = static_cast<int>(half * kBlocks);
      const __m512i lanes =
          _mm512_add_epi32(_mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3), _mm512_set1_epi32(first));
      ROCMFORGE_UNROLL(8)
      for (size_t token = 0; token < kTokens; token++) {
        const int8_t* const values = tokens[token][index].halves + half * kBlocks * kUnit;
        __m512i dots = _mm512_dpbusd_epi32(_mm512_setzero_si512(), low, _mm512_loadu_si512(values));
        dots = _mm512_dpbusd_epi32(dots, high, _mm512_loadu_si512(values + kBlocks * kUnit / 2));
        const F scale = _mm512_permutexvar_ps(lanes, combined[token].scales);
        sums[token].dots[half] = fma(to_float(dots), scale, sums[token].dots[half]);
      }
    }
  }
};

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
