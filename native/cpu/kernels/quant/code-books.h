// IQ4_NL, IQ4_XS, MXFP4, NVFP4: four bits that choose one of sixteen fixed levels (tables as in src/quant/iq4.ts,
// fp4.ts). Levels of the first two need all of a signed byte; the 4-bit floats, as twice their value, need only 12
// added.

#pragma once

namespace rocmforge {
namespace {

constexpr int8_t kUnevenLevels[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

constexpr int kFloat4Offset = 12;
constexpr int8_t kFloat4Levels[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};

struct IQ4_NL : SimpleBlocks<18> {
  static constexpr int kOffset = 0;
  static constexpr int kHighest = 127;
  static constexpr bool kSigned = true;
  static Bytes levels(const uint8_t* chunk, size_t unit) {
    return look_up(load_nibbles(block(chunk, unit) + 2), kUnevenLevels);
  }
};

struct IQ4_XS {
  using Scales = Scales32;
  static constexpr size_t kBytes = 136;
  static constexpr int kOffset = 0;
  static constexpr int kHighest = 127;
  static constexpr bool kMinima = false;
  static constexpr bool kSigned = true;
  static Scales scales(const uint8_t* chunk) {
    uint16_t high;
    memcpy(&high, chunk + 2, sizeof high);
    int8_t codes[8];
    for (size_t unit = 0; unit < 8; unit++) {
      const int low = chunk[4 + unit / 2] >> (unit % 2 * 4) & 15;
      codes[unit] = static_cast<int8_t>((low | (high >> (2 * unit) & 3) << 4) - 32);
    }
    return coded_scales(half_at(chunk), codes);
  }
  static Bytes levels(const uint8_t* chunk, size_t unit) {
    return look_up(load_nibbles(chunk + 8 + unit * 16), kUnevenLevels);
  }
};

inline float float_of_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}
/// Half of 2^(code - 127), exact down to the subnormal ones.
inline float power_scale(uint32_t code) { return float_of_bits(code < 2 ? 0x00200000u << code : (code - 1) << 23); }
/// Half of an unsigned float of four exponent and three mantissa bits; bit 7 is ignored, and 0x7f is 0.
inline float small_float_scale(uint32_t code) {
  const uint32_t exponent = code >> 3 & 15;
  const uint32_t mantissa = code & 7;
  if (code == 0x7f) return 0;
  return exponent == 0 ? static_cast<float>(mantissa) * 0x1p-10f
                       : float_of_bits((exponent + 119) << 23 | mantissa << 20);
}

struct MXFP4 : SimpleBlocks<17> {
  static constexpr int kOffset = kFloat4Offset;
  static constexpr int kHighest = 24;
  static Scales scales(const uint8_t* chunk) {
    float scales[8];
    for (size_t unit = 0; unit < 8; unit++) scales[unit] = power_scale(*block(chunk, unit));
    return scales_of(scales);
  }
  static Bytes levels(const uint8_t* chunk, size_t unit) {
    return look_up(load_nibbles(block(chunk, unit) + 1), kFloat4Levels);
  }
};

struct NVFP4 {
  using Scales = Scales16;
  static constexpr size_t kBytes = 4 * 36;
  static constexpr int kOffset = kFloat4Offset;
  static constexpr int kHighest = 24;
  static constexpr bool kMinima = false;
  static constexpr bool kSigned = false;
  static Scales scales(const uint8_t* chunk) {
    float scales[16];
    for (size_t group = 0; group < 16; group++) scales[group] = small_float_scale(chunk[group / 4 * 36 + group % 4]);
    return scales_16_of(scales);
  }
  static Bytes levels(const uint8_t* chunk, size_t unit) {
    return look_up(load_short_nibbles(chunk + unit / 2 * 36 + 4 + unit % 2 * 16), kFloat4Levels);
  }
};

}  // namespace
}  // namespace rocmforge
