// Functions of one number that matmuls, gated units and attention apply to their results. Models without them compile
// to code without them: ACTIVATION is 0 (SiLU) and SOFT_CAP is 0 (none) unless they are defined.
#pragma once
#include "device/portable.h"

/**
 * Activation of gated linear units: 0 SiLU, 1 GELU (the tanh approximation), 2 sigmoid, 3 gpt-oss's clamped SwiGLU, 4 ReLU,
 * 5 none, which leaves gate × up. */
#ifndef ACTIVATION
#define ACTIVATION 0
#endif
/** Every result x becomes SOFT_CAP × tanh(x ÷ SOFT_CAP); 0: results stay as they are. */
#ifndef SOFT_CAP
#define SOFT_CAP 0
#endif

constexpr float kSoftCap = float(SOFT_CAP);

/** tanh, a series near zero because 1 − 2 ÷ (e^2x + 1) would cancel there. */
DEVICE float hyperbolic_tangent(float value) {
  const float size = magnitude(value), square = value * value;
  float series = fma(square, -17.0f / 315.0f, 2.0f / 15.0f);
  series = fma(square, series, -1.0f / 3.0f);
  const float near_zero = fma(value * square, series, value);
  const float far = 1.0f - 2.0f / (exponential(2.0f * size) + 1.0f);
  return size < 0.2f ? near_zero : value < 0.0f ? -far : far;
}

/** cap × tanh(value ÷ cap). */
DEVICE float soft_capped(float value, float cap) { return cap * hyperbolic_tangent(value * (1.0f / cap)); }

/** With the soft-cap that the file is compiled with, if any. */
DEVICE float soft_capped(float value) { return kSoftCap > 0.0f ? soft_capped(value, kSoftCap) : value; }

/** ½x(1 + tanh(√(2/π)(x + 0.044715x³))), written as x × sigmoid(2√(2/π)(x + 0.044715x³)), which is the same. */
DEVICE float gelu(float value) {
  const float cubic = fma(value * value * value, 0.044715f, value);
  return value * sigmoid(cubic * 1.59576912160573071176f);
}

/** g·σ(1.702g)·(u + 1) with g = min(gate, 7) and u = up within ±7; a NaN stays one. */
DEVICE float clamped_swiglu(float gate, float up) {
  const float g = gate > 7.0f ? 7.0f : gate;
  const float u = up > 7.0f ? 7.0f : up < -7.0f ? -7.0f : up;
  return g * sigmoid(1.702f * g) * (u + 1.0f);
}

/** Gated linear unit: activation(gate) × up. */
DEVICE float gated_unit(float gate, float up) {
  if (ACTIVATION == 1) return gelu(gate) * up;
  if (ACTIVATION == 2) return sigmoid(gate) * up;
  if (ACTIVATION == 3) return clamped_swiglu(gate, up);
  // The comparison keeps a NaN.
  if (ACTIVATION == 4) return (gate < 0.0f ? 0.0f : gate) * up;
  if (ACTIVATION == 5) return gate * up;
  return gate * sigmoid(gate) * up;
}
