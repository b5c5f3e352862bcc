// Where a machine unpacks whole chunks of a type better than row by row, it says how in a form of its own (see
// simd/avx512-tile-forms.h). Levels, scales and minima are to the bit what the general way gives.

#pragma once

#include <cstddef>
#include <cstdint>

namespace rocmforge {
namespace {

template <class Type>
struct TileForm {
  static constexpr bool kWhole = false;
};

}  // namespace
}  // namespace rocmforge
