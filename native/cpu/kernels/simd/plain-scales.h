// Scales of 256 elements as plain floats, for the layers whose vectors are too short to gain from more.
// Offers what x86-bytes.h offers; half_at comes from the layer above.

#pragma once

#include <cstring>

#include "../activations.h"

namespace rocmforge {
namespace {

/// kCount scales and as many minima. Types without minima have their scales twice, because a constant offset of the
/// levels is a minimum of offset × scale.
template <size_t kCount>
struct PlainScales {
  float scales[kCount];
  float minima[kCount];
};
using Scales32 = PlainScales<kChunkUnits>;
using Scales16 = PlainScales<2 * kChunkUnits>;

template <size_t kCount>
inline PlainScales<kCount> same_minima(const float* scales) {
  PlainScales<kCount> out;
  memcpy(out.scales, scales, sizeof out.scales);
  memcpy(out.minima, scales, sizeof out.minima);
  return out;
}
inline Scales32 scales_of(const float* scales) { return same_minima<8>(scales); }
inline Scales16 scales_16_of(const float* scales) { return same_minima<16>(scales); }

/// Scales only for the first `units`.
template <size_t kCount>
inline PlainScales<kCount> first_units(PlainScales<kCount> from, size_t units) {
  for (size_t index = units * (kCount / kChunkUnits); index < kCount; index++)
    from.scales[index] = from.minima[index] = 0;
  return from;
}
template <size_t kCount>
inline void store_scales(const PlainScales<kCount>& from, float* scales, float* minima) {
  memcpy(scales, from.scales, sizeof from.scales);
  memcpy(minima, from.minima, sizeof from.minima);
}

/// A half at the start of each block.
template <size_t kStride>
inline Scales32 half_scales(const uint8_t* from) {
  float scales[8];
  for (size_t unit = 0; unit < 8; unit++) scales[unit] = half_at(from + unit * kStride);
  return scales_of(scales);
}
/// Two halves: the scale, and a value that is added to every element.
template <size_t kStride>
inline Scales32 half_scales_and_base(const uint8_t* from) {
  Scales32 out;
  for (size_t unit = 0; unit < 8; unit++) {
    out.scales[unit] = half_at(from + unit * kStride);
    out.minima[unit] = -half_at(from + unit * kStride + 2);
  }
  return out;
}
/// | scale f16 | minimum f16 | 12 bytes of 6-bit scales and minima |, as Q4_K and Q5_K have them.
inline Scales32 six_bit_scales(const uint8_t* from) {
  uint32_t words_of_scales[3];
  memcpy(words_of_scales, from + 4, sizeof words_of_scales);
  const uint32_t words[4] = {
      words_of_scales[0] & 0x3f3f3f3f, (words_of_scales[2] & 0x0f0f0f0f) | (words_of_scales[0] >> 2 & 0x30303030),
      words_of_scales[1] & 0x3f3f3f3f, (words_of_scales[2] >> 4 & 0x0f0f0f0f) | (words_of_scales[1] >> 2 & 0x30303030)};
  uint8_t codes[16];
  memcpy(codes, words, sizeof codes);
  const float scale = half_at(from), minimum = half_at(from + 2);
  Scales32 out;
  for (size_t unit = 0; unit < 8; unit++) {
    out.scales[unit] = scale * static_cast<float>(codes[unit]);
    out.minima[unit] = minimum * static_cast<float>(codes[8 + unit]);
  }
  return out;
}
/// scale × code
template <size_t kCount>
inline PlainScales<kCount> multiplied_codes(float scale, const int8_t* codes) {
  float scales[kCount];
  for (size_t index = 0; index < kCount; index++) scales[index] = scale * static_cast<float>(codes[index]);
  return same_minima<kCount>(scales);
}
inline Scales32 coded_scales(float scale, const int8_t* codes) { return multiplied_codes<8>(scale, codes); }
inline Scales16 coded_scales_16(float scale, const int8_t* codes) { return multiplied_codes<16>(scale, codes); }
/// Scales in the low, minima in the high nibbles.
inline Scales16 nibble_scales_16(float scale, float minimum, const uint8_t* codes) {
  Scales16 out;
  for (size_t group = 0; group < 16; group++) {
    out.scales[group] = scale * static_cast<float>(codes[group] & 15);
    out.minima[group] = minimum * static_cast<float>(codes[group] >> 4);
  }
  return out;
}

constexpr size_t kRowUnits = 1;

template <class Type>
inline auto row_levels(const uint8_t* chunk, size_t unit) {
  return Type::levels(chunk, unit);
}

/// Scales of weight and token multiplied.
template <class Scales>
struct Combined {
  float scales[sizeof(Scales) / (2 * sizeof(float))];
};

struct RowSums {
  F dots[2];
  float minima[2 * kChunkUnits];
};

inline RowSums no_sums() { return {{zero(), zero()}, {}}; }

/// The minima's share of the result is collected on the way.
template <bool kMinima, size_t kCount>
inline void combine(const PlainScales<kCount>& weight, const RowChunk& token, Combined<PlainScales<kCount>>& combined,
                    RowSums& sums) {
  const float* token_sums = kCount == kChunkUnits ? token.sums : token.sums_16;
  const float* token_scales = kCount == kChunkUnits ? token.scales : token.scales_16;
  for (size_t index = 0; index < kCount; index++) combined.scales[index] = weight.scales[index] * token_scales[index];
  if (!kMinima) return;
  for (size_t index = 0; index < kCount; index++) sums.minima[index] += weight.minima[index] * token_sums[index];
}

template <class Scales, bool kMinima>
inline float total(const RowSums& sums, float offset) {
  const float dots = sum(add(sums.dots[0], sums.dots[1]));
  if (!kMinima) return dots;
  float minima = 0;
  for (float part : sums.minima) minima += part;
  return dots - offset * minima;
}

}  // namespace
}  // namespace rocmforge
