// Weights as bytes in plain C++ with the vector types of GCC and Clang: levels and activations are multiplied in 16
// bits.

#pragma once

#include "portable-float.h"

namespace rocmforge {
namespace {

inline float half_at(const uint8_t* from) {
  const uint32_t half = from[0] | static_cast<uint32_t>(from[1]) << 8;
  // The exponent's bias differs by 112; the product brings subnormal halves to their place, and infinity is made again.
  const uint32_t shifted = (half & 0x7fff) << 13;
  float value;
  memcpy(&value, &shifted, sizeof value);
  value *= 0x1p112f;
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  bits |= (half & 0x8000) << 16 | ((half & 0x7c00) == 0x7c00 ? 0x7f800000 : 0);
  memcpy(&value, &bits, sizeof value);
  return value;
}

}  // namespace
}  // namespace rocmforge

#include "plain-scales.h"

namespace rocmforge {
namespace {

typedef uint8_t ByteVector __attribute__((vector_size(16)));
typedef int8_t HalfVector __attribute__((vector_size(8)));
typedef int16_t WordVector __attribute__((vector_size(16)));

/// The most tokens that share a pass over weight rows; sums of more would not fit the registers of plain machines.
constexpr size_t kMaxRowTokens = 2;

struct Bytes {
  ByteVector low, high;
};

inline void prefetch(const uint8_t* address) { __builtin_prefetch(address); }

inline ByteVector load_16(const void* from) {
  ByteVector bytes;
  memcpy(&bytes, from, sizeof bytes);
  return bytes;
}
inline Bytes load_unit(const uint8_t* from) { return {load_16(from), load_16(from + 16)}; }
inline void store_unit(uint8_t* to, const Bytes& bytes) { memcpy(to, &bytes, sizeof bytes); }

/// (byte >> shift) & mask of 32 bytes.
inline Bytes load_bits(const uint8_t* from, size_t shift, uint8_t mask) {
  return {load_16(from) >> static_cast<uint8_t>(shift) & mask,
          load_16(from + 16) >> static_cast<uint8_t>(shift) & mask};
}
/// 16 bytes: the low nibbles are the first 16 levels, the high nibbles the others.
inline Bytes load_nibbles(const uint8_t* from) { return {load_16(from) & 15, load_16(from) >> 4}; }
/// The same with groups of 16 levels in 8 bytes.
inline Bytes load_short_nibbles(const uint8_t* from) {
  uint8_t levels[kUnit];
  for (size_t index = 0; index < 16; index++) {
    levels[index / 8 * 16 + index % 8] = from[index] & 15;
    levels[index / 8 * 16 + 8 + index % 8] = from[index] >> 4;
  }
  return load_unit(levels);
}
/// 32 bytes hold an even unit in their low and the odd one after it in their high nibbles.
inline Bytes load_nibble_plane(const uint8_t* plane, size_t unit) {
  return load_bits(plane + unit / 2 * 32, unit % 2 * 4, 15);
}
/// 64 bytes hold four units: the first two in their low, the others in their high nibbles.
inline Bytes load_wide_nibble_plane(const uint8_t* plane, size_t unit) {
  return load_bits(plane + unit / 4 * 64 + unit % 2 * 32, unit % 4 / 2 * 4, 15);
}
/// 32 bytes hold four units, two bits each, from the low bits up.
inline Bytes load_pair_plane(const uint8_t* plane, size_t unit) {
  return load_bits(plane + unit / 4 * 32, unit % 4 * 2, 3);
}
/// The same pairs as bits 4 and 5.
inline Bytes load_high_pair_plane(const uint8_t* plane, size_t unit) {
  const Bytes bytes = load_pair_plane(plane, unit);
  return {bytes.low << 4, bytes.high << 4};
}
inline Bytes either(Bytes a, Bytes b) { return {a.low | b.low, a.high | b.high}; }
/// Adds `value` to the levels of unit u whose byte has bit u set; 32 bytes for eight units.
inline Bytes add_bit_plane(Bytes bytes, const uint8_t* plane, size_t unit, int value) {
  const Bytes set = load_bits(plane, unit, 1);
  return {bytes.low + set.low * static_cast<uint8_t>(value), bytes.high + set.high * static_cast<uint8_t>(value)};
}
/// Adds `value` to level i where bit i of 32 bits is set.
inline Bytes add_bits(Bytes bytes, const uint8_t* from, int value) {
  uint8_t added[kUnit];
  for (size_t index = 0; index < kUnit; index++)
    added[index] = static_cast<uint8_t>((from[index / 8] >> index % 8 & 1) * value);
  const Bytes more = load_unit(added);
  return {bytes.low + more.low, bytes.high + more.high};
}
inline Bytes look_up(Bytes indices, const int8_t* table) {
  uint8_t levels[kUnit];
  store_unit(levels, indices);
  for (uint8_t& level : levels) level = static_cast<uint8_t>(table[level]);
  return load_unit(levels);
}

/// Eight bytes widened; levels of up to 7 bits read the same as signed bytes.
inline WordVector words_at(const void* from) {
  HalfVector bytes;
  memcpy(&bytes, from, sizeof bytes);
  return __builtin_convertvector(bytes, WordVector);
}
struct Words {
  WordVector at[4];
};
inline Words words_of(const void* from) {
  const int8_t* bytes = static_cast<const int8_t*>(from);
  return {{words_at(bytes), words_at(bytes + 8), words_at(bytes + 16), words_at(bytes + 24)}};
}
/// The even and the odd words as 32 bits.
inline QuadI even_words(WordVector words) { return (QuadI)words << 16 >> 16; }
inline QuadI odd_words(WordVector words) { return (QuadI)words >> 16; }

template <class Scales, bool kSigned>
inline void accumulate(const Bytes& weight, const RowChunk& token, size_t unit, const Combined<Scales>& combined,
                       RowSums& sums) {
  const Words levels = words_of(&weight), values = words_of(token.values + unit * kUnit);
  // A product is at most 128 × 127, so that two of them fit 16 bits.
  const WordVector first = levels.at[0] * values.at[0] + levels.at[1] * values.at[1];
  const WordVector second = levels.at[2] * values.at[2] + levels.at[3] * values.at[3];
  if (sizeof(Scales) == sizeof(Scales32)) {
    const I dots = {even_words(first) + even_words(second), odd_words(first) + odd_words(second)};
    F& target = sums.dots[unit % 2];
    target = fma(to_float(dots), set(combined.scales[unit]), target);
  } else {
    sums.dots[0] = fma(to_float({even_words(first), odd_words(first)}), set(combined.scales[2 * unit]), sums.dots[0]);
    sums.dots[1] =
        fma(to_float({even_words(second), odd_words(second)}), set(combined.scales[2 * unit + 1]), sums.dots[1]);
  }
}

}  // namespace
}  // namespace rocmforge
