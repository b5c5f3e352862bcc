// e to the power of x and the functions made of it, a vector at a time, to about one unit in the last place of f32.
// Include after a simd/*-float.h. NaN stays NaN.

#pragma once

#include <cstddef>
#include <cstdint>

namespace rocmforge {
namespace {

/// e^x = 2^power × (1 + fraction), with |fraction| below 0.42.
struct ExpParts {
  F power;
  F fraction;
};

/// `x` lies between -105 and 89.
inline ExpParts exp_parts(F x) {
  // x = power × ln 2 + rest. The upper part of ln 2 is short enough that power × upper part is exact.
  const F power = round(mul(x, set(1.44269504f)));
  F rest = fma(power, set(-0.693359375f), x);
  rest = fma(power, set(2.12194440e-4f), rest);
  // (e^r - 1 - r) / r², fitted for the least relative error over |r| ≤ ln 2 / 2: 4e-9 in exact arithmetic.
  F curve = set(0.0013751279f);
  curve = fma(curve, rest, set(0.008368952f));
  curve = fma(curve, rest, set(0.04166954f));
  curve = fma(curve, rest, set(0.16666518f));
  curve = fma(curve, rest, set(0.49999988f));
  return {power, fma(mul(rest, rest), curve, rest)};
}

/// Results too small for f32 are 0, results too large are infinity.
inline F exp(F x) {
  // Past these limits the result is 0 or infinity anyway, and the power of two stays in range. The limit is the first
  // operand: NaN in the second one survives.
  x = min(set(89.0f), x);
  x = max(set(-105.0f), x);
  const ExpParts parts = exp_parts(x);
  return times_power_of_two(add(parts.fraction, set(1.0f)), parts.power);
}

/// tanh(x) = (e^2x - 1) / (e^2x + 1), with e^2x - 1 computed without cancellation near 0.
inline F tanh(F x) {
  // tanh(10) is 1 in f32.
  F twice = min(set(20.0f), add(x, x));
  twice = max(set(-20.0f), twice);
  const ExpParts parts = exp_parts(twice);
  const F scale = times_power_of_two(set(1.0f), parts.power);
  const F minus_one = fma(parts.fraction, scale, sub(scale, set(1.0f)));
  return div(minus_one, add(minus_one, set(2.0f)));
}

/// Logit soft-cap: cap × tanh(x / cap).
inline F soft_capped(F x, F cap) { return mul(cap, tanh(div(x, cap))); }

/// The same for one number, to the same bits.
inline float exp_one(float x) {
  float lanes[kLanes];
  store(lanes, exp(set(x)));
  return lanes[0];
}

}  // namespace
}  // namespace rocmforge
