// TQ1_0 and TQ2_0: 256 elements of -1, 0 or 1 under one scale; layouts are those of src/quant/ternary.ts.
// TQ1_0's digits need multiplications of bytes, which plain loops leave to the compiler.

#pragma once

namespace rocmforge {
namespace {

constexpr int8_t kOnes[8] = {1, 1, 1, 1, 1, 1, 1, 1};
constexpr uint8_t kPowersOfThree[5] = {1, 3, 9, 27, 81};

struct TQ1_0 {
  using Scales = Scales32;
  static constexpr size_t kBytes = 54;
  static constexpr int kOffset = 1;
  static constexpr int kHighest = 2;
  static constexpr bool kMinima = false;
  static constexpr bool kSigned = false;

  static Scales scales(const uint8_t* chunk) { return coded_scales(half_at(chunk + 52), kOnes); }
  // Not inlined: GCC 12 lets the arrays of several unrolled calls share their place while they are still in use.
  __attribute__((noinline)) static Bytes levels(const uint8_t* chunk, size_t unit) {
    uint8_t levels[32];
    digits(chunk, unit, levels);
    return load_unit(levels);
  }

 private:
  template <size_t kCount>
  static void digit(const uint8_t* from, size_t digit_index, uint8_t* out) {
    const uint8_t power = kPowersOfThree[digit_index];
    for (size_t index = 0; index < kCount; index++) {
      const uint8_t fraction = static_cast<uint8_t>(from[index] * power);
      // The carry of 3 × fraction.
      out[index] = static_cast<uint8_t>((fraction > 85) + (fraction > 170));
    }
  }
  static void digits(const uint8_t* chunk, size_t unit, uint8_t* out) {
    if (unit < 5) return digit<32>(chunk, unit, out);
    digit<16>(chunk + 32, 2 * (unit - 5), out);
    if (unit < 7) return digit<16>(chunk + 32, 2 * (unit - 5) + 1, out + 16);
    for (size_t digit_index = 0; digit_index < 4; digit_index++)
      digit<4>(chunk + 48, digit_index, out + 16 + 4 * digit_index);
  }
};

struct TQ2_0 {
  using Scales = Scales32;
  static constexpr size_t kBytes = 66;
  static constexpr int kOffset = 1;
  static constexpr int kHighest = 3;
  static constexpr bool kMinima = false;
  static constexpr bool kSigned = false;
  static Scales scales(const uint8_t* chunk) { return coded_scales(half_at(chunk + 64), kOnes); }
  static Bytes levels(const uint8_t* chunk, size_t unit) { return load_pair_plane(chunk, unit); }
};

}  // namespace
}  // namespace rocmforge
