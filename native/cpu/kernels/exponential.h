// e to the power of x, a vector at a time, to about one unit in the last place of f32. Include after a simd/*-float.h.
// Results too small for f32 are 0, results too large are infinity, and NaN stays NaN.

#pragma once

#include <cstddef>
#include <cstdint>

namespace rocmforge {
namespace {

inline F exp(F x) {
  // Past these the result is 0 or infinity anyway, and the power of two stays in range. The limit comes first: NaN in
  // the second operand survives.
  x = min(set(89.0f), x);
  x = max(set(-105.0f), x);
  // x = power × ln 2 + rest. The upper part of ln 2 has so few bits that its product with a small whole number is exact.
  const F power = round(mul(x, set(1.44269504f)));
  F rest = fma(power, set(-0.693359375f), x);
  rest = fma(power, set(2.12194440e-4f), rest);
  // (e^r - 1 - r) / r², fitted for the least relative error over |r| ≤ ln 2 / 2: 4e-9 in exact arithmetic.
  F curve = set(0.0013751279f);
  curve = fma(curve, rest, set(0.008368952f));
  curve = fma(curve, rest, set(0.04166954f));
  curve = fma(curve, rest, set(0.16666518f));
  curve = fma(curve, rest, set(0.49999988f));
  const F fraction = add(fma(mul(rest, rest), curve, rest), set(1.0f));
  return times_power_of_two(fraction, power);
}

/// The same for one number, to the same bits.
inline float exp_one(float x) {
  float lanes[kLanes];
  store(lanes, exp(set(x)));
  return lanes[0];
}

}  // namespace
}  // namespace rocmforge
