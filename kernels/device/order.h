// Whole numbers that order as floats do, and the largest or smallest of them over lanes. Unlike a comparison of floats
// they never lose a NaN: as a magnitude it is larger than infinity.
#pragma once
#include "device/portable.h"

constexpr u32 kInfinityBits = 0x7f800000u;
constexpr int kNoColumn = 0x7fffffff;

/** Larger for larger floats; the two zeros are equal; 0 comes before every number. */
DEVICE u32 order_of(float value) {
  const u32 bits = bits_of(value + 0.0f);
  return (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
}

DEVICE float float_of_order(u32 order) { return float_of((order >> 31) != 0 ? order & 0x7fffffffu : ~order); }

DEVICE u32 magnitude_bits(float value) { return bits_of(value) & 0x7fffffffu; }
DEVICE bool is_finite(float value) { return magnitude_bits(value) < kInfinityBits; }

DEVICE u32 max(u32 left, u32 right) { return left > right ? left : right; }
DEVICE u64 max(u64 left, u64 right) { return left > right ? left : right; }

/** A logit and where it stands, as one number: a larger logit comes first, of equal ones the smaller column. */
DEVICE u64 key_of(u32 order, int column) { return (u64(order) << 32) | u32(~u32(column)); }
DEVICE u32 order_of_key(u64 key) { return u32(key >> 32); }
DEVICE int column_of_key(u64 key) { return int(~u32(key)); }

DEVICE u64 wave_xor_key(u64 value, int mask) {
  return (u64(wave_xor(u32(value >> 32), mask)) << 32) | wave_xor(u32(value), mask);
}

/** Over groups of `Lanes` neighbours; every lane gets its group's result. */
template <int Lanes = WAVE>
DEVICE u32 wave_max(u32 value) {
#pragma unroll
  for (int mask = Lanes / 2; mask > 0; mask /= 2) value = max(value, wave_xor(value, mask));
  return value;
}

template <int Lanes = WAVE>
DEVICE u64 wave_max_key(u64 value) {
#pragma unroll
  for (int mask = Lanes / 2; mask > 0; mask /= 2) value = max(value, wave_xor_key(value, mask));
  return value;
}

template <int Lanes = WAVE>
DEVICE int wave_min(int value) {
#pragma unroll
  for (int mask = Lanes / 2; mask > 0; mask /= 2) value = min(value, wave_xor(value, mask));
  return value;
}
