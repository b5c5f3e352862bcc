// One unit of the tokens of a panel, quantized: what a vector layer interleaves into the panel's chunk.

#pragma once

#include <cstring>

#include "activations.h"

namespace rocmforge {
namespace {

template <size_t kTokens>
struct alignas(64) PanelUnit {
  int8_t levels[kTokens][kUnit];
  float scales[kTokens];
};

inline int32_t sum_of_half(const int8_t* levels) {
  int32_t sum = 0;
  for (size_t index = 0; index < kUnit / 2; index++) sum += levels[index];
  return sum;
}

/// How layers without a faster way interleave a unit.
template <size_t kTokens>
inline void interleave_tokens(const PanelUnit<kTokens>& from, size_t unit, PanelChunk<kTokens>& to) {
  for (size_t token = 0; token < kTokens; token++) {
    const int8_t* const levels = from.levels[token];
    const float scale = from.scales[token];
    const int32_t sums[2] = {sum_of_half(levels), sum_of_half(levels + kUnit / 2)};
    for (size_t quad = 0; quad < kUnit / 4; quad++) memcpy(to.values[unit * 8 + quad][token], levels + quad * 4, 4);
    to.scales[unit][token] = scale;
    to.sums[unit][token] = scale * static_cast<float>(sums[0] + sums[1]);
    to.corrections[unit][token] = -128 * (sums[0] + sums[1]);
    for (size_t half = 0; half < 2; half++) {
      to.sums_16[2 * unit + half][token] = scale * static_cast<float>(sums[half]);
      to.corrections_16[2 * unit + half][token] = -128 * sums[half];
    }
  }
}

}  // namespace
}  // namespace rocmforge
