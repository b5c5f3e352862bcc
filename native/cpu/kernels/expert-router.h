// Probabilities of experts from the logits of a router. Include after a simd/*-float.h and exponential.h.

#pragma once

#include <cmath>
#include <cstddef>
#include <cstring>

#include "kernel-table.h"
#include "row-kernels.h"

namespace rocmforge {
namespace {

inline void expert_softmax(const float* logits, size_t count, float* out) {
  F best = set(-__builtin_inff());
  size_t index = 0;
  for (; index + kLanes <= count; index += kLanes) best = max(load(logits + index), best);
  float highest = reduce_max(best);
  for (size_t rest = index; rest < count; rest++) highest = logits[rest] > highest ? logits[rest] : highest;
  const F shift = set(highest);
  F total = zero();
  for (index = 0; index + kLanes <= count; index += kLanes) {
    const F power = exp(sub(load(logits + index), shift));
    store(out + index, power);
    total = add(total, power);
  }
  float sum_of_all = sum(total);
  for (; index < count; index++) {
    out[index] = exp_one(logits[index] - highest);
    sum_of_all += out[index];
  }
  const F divisor = set(sum_of_all);
  for (index = 0; index + kLanes <= count; index += kLanes) store(out + index, div(load(out + index), divisor));
  for (; index < count; index++) out[index] /= sum_of_all;
}

inline void expert_sigmoid(const float* logits, size_t count, float* out) {
  size_t index = 0;
  for (; index + kLanes <= count; index += kLanes) store(out + index, sigmoid(load(logits + index)));
  const size_t rest = count - index;
  if (rest != 0) store_part(out + index, sigmoid(load_part(logits + index, rest)), rest);
}

/// √ln(1 + eˣ), without overflow for large x.
inline void expert_sqrt_softplus(const float* logits, size_t count, float* out) {
  for (size_t index = 0; index < count; index++) {
    const double logit = static_cast<double>(logits[index]);
    out[index] = static_cast<float>(::sqrt((logit > 0 ? logit : 0) + ::log1p(::exp(-::fabs(logit)))));
  }
}

void expert_probabilities(ExpertGating gating, const float* logits, size_t count, float* out) {
  switch (gating) {
    case ExpertGating::softmax: return expert_softmax(logits, count, out);
    case ExpertGating::sigmoid: return expert_sigmoid(logits, count, out);
    case ExpertGating::sqrt_softplus: return expert_sqrt_softplus(logits, count, out);
    case ExpertGating::softmax_selected:
    case ExpertGating::sigmoid_selected: memcpy(out, logits, count * sizeof(float)); return;
  }
}

}  // namespace
}  // namespace rocmforge
