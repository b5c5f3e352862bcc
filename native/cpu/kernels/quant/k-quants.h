// Q2_K to Q6_K: a chunk is one block of 256 elements, whose groups of 16 or 32 have small scales under a common half.
// Layouts are those of src/quant/q*-k.ts; a plane is a run of bytes that serves several units, some bits for each.

#pragma once

namespace rocmforge {
namespace {

struct Q2_K {
  using Scales = Scales16;
  static constexpr size_t kBytes = 84;
  static constexpr int kOffset = 0;
  static constexpr int kHighest = 3;
  static constexpr bool kMinima = true;
  static constexpr bool kSigned = false;
  static Scales scales(const uint8_t* chunk) {
    return nibble_scales_16(half_at(chunk + 80), half_at(chunk + 82), chunk);
  }
  static Bytes levels(const uint8_t* chunk, size_t unit) { return load_pair_plane(chunk + 16, unit); }
};

struct Q3_K {
  using Scales = Scales16;
  static constexpr size_t kBytes = 110;
  static constexpr int kOffset = 4;
  static constexpr int kHighest = 7;
  static constexpr bool kMinima = false;
  static constexpr bool kSigned = false;
  static Scales scales(const uint8_t* chunk) {
    // Four scales at a time: their low nibbles from one word, their upper pairs of bits from the last word.
    uint32_t words_of_scales[3];
    memcpy(words_of_scales, chunk + 96, sizeof words_of_scales);
    uint32_t words[4];
    for (uint32_t quarter = 0; quarter < 4; quarter++) {
      const uint32_t low = words_of_scales[quarter & 1] >> (quarter < 2 ? 0 : 4) & 0x0f0f0f0f;
      const uint32_t code = low | (words_of_scales[2] >> (2 * quarter) & 0x03030303) << 4;
      // Less 32 in every byte: with bit 7 set no byte borrows from the next.
      words[quarter] = ((code | 0x80808080) - 0x20202020) ^ 0x80808080;
    }
    int8_t codes[16];
    memcpy(codes, words, sizeof codes);
    return coded_scales_16(half_at(chunk + 108), codes);
  }
  static Bytes levels(const uint8_t* chunk, size_t unit) {
    return add_bit_plane(load_pair_plane(chunk + 32, unit), chunk, unit, 4);
  }
};

struct Q4_K {
  using Scales = Scales32;
  static constexpr size_t kBytes = 144;
  static constexpr int kOffset = 0;
  static constexpr int kHighest = 15;
  static constexpr bool kMinima = true;
  static constexpr bool kSigned = false;
  static Scales scales(const uint8_t* chunk) { return six_bit_scales(chunk); }
  static Bytes levels(const uint8_t* chunk, size_t unit) { return load_nibble_plane(chunk + 16, unit); }
};

struct Q5_K {
  using Scales = Scales32;
  static constexpr size_t kBytes = 176;
  static constexpr int kOffset = 0;
  static constexpr int kHighest = 31;
  static constexpr bool kMinima = true;
  static constexpr bool kSigned = false;
  static Scales scales(const uint8_t* chunk) { return six_bit_scales(chunk); }
  static Bytes levels(const uint8_t* chunk, size_t unit) {
    return add_bit_plane(load_nibble_plane(chunk + 48, unit), chunk + 16, unit, 16);
  }
};

struct Q6_K {
  using Scales = Scales16;
  static constexpr size_t kBytes = 210;
  static constexpr int kOffset = 32;
  static constexpr int kHighest = 63;
  static constexpr bool kMinima = false;
  static constexpr bool kSigned = false;
  static Scales scales(const uint8_t* chunk) {
    return coded_scales_16(half_at(chunk + 208), reinterpret_cast<const int8_t*>(chunk + 192));
  }
  static Bytes levels(const uint8_t* chunk, size_t unit) {
    return either(load_wide_nibble_plane(chunk, unit), load_high_pair_plane(chunk + 128, unit));
  }
};

}  // namespace
}  // namespace rocmforge
