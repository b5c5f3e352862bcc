// What the tests and benchmarks of the row kernels share: the instruction sets to try, a check, and numbers.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <vector>

#include "../kernels/kernel-table.h"
#include "check.h"

namespace rocmforge {

const RowKernels& row_kernels_portable();
#if defined(__x86_64__)
const RowKernels& row_kernels_avx512();
const RowKernels& row_kernels_avx2();
#elif defined(__aarch64__)
const RowKernels& row_kernels_neon();
#endif

struct RowIsa {
  const char* name;
  const RowKernels* kernels;
};

inline std::vector<RowIsa> row_isas() {
  std::vector<RowIsa> isas;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl")) {
    isas.push_back({"avx512", &row_kernels_avx512()});
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c")) {
    isas.push_back({"avx2", &row_kernels_avx2()});
  }
#elif defined(__aarch64__)
  isas.push_back({"neon", &row_kernels_neon()});
#endif
  isas.push_back({"portable", &row_kernels_portable()});
  return isas;
}

/// A half by its bits.
inline float half_value(uint32_t bits) {
  const int exponent = static_cast<int>(bits >> 10) & 31;
  const float mantissa = static_cast<float>(bits & 1023);
  const float sign = bits & 0x8000 ? -1.0f : 1.0f;
  if (exponent == 31) return mantissa == 0 ? sign * HUGE_VALF : std::numeric_limits<float>::quiet_NaN();
  // Powers of two are exact; std::ldexp took a tenth of the time of the tests.
  if (exponent == 0) return sign * mantissa * 0x1p-24f;
  return sign * (1024 + mantissa) * static_cast<float>(1u << exponent) * 0x1p-25f;
}

/// What a finite float becomes as a half: the nearest one, the even one of two.
inline float through_half(float value) {
  const double magnitude = std::fabs(static_cast<double>(value));
  if (magnitude >= 65520) return std::copysign(HUGE_VALF, value);
  uint32_t low = 0, high = 0x7bff;
  while (low < high) {
    const uint32_t middle = (low + high + 1) / 2;
    if (half_value(middle) <= magnitude) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  // Past the largest half, the next step would be 65536.
  const double above = low == 0x7bff ? 65536 : half_value(low + 1);
  const double middle = (half_value(low) + above) / 2;
  const bool up = magnitude > middle || (magnitude == middle && (low & 1) == 1);
  return static_cast<float>(std::copysign(up ? above : half_value(low), value));
}

/// Seeded, and the same on every machine.
class Numbers {
 public:
  explicit Numbers(uint64_t seed) : state_(seed * 2 + 1) {}

  uint32_t bits() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<uint32_t>(state_ >> 33);
  }
  /// Evenly from -range to range.
  float within(float range) { return (static_cast<float>(bits()) / 1073741824.0f - 1.0f) * range; }
  std::vector<float> row(size_t count, float range) {
    std::vector<float> values(count);
    for (float& value : values) value = within(range);
    return values;
  }

 private:
  uint64_t state_;
};

}  // namespace rocmforge
