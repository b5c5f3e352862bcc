// Types whose whole chunks an instruction set handles faster than the general code: each has a form of its own.

#pragma once

#include <cstddef>
#include <cstdint>

namespace rocmforge {
namespace {

/// Unpacking into a tile (see simd/avx512-tile-forms.h): levels, scales and minima are to the bit what the general way
/// gives.
template <class Type>
struct TileForm {
  static constexpr bool kWhole = false;
};

/// Multiplying 16 rows with one panel and no tile between (see simd/avx512-one-panel.h).
template <class Type>
struct OnePanelForm {
  static constexpr bool kExists = false;
};

}  // namespace
}  // namespace rocmforge
