// The operations that work on one row by itself. Include after a simd/*-float.h and exponential.h.

#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernel-table.h"

namespace rocmforge {
namespace {

constexpr size_t kQuantizeBlock = 32;
constexpr float kQuantizeLimit = 127;

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
  const bool weighted = weight != nullptr;
  size_t column = 0;
  for (; column + kLanes <= width; column += kLanes) {
    const F normed = mul(load(input + column), inverse);
    store(out + column, weighted ? mul(normed, load(weight + column)) : normed);
  }
  const size_t rest = width - column;
  if (rest == 0) return;
  const F normed = mul(load_part(input + column, rest), inverse);
  store_part(out + column, weighted ? mul(normed, load_part(weight + column, rest)) : normed, rest);
}

/// Mean and variance in double precision, as sums of squares are.
void layer_norm(const float* input, const float* weight, const float* bias, size_t width, float epsilon, float* out) {
  double total = 0;
  for (size_t column = 0; column < width; column++) total += static_cast<double>(input[column]);
  const double mean = total / static_cast<double>(width);
  double squares = 0;
  for (size_t column = 0; column < width; column++) {
    const double distance = static_cast<double>(input[column]) - mean;
    squares += distance * distance;
  }
  const double inverse = 1 / ::sqrt(squares / static_cast<double>(width) + static_cast<double>(epsilon));
  for (size_t column = 0; column < width; column++) {
    const double normed = (static_cast<double>(input[column]) - mean) * inverse;
    const double added = bias == nullptr ? 0 : static_cast<double>(bias[column]);
    out[column] = static_cast<float>(normed * static_cast<double>(weight[column]) + added);
  }
}

void quantize_activations(const float* input, size_t width, float* out) {
  // Adding and taking away 1.5 × 2^52 rounds a small double to the nearest whole number, ties to even. Doubles, because
  // a quotient rounded to f32 can land on a tie that it is only near.
  constexpr double kWhole = 0x1.8p52;
  for (size_t start = 0; start < width; start += kQuantizeBlock) {
    const size_t count = width - start < kQuantizeBlock ? width - start : kQuantizeBlock;
    float largest = 0;
    bool is_finite = true;
    for (size_t k = 0; k < count; k++) {
      const float magnitude = ::fabsf(input[start + k]);
      // False for NaN as well.
      is_finite &= magnitude <= 3.402823466e38f;
      largest = magnitude > largest ? magnitude : largest;
    }
    const float scale = largest / kQuantizeLimit;
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

inline void rotate_pair(F left, F right, F cosine, F sine, F& rotated_left, F& rotated_right) {
  rotated_left = sub(mul(left, cosine), mul(right, sine));
  rotated_right = fma(left, sine, mul(right, cosine));
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
    rotate_pair(load(lefts), load(rights), load_part(cosines + pair, count), load_part(sines + pair, count), left,
                right);
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
    rotate_pair(load(input + pair), load(input + pairs + pair), load(cosines + pair), load(sines + pair), left, right);
    store(out + pair, left);
    store(out + pairs + pair, right);
  }
  const size_t rest = pairs - pair;
  if (rest == 0) return;
  rotate_pair(load_part(input + pair, rest), load_part(input + pairs + pair, rest), load_part(cosines + pair, rest),
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

inline F sigmoid(F x) { return div(set(1), add(set(1), exp(sub(zero(), x)))); }
inline F silu(F x) { return div(x, add(set(1), exp(sub(zero(), x)))); }

/// The tanh approximation ½x(1 + tanh(u)) with u = √(2/π)(x + 0.044715x³), as x / (1 + e^-2u): the same number.
inline F gelu(F x) {
  // -2√(2/π) and -2√(2/π) × 0.044715
  const F slope = fma(mul(x, x), set(-0.0713548162726f), set(-1.59576912161f));
  return div(x, add(set(1), exp(mul(x, slope))));
}

/// The gate is the second operand: NaN survives.
inline F relu(F x) { return max(zero(), x); }
inline F identity(F x) { return x; }

template <F (*activate)(F)>
inline F gated(F gate, F up) {
  return mul(activate(gate), up);
}

/// That of gpt-oss: g·σ(1.702g)·(u + 1) with g = min(gate, 7) and u between -7 and 7. The limit is the first operand: NaN
/// in the second one survives.
inline F gated_oai(F gate, F up) {
  const F limit = set(7);
  const F clamped = min(limit, gate);
  const F shifted = add(max(set(-7), min(limit, up)), set(1));
  return mul(div(clamped, add(set(1), exp(mul(clamped, set(-1.702f))))), shifted);
}

template <F (*unit)(F, F)>
inline void glu_row(const float* gate, bool one_gate, const float* up, size_t width, float* out) {
  const F same = set(*gate);
  size_t column = 0;
  for (; column + kLanes <= width; column += kLanes)
    store(out + column, unit(one_gate ? same : load(gate + column), load(up + column)));
  const size_t rest = width - column;
  if (rest == 0) return;
  const F last = one_gate ? same : load_part(gate + column, rest);
  store_part(out + column, unit(last, load_part(up + column, rest)), rest);
}

void glu(Activation activation, const float* gate, bool one_gate, const float* up, size_t width, float* out) {
  switch (activation) {
    case Activation::silu: return glu_row<gated<silu>>(gate, one_gate, up, width, out);
    case Activation::gelu: return glu_row<gated<gelu>>(gate, one_gate, up, width, out);
    case Activation::sigmoid: return glu_row<gated<sigmoid>>(gate, one_gate, up, width, out);
    case Activation::swiglu_oai: return glu_row<gated_oai>(gate, one_gate, up, width, out);
    case Activation::relu: return glu_row<gated<relu>>(gate, one_gate, up, width, out);
    case Activation::identity: return glu_row<gated<identity>>(gate, one_gate, up, width, out);
  }
}

void add(const float* left, const float* right, size_t width, float* out) {
  size_t column = 0;
  for (; column + kLanes <= width; column += kLanes)
    store(out + column, add(load(left + column), load(right + column)));
  const size_t rest = width - column;
  if (rest != 0) store_part(out + column, add(load_part(left + column, rest), load_part(right + column, rest)), rest);
}

template <bool capped>
inline F epilogue_lanes(F value, const Epilogue& epilogue, F bias, F residual) {
  value = mul(value, set(epilogue.scale));
  if (epilogue.bias != nullptr) value = add(value, bias);
  if constexpr (capped) value = soft_capped(value, set(epilogue.soft_cap));
  return epilogue.residual == nullptr ? value : add(value, residual);
}

template <bool capped>
inline void epilogue_columns(float* out, size_t width, const Epilogue epilogue) {
  const auto from = [](const float* row, size_t column) { return row == nullptr ? zero() : load(row + column); };
  const auto part = [](const float* row, size_t column, size_t count) {
    return row == nullptr ? zero() : load_part(row + column, count);
  };
  size_t column = 0;
  for (; column + kLanes <= width; column += kLanes) {
    store(out + column, epilogue_lanes<capped>(load(out + column), epilogue, from(epilogue.bias, column),
                                               from(epilogue.residual, column)));
  }
  const size_t rest = width - column;
  if (rest == 0) return;
  store_part(out + column,
             epilogue_lanes<capped>(load_part(out + column, rest), epilogue, part(epilogue.bias, column, rest),
                                    part(epilogue.residual, column, rest)),
             rest);
}

void epilogue(float* out, size_t width, const Epilogue& epilogue) {
  if (epilogue.soft_cap == 0) return epilogue_columns<false>(out, width, epilogue);
  epilogue_columns<true>(out, width, epilogue);
}

void scale(const float* input, size_t width, float factor, float* out) {
  const F factors = set(factor);
  size_t column = 0;
  for (; column + kLanes <= width; column += kLanes) store(out + column, mul(load(input + column), factors));
  const size_t rest = width - column;
  if (rest != 0) store_part(out + column, mul(load_part(input + column, rest), factors), rest);
}

void sum_runs(const float* input, size_t count, size_t width, float* out) {
  size_t column = 0;
  for (; column + kLanes <= width; column += kLanes) {
    F total = load(input + column);
    for (size_t run = 1; run < count; run++) total = add(total, load(input + run * width + column));
    store(out + column, total);
  }
  for (; column < width; column++) {
    float total = input[column];
    for (size_t run = 1; run < count; run++) total += input[run * width + column];
    out[column] = total;
  }
}

void convert(TensorType type, const uint8_t* input, size_t count, float* out) {
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
