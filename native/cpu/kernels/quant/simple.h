// Blocks of 32 elements with one scale: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0. A chunk of 256 elements is eight blocks.
// What every block type offers: `scales` of a chunk; `levels` of a unit of 32 elements, as int8 if kSigned, else
// from 0 to kHighest; an element is scale × (level - kOffset), less the minimum if kMinima. Layouts: src/quant/.

#pragma once

namespace rocmforge {
namespace {

/// A block of `kBlockBytes`, eight to a chunk.
template <size_t kBlockBytes>
struct SimpleBlocks {
  using Scales = Scales32;
  static constexpr size_t kBytes = 8 * kBlockBytes;
  static constexpr size_t kStride = kBlockBytes;
  static constexpr bool kMinima = false;
  static constexpr bool kSigned = false;
  static Scales scales(const uint8_t* chunk) { return half_scales<kBlockBytes>(chunk); }
  static const uint8_t* block(const uint8_t* chunk, size_t unit) { return chunk + unit * kBlockBytes; }
};

struct Q4_0 : SimpleBlocks<18> {
  static constexpr int kOffset = 8;
  static constexpr int kHighest = 15;
  static Bytes levels(const uint8_t* chunk, size_t unit) { return load_nibbles(block(chunk, unit) + 2); }
};

struct Q4_1 : SimpleBlocks<20> {
  static constexpr int kOffset = 0;
  static constexpr int kHighest = 15;
  static constexpr bool kMinima = true;
  static Scales scales(const uint8_t* chunk) { return half_scales_and_base<kStride>(chunk); }
  static Bytes levels(const uint8_t* chunk, size_t unit) { return load_nibbles(block(chunk, unit) + 4); }
};

struct Q5_0 : SimpleBlocks<22> {
  static constexpr int kOffset = 16;
  static constexpr int kHighest = 31;
  static Bytes levels(const uint8_t* chunk, size_t unit) {
    return add_bits(load_nibbles(block(chunk, unit) + 6), block(chunk, unit) + 2, 16);
  }
};

struct Q5_1 : SimpleBlocks<24> {
  static constexpr int kOffset = 0;
  static constexpr int kHighest = 31;
  static constexpr bool kMinima = true;
  static Scales scales(const uint8_t* chunk) { return half_scales_and_base<kStride>(chunk); }
  static Bytes levels(const uint8_t* chunk, size_t unit) {
    return add_bits(load_nibbles(block(chunk, unit) + 8), block(chunk, unit) + 4, 16);
  }
};

struct Q8_0 : SimpleBlocks<34> {
  static constexpr int kOffset = 0;
  static constexpr int kHighest = 127;
  static constexpr bool kSigned = true;
  static Bytes levels(const uint8_t* chunk, size_t unit) { return load_unit(block(chunk, unit) + 2); }
};

}  // namespace
}  // namespace rocmforge
