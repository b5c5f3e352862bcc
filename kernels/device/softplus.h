// ln(1 + x) and what is made of it, without a loss near 0.
#pragma once
#include "device/portable.h"

/** ln(1 + x) of 0 ≤ x ≤ 1, as 2 artanh(x ÷ (2 + x)). */
DEVICE float log_one_plus(float value) {
  const float ratio = value / (2.0f + value), square = ratio * ratio;
  float series = 1.0f / 15.0f;
  series = fma(series, square, 1.0f / 13.0f);
  series = fma(series, square, 1.0f / 11.0f);
  series = fma(series, square, 1.0f / 9.0f);
  series = fma(series, square, 1.0f / 7.0f);
  series = fma(series, square, 1.0f / 5.0f);
  series = fma(series, square, 1.0f / 3.0f);
  return 2.0f * fma(series * square, ratio, ratio);
}

/** ln(1 + eˣ), without overflow. */
DEVICE float softplus(float value) {
  return (value > 0.0f ? value : 0.0f) + log_one_plus(exponential(-magnitude(value)));
}
