// Types whose whole chunks an instruction set handles faster than the general code: each has a form of its own.

#pragma once

#include <cstddef>
#include <cstdint>

namespace rocmforge {
namespace {

/// Unpacking into a tile (see simd/avx512-tile-forms.h): levels, scales and minima are to the bit what the general way
/// gives, or what simd/avx512-super-blocks.h multiplies.
template <class Type>
struct TileForm {
  static constexpr bool kWhole = false;
};

/// GEMM whose vectors hold tokens instead of rows (see simd/avx512-lane-gemm.h).
template <class Type>
struct LaneForm {
  static constexpr bool kExists = false;
  static constexpr size_t kScratchBytes = 0;
};

/// The most tokens that a form for one panel takes.
constexpr size_t kOnePanelTokens = 8;

/// Multiplying 16 rows with one panel and no tile between (see simd/avx512-one-panel.h).
template <class Type>
struct OnePanelForm {
  static constexpr bool kExists = false;
};

}  // namespace
}  // namespace rocmforge
