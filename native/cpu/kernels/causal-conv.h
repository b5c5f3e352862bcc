// Depthwise causal convolution, one token at a time. Include after a simd/*-float.h, exponential.h and row-kernels.h.

#pragma once

#include <cstddef>

#include "kernel-table.h"
#include "row-kernels.h"

namespace rocmforge {
namespace {

template <bool part>
inline void conv_lanes(const CausalConvRow& row, size_t column, size_t count) {
  const auto read = [&](const float* from) {
    if constexpr (part) return load_part(from + column, count);
    return load(from + column);
  };
  F total = row.bias == nullptr ? zero() : read(row.bias);
  for (size_t tap = 0; tap < row.taps; tap++)
    total = fma(read(row.rows[tap]), read(row.weights + tap * row.columns), total);
  if (row.silu) total = silu(total);
  if constexpr (part) {
    store_part(row.out + column, total, count);
  } else {
    store(row.out + column, total);
  }
}

void causal_conv(const CausalConvRow& row) {
  size_t column = 0;
  for (; column + kLanes <= row.columns; column += kLanes) conv_lanes<false>(row, column, kLanes);
  if (column < row.columns) conv_lanes<true>(row, column, row.columns - column);
}

}  // namespace
}  // namespace rocmforge
