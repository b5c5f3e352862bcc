// Weights as they lie on the device, one Format per type. The unit is a *block* of 32 weights, as two groups of 16 that
// have a scale (and a minimum) each: weight = scale × q − minimum. A row of `width` weights has width / 32 blocks; rows
// follow one another every row_bytes(width), a multiple of 16. A row is either the file's own (Q5_K) or planes: what
// all blocks have of one kind, then the next kind, in the order of the diagrams, padded to 16 bytes.
//
//   typedef Format<kQ4_K> Q;
//   const u8* row = weights + u64(index) * Q::row_bytes(width);
//   Q::Raw raw = Q::fetch(row, width / 32, block);      loads only: nothing waits for them here
//   Block values = Q::decode(raw, block);
//   … dot4(values.quads[group][i], …)                   bytes i of the 16 columns from Q::column(block, group) on
//   … block_value(values, group, i)                     the weight itself, to the bit as src/quant decodes it
//
// Format also says: has_minimum; one_scale, both groups have one scale and one minimum; group_chunks, from
// column(block, 0) to column(block, 1) in 16 columns. q is a signed byte and may hold a power-of-two multiple of the
// file's level, where that spares instructions; the scale is divided alike. TYPE0 … are ggml type ids.
#pragma once

#include "device/portable.h"

constexpr int kF32 = 0;
constexpr int kF16 = 1;
constexpr int kQ4_0 = 2;
constexpr int kQ4_1 = 3;
constexpr int kQ5_0 = 6;
constexpr int kQ5_1 = 7;
constexpr int kQ8_0 = 8;
constexpr int kQ2_K = 10;
constexpr int kQ3_K = 11;
constexpr int kQ4_K = 12;
constexpr int kQ5_K = 13;
constexpr int kQ6_K = 14;
constexpr int kIQ4_NL = 20;
constexpr int kIQ4_XS = 23;
constexpr int kBF16 = 30;
constexpr int kTQ1_0 = 34;
constexpr int kTQ2_0 = 35;
constexpr int kMXFP4 = 39;
constexpr int kNVFP4 = 40;

constexpr int kBlockWeights = 32;

struct Block {
  /** [group][i]: four signed bytes, the first column lowest. */
  u32 quads[2][4];
  float scale[2];
  /** 0 where the type has none (Format::has_minimum). */
  float minimum[2];
};

struct alignas(8) Words2 {
  u32 x, y;
};

template <int Type>
struct Format;

/**
 * 0 as soon as `raw` has arrived; `zero` is 0, which the compiler does not know. What is asked for at an address with this in it
 * is asked for after that: NVIDIA's compilers count all loads of a loop together, and a wait for one of them is a wait for all
 * that were asked for before.
 */
template <typename Raw>
DEVICE int when_here(const Raw& raw, int zero) {
  return int(*reinterpret_cast<const u32*>(&raw)) & zero;
}

DEVICE constexpr u64 padded_row(u64 bytes) { return (bytes + 15) & ~u64(15); }

DEVICE u16 load_u16(const u8* address) { return *reinterpret_cast<const u16*>(address); }
DEVICE u32 load_u32(const u8* address) { return *reinterpret_cast<const u32*>(address); }
DEVICE Words2 load_words2(const u8* address) { return *reinterpret_cast<const Words2*>(address); }

DEVICE float low_half_to_float(u32 word) { return half_to_float(u16(word)); }
DEVICE float high_half_to_float(u32 word) { return half_to_float(u16(word >> 16)); }

/** Column i of a group as the file's decoder gives it: one rounding, after a product that is exact but for Q6_K's. */
DEVICE float block_value(const Block& block, int group, int i) {
  const int level = i8(block.quads[group][i / 4] >> (8 * (i % 4)));
  return fma(block.scale[group], float(level), -block.minimum[group]);
}

/** F32, F16 and BF16 lie as in the file: rows of width elements with nothing between them. */
template <int Type>
struct Plain;

template <>
struct Plain<kF32> {
  static constexpr int element_bytes = 4;
  DEVICE float value(const u8* row, int column) { return reinterpret_cast<const float*>(row)[column]; }
};

template <>
struct Plain<kF16> {
  static constexpr int element_bytes = 2;
  DEVICE float value(const u8* row, int column) { return half_to_float(reinterpret_cast<const u16*>(row)[column]); }
};

template <>
struct Plain<kBF16> {
  static constexpr int element_bytes = 2;
  DEVICE float value(const u8* row, int column) { return bfloat_to_float(reinterpret_cast<const u16*>(row)[column]); }
};

DEVICE constexpr bool is_plain(int type) { return type == kF32 || type == kF16 || type == kBF16; }

#include "weights/weights-simple.h"
#include "weights/weights-k.h"
#include "weights/weights-codebook.h"
#include "weights/weights-ternary.h"
