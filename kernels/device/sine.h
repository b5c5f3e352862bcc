// Cosine and sine of rope angles, the same to the bit on every device, to about 1e-7 for angles of up to 2^22 radians.
// π/2 is taken away in three parts (Cody and Waite) by fused multiply-adds; the first difference is exact, because both
// terms are multiples of 2^-23 and it is below 1. What is left is within π/4, where Taylor's series ends soon.
#pragma once

struct Rotation {
  float cosine;
  float sine;
};

/** Of angle + rest, where `rest` is what the angle lost when it was rounded to f32. */
DEVICE Rotation rotation_of(float angle, float rest) {
  const float quarters = nearest(angle * 0.636619772367581343f);
  float left = fma(quarters, -1.57079637050628662109375f, angle);
  left = fma(quarters, 4.371138828673792886e-8f, left);
  left = fma(quarters, 1.7151245100058819e-15f, left) + rest;
  const float square = left * left;

  float sine = fma(square, 1.0f / 362880.0f, -1.0f / 5040.0f);
  sine = fma(square, sine, 1.0f / 120.0f);
  sine = fma(square, sine, -1.0f / 6.0f);
  sine = fma(square * left, sine, left);
  float cosine = fma(square, -1.0f / 3628800.0f, 1.0f / 40320.0f);
  cosine = fma(square, cosine, -1.0f / 720.0f);
  cosine = fma(square, cosine, 1.0f / 24.0f);
  cosine = fma(square, cosine, -0.5f);
  cosine = fma(square, cosine, 1.0f);

  // An angle that is not finite leaves NaN in both, whatever the quarter.
  const int quarter = magnitude(quarters) < 1.0e9f ? int(quarters) & 3 : 0;
  const float rotated_cosine = quarter % 2 == 0 ? cosine : sine;
  const float rotated_sine = quarter % 2 == 0 ? sine : cosine;
  return {quarter == 1 || quarter == 2 ? -rotated_cosine : rotated_cosine, quarter >= 2 ? -rotated_sine : rotated_sine};
}
