// The operations that work on one row by itself. Include after a simd/*-float.h and exponential.h.

#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernel-table.h"

namespace rocmforge {
namespace {

constexpr size_t kRoundBlock = 32;
constexpr float kRoundLimit = 127;

/// In double precision: nothing is lost over wide rows, and squares of large floats do not overflow.
inline double sum_of_squares(const float* input, size_t width) {
  constexpr size_t chains = 16;
  double sums[chains] = {};
  size_t column = 0;
  for (; column + chains <= width; column += chains) {
    for (size_t chain = 0; chain < chains; chain++) {
      const double value = input[column + chain];
      sums[chain] += value * value;
    }
  }
  for (size_t chain = 0; column < width; column++, chain++) {
    const double value = input[column];
    sums[chain] += value * value;
  }
  double total = 0;
  for (size_t chain = 0; chain < chains; chain++) total += sums[chain];
  return total;
}

void rms_norm(const float* input, const float* weight, size_t width, float epsilon, float* out) {
  const double mean = sum_of_squares(input, width) / static_cast<double>(width);
  const F inverse = set(static_cast<float>(1 / ::sqrt(mean + static_cast<double>(epsilon))));
  size_t column = 0;
  for (; column + kLanes <= width; column += kLanes) {
    store(out + column, mul(mul(load(input + column), inverse), load(weight + column)));
  }
  const size_t rest = width - column;
  if (rest != 0) {
    store_part(out + column, mul(mul(load_part(input + column, rest), inverse), load_part(weight + column, rest)),
               rest);
  }
}

void round_activations(const float* input, size_t width, float* out) {
  // Adding and taking away 1.5 × 2^52 rounds a small double to the nearest whole number, ties to even. Doubles, because
  // a quotient rounded to f32 can land on a tie that it is only near.
  constexpr double kWhole = 0x1.8p52;
  for (size_t start = 0; start < width; start += kRoundBlock) {
    const size_t count = width - start < kRoundBlock ? width - start : kRoundBlock;
    float largest = 0;
    bool is_finite = true;
    for (size_t k = 0; k < count; k++) {
      const float magnitude = ::fabsf(input[start + k]);
      // False for NaN as well.
      is_finite &= magnitude <= 3.402823466e38f;
      largest = magnitude > largest ? magnitude : largest;
    }
    const float scale = largest / kRoundLimit;
    if (!is_finite || scale == 0) {
      const float fill = is_finite ? 0 : __builtin_nanf("");
      for (size_t k = 0; k < count; k++) out[start + k] = fill;
      continue;
    }
    for (size_t k = 0; k < count; k++) {
      const double steps = static_cast<double>(input[start + k]) / static_cast<double>(scale);
      out[start + k] = static_cast<float>((steps + kWhole) - kWhole) * scale;
    }
  }
}

inline void turn(F left, F right, F cosine, F sine, F& turned_left, F& turned_right) {
  turned_left = sub(mul(left, cosine), mul(right, sine));
  turned_right = fma(left, sine, mul(right, cosine));
}

/// (2i, 2i + 1), through small buffers: the output may be the input.
inline void rope_adjacent(const float* input, const float* cosines, const float* sines, size_t pairs, float* out) {
  for (size_t pair = 0; pair < pairs; pair += kLanes) {
    const size_t count = pairs - pair < kLanes ? pairs - pair : kLanes;
    float lefts[kLanes] = {}, rights[kLanes] = {};
    for (size_t k = 0; k < count; k++) {
      lefts[k] = input[2 * (pair + k)];
      rights[k] = input[2 * (pair + k) + 1];
    }
    F left, right;
    turn(load(lefts), load(rights), load_part(cosines + pair, count), load_part(sines + pair, count), left, right);
    store(lefts, left);
    store(rights, right);
    for (size_t k = 0; k < count; k++) {
      out[2 * (pair + k)] = lefts[k];
      out[2 * (pair + k) + 1] = rights[k];
    }
  }
}

inline void rope_halves(const float* input, const float* cosines, const float* sines, size_t pairs, float* out) {
  F left, right;
  size_t pair = 0;
  for (; pair + kLanes <= pairs; pair += kLanes) {
    turn(load(input + pair), load(input + pairs + pair), load(cosines + pair), load(sines + pair), left, right);
    store(out + pair, left);
    store(out + pairs + pair, right);
  }
  const size_t rest = pairs - pair;
  if (rest == 0) return;
  turn(load_part(input + pair, rest), load_part(input + pairs + pair, rest), load_part(cosines + pair, rest),
       load_part(sines + pair, rest), left, right);
  store_part(out + pair, left, rest);
  store_part(out + pairs + pair, right, rest);
}

void rope(const float* input, const float* cosines, const float* sines, size_t pairs, size_t width, bool adjacent,
          float* out) {
  if (adjacent) {
    rope_adjacent(input, cosines, sines, pairs, out);
  } else {
    rope_halves(input, cosines, sines, pairs, out);
  }
  if (out != input && width > 2 * pairs)
    memcpy(out + 2 * pairs, input + 2 * pairs, (width - 2 * pairs) * sizeof(float));
}

inline F gated(F gate, F up) { return mul(div(gate, add(set(1), exp(sub(zero(), gate)))), up); }

void swiglu(const float* gate, const float* up, size_t width, float* out) {
  size_t column = 0;
  for (; column + kLanes <= width; column += kLanes) store(out + column, gated(load(gate + column), load(up + column)));
  const size_t rest = width - column;
  if (rest != 0) store_part(out + column, gated(load_part(gate + column, rest), load_part(up + column, rest)), rest);
}

void add_rows(const float* left, const float* right, size_t width, float* out) {
  size_t column = 0;
  for (; column + kLanes <= width; column += kLanes)
    store(out + column, add(load(left + column), load(right + column)));
  const size_t rest = width - column;
  if (rest != 0) store_part(out + column, add(load_part(left + column, rest), load_part(right + column, rest)), rest);
}

void finish_row(float* out, size_t width, float scale, const float* bias, const float* residual) {
  const F factor = set(scale);
  size_t column = 0;
  for (; column + kLanes <= width; column += kLanes) {
    F value = mul(load(out + column), factor);
    if (bias != nullptr) value = add(value, load(bias + column));
    if (residual != nullptr) value = add(value, load(residual + column));
    store(out + column, value);
  }
  const size_t rest = width - column;
  if (rest == 0) return;
  F value = mul(load_part(out + column, rest), factor);
  if (bias != nullptr) value = add(value, load_part(bias + column, rest));
  if (residual != nullptr) value = add(value, load_part(residual + column, rest));
  store_part(out + column, value, rest);
}

void scale_row(const float* input, size_t width, float factor, float* out) {
  for (size_t column = 0; column < width; column++) out[column] = input[column] * factor;
}

void convert_row(TensorType type, const uint8_t* input, size_t count, float* out) {
  if (type == TensorType::f32) memcpy(out, input, count * sizeof(float));
  if (type != TensorType::f16 && type != TensorType::bf16) return;
  const bool half = type == TensorType::f16;
  size_t index = 0;
  for (; index + kLanes <= count; index += kLanes) {
    const uint8_t* from = input + index * sizeof(uint16_t);
    store(out + index, half ? load_f16(from) : load_bf16(from));
  }
  const size_t rest = count - index;
  if (rest == 0) return;
  uint16_t padded[kLanes] = {};
  memcpy(padded, input + index * sizeof(uint16_t), rest * sizeof(uint16_t));
  store_part(out + index, half ? load_f16(padded) : load_bf16(padded), rest);
}

}  // namespace
}  // namespace rocmforge
