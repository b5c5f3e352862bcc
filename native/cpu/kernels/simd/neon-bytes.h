// Weights as bytes with NEON and its dot product of signed bytes; levels of up to 7 bits read the same as signed ones.

#pragma once

#include "neon-float.h"

namespace rocmforge {
namespace {

inline float half_at(const uint8_t* from) {
  float16_t half;
  memcpy(&half, from, sizeof half);
  return static_cast<float>(half);
}

}  // namespace
}  // namespace rocmforge

#include "plain-scales.h"

namespace rocmforge {
namespace {

/// The most tokens that share a pass over weight rows.
constexpr size_t kMaxRowTokens = 8;

struct Bytes {
  uint8x16_t low, high;
};

inline void prefetch(const uint8_t* address) { __builtin_prefetch(address); }

inline Bytes load_unit(const uint8_t* from) { return {vld1q_u8(from), vld1q_u8(from + 16)}; }
inline void store_unit(uint8_t* to, Bytes bytes) {
  vst1q_u8(to, bytes.low);
  vst1q_u8(to + 16, bytes.high);
}
inline Bytes masked(Bytes bytes, uint8_t mask) {
  return {vandq_u8(bytes.low, vdupq_n_u8(mask)), vandq_u8(bytes.high, vdupq_n_u8(mask))};
}
inline Bytes shifted_right(Bytes bytes, size_t shift) {
  const int8x16_t left = vdupq_n_s8(static_cast<int8_t>(-static_cast<int>(shift)));
  return {vshlq_u8(bytes.low, left), vshlq_u8(bytes.high, left)};
}

/// 16 bytes: the low nibbles are the first 16 levels, the high nibbles the others.
inline Bytes load_nibbles(const uint8_t* from) {
  const uint8x16_t pairs = vld1q_u8(from);
  return {vandq_u8(pairs, vdupq_n_u8(15)), vshrq_n_u8(pairs, 4)};
}
/// The same with groups of 16 levels in 8 bytes.
inline Bytes load_short_nibbles(const uint8_t* from) {
  const uint8x8_t first = vld1_u8(from), second = vld1_u8(from + 8);
  const uint8x8_t mask = vdup_n_u8(15);
  return {vcombine_u8(vand_u8(first, mask), vshr_n_u8(first, 4)),
          vcombine_u8(vand_u8(second, mask), vshr_n_u8(second, 4))};
}
/// 32 bytes hold an even unit in their low and the odd one after it in their high nibbles.
inline Bytes load_nibble_plane(const uint8_t* plane, size_t unit) {
  return masked(shifted_right(load_unit(plane + unit / 2 * 32), unit % 2 * 4), 15);
}
/// 64 bytes hold four units: the first two in their low, the others in their high nibbles.
inline Bytes load_wide_nibble_plane(const uint8_t* plane, size_t unit) {
  return masked(shifted_right(load_unit(plane + unit / 4 * 64 + unit % 2 * 32), unit % 4 / 2 * 4), 15);
}
/// 32 bytes hold four units, two bits each, from the low bits up.
inline Bytes load_pair_plane(const uint8_t* plane, size_t unit) {
  return masked(shifted_right(load_unit(plane + unit / 4 * 32), unit % 4 * 2), 3);
}
/// The same pairs as bits 4 and 5.
inline Bytes load_high_pair_plane(const uint8_t* plane, size_t unit) {
  const Bytes pairs = load_pair_plane(plane, unit);
  return {vshlq_n_u8(pairs.low, 4), vshlq_n_u8(pairs.high, 4)};
}
inline Bytes either(Bytes a, Bytes b) { return {vorrq_u8(a.low, b.low), vorrq_u8(a.high, b.high)}; }
inline Bytes minus(Bytes bytes, int value) {
  const uint8x16_t offset = vdupq_n_u8(static_cast<uint8_t>(value));
  return {vsubq_u8(bytes.low, offset), vsubq_u8(bytes.high, offset)};
}
inline uint8x16_t add_where(uint8x16_t bytes, uint8x16_t bits, uint8x16_t selected, int value) {
  return vaddq_u8(bytes, vandq_u8(vtstq_u8(bits, selected), vdupq_n_u8(static_cast<uint8_t>(value))));
}
/// Adds `value` to the levels of unit u whose byte has bit u set; 32 bytes for eight units.
inline Bytes add_bit_plane(Bytes bytes, const uint8_t* plane, size_t unit, int value) {
  const uint8x16_t selected = vdupq_n_u8(static_cast<uint8_t>(1 << unit));
  return {add_where(bytes.low, vld1q_u8(plane), selected, value),
          add_where(bytes.high, vld1q_u8(plane + 16), selected, value)};
}
/// Adds `value` to level i where bit i of 32 bits is set.
inline Bytes add_bits(Bytes bytes, const uint8_t* from, int value) {
  const uint8x16_t selected = vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201));
  return {add_where(bytes.low, vcombine_u8(vdup_n_u8(from[0]), vdup_n_u8(from[1])), selected, value),
          add_where(bytes.high, vcombine_u8(vdup_n_u8(from[2]), vdup_n_u8(from[3])), selected, value)};
}
inline Bytes look_up(Bytes indices, const int8_t* table) {
  const uint8x16_t levels = vreinterpretq_u8_s8(vld1q_s8(table));
  return {vqtbl1q_u8(levels, indices.low), vqtbl1q_u8(levels, indices.high)};
}

template <class Scales, bool kSigned>
inline void accumulate(Bytes weight, const RowChunk& token, size_t unit, const Combined<Scales>& combined,
                       RowSums& sums) {
  const int8_t* values = token.values + unit * kUnit;
  const int8x16_t low = vreinterpretq_s8_u8(weight.low), high = vreinterpretq_s8_u8(weight.high);
  const int32x4_t first = vdotq_s32(vdupq_n_s32(0), low, vld1q_s8(values));
  if (sizeof(Scales) == sizeof(Scales32)) {
    const int32x4_t both = vdotq_s32(first, high, vld1q_s8(values + 16));
    F& target = sums.dots[unit % 2];
    target = fma(to_float(both), set(combined.scales[unit]), target);
  } else {
    const int32x4_t second = vdotq_s32(vdupq_n_s32(0), high, vld1q_s8(values + 16));
    sums.dots[0] = fma(to_float(first), set(combined.scales[2 * unit]), sums.dots[0]);
    sums.dots[1] = fma(to_float(second), set(combined.scales[2 * unit + 1]), sums.dots[1]);
  }
}

}  // namespace
}  // namespace rocmforge
