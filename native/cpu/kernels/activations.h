// The layout of q8 activations: chunks of 256 columns, padded with zeros.
// A value is scale × level; the scaled sums of levels are what minima and offsets of weights multiply.

#pragma once

#include <cstddef>
#include <cstdint>

namespace rocmforge {
namespace {

constexpr size_t kChunk = 256;
constexpr size_t kUnit = 32;
constexpr size_t kChunkUnits = kChunk / kUnit;

/// Elements that share a scale in a block type.
template <class Type>
constexpr size_t kGroup = sizeof(Type::scales(nullptr).scales) / sizeof(float) == 8 ? 32 : 16;

/// The scales of a chunk as gemv wants them; a layer may specialise this and row_levels for a type.
template <class Type>
struct RowScales {
  using Result = typename Type::Scales;
  static Result of(const uint8_t* chunk) { return Type::scales(chunk); }
};

/// How gemv multiplies a chunk of a type, if a layer has a way of its own that takes more than two units at a time.
template <class Type>
struct RowForm {
  static constexpr bool kExists = false;
};

/// One token.
struct alignas(64) RowChunk {
  int8_t values[kChunk];
  float scales[kChunkUnits];
  /// Per 32 and per 16 levels.
  float sums[kChunkUnits];
  float sums_16[2 * kChunkUnits];
  /// Every scale twice.
  float scales_16[2 * kChunkUnits];
  /// Those of odd units divided by 16, for levels that are left in the high nibbles of their bytes.
  float nibble_scales[kChunkUnits];
  /// The values again: the first halves of four units, then the second halves of the same four.
  int8_t halves[kChunk];
};

/// The tokens of a panel, interleaved by four columns.
template <size_t kTokens>
struct alignas(64) PanelChunk {
  int8_t values[kChunk / 4][kTokens][4];
  float scales[kChunkUnits][kTokens];
  /// `sums` rounded to integers, interleaved by pairs of units, and the scale of each token's integers. Only AVX-512 reads
  /// them.
  int16_t short_sums[kChunkUnits / 2][kTokens][2];
  float short_sum_scales[kTokens];
  /// -128 × the sum of levels: takes back the 128 that was added to a weight's levels.
  int32_t corrections_16[2 * kChunkUnits][kTokens];
  int32_t corrections[kChunkUnits][kTokens];
  float sums[kChunkUnits][kTokens];
  float sums_16[2 * kChunkUnits][kTokens];
};

inline size_t chunks_of(size_t width) { return (width + kChunk - 1) / kChunk; }

}  // namespace
}  // namespace rocmforge
