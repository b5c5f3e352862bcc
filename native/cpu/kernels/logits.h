// Passes over one row of logits. Include after a simd/*-float.h and exponential.h.

#pragma once

#include <cstddef>
#include <cstdint>

namespace rocmforge {
namespace {

size_t find_not_finite(const float* values, size_t count) {
  size_t index = 0;
  for (; index + kLanes <= count; index += kLanes) {
    if (!all(finite(load(values + index)))) break;
  }
  // Either a vector that has one, or the rest of the row.
  for (; index < count; index++) {
    if (!(values[index] - values[index] == 0)) return index;
  }
  return count;
}

float max(const float* values, size_t count) {
  const F nothing = set(-__builtin_inff());
  F best = nothing, other = nothing;
  size_t index = 0;
  for (; index + 2 * kLanes <= count; index += 2 * kLanes) {
    best = max(load(values + index), best);
    other = max(load(values + index + kLanes), other);
  }
  for (; index < count; index += kLanes) {
    const size_t rest = count - index < kLanes ? count - index : kLanes;
    best = max(select(first_lanes(rest), load_part(values + index, rest), nothing), best);
  }
  return reduce_max(max(best, other));
}

double sum_exp(const float* values, size_t count, float max_value) {
  // Sums of this many terms of at most 1 in f32 keep their relative error near 1e-7.
  constexpr size_t run = 8 * kLanes;
  const F shift = set(max_value);
  double total = 0;
  for (size_t start = 0; start < count; start += run) {
    const size_t end = count - start < run ? count : start + run;
    F partial = zero();
    size_t index = start;
    for (; index + kLanes <= end; index += kLanes) partial = add(partial, exp(sub(load(values + index), shift)));
    const size_t rest = end - index;
    if (rest != 0) {
      const F tail = exp(sub(load_part(values + index, rest), shift));
      partial = add(partial, select(first_lanes(rest), tail, zero()));
    }
    total += static_cast<double>(sum(partial));
  }
  return total;
}

size_t find_above(const float* values, size_t count, size_t from, float threshold) {
  const F limit = set(threshold);
  size_t index = from;
  for (; index + kLanes <= count; index += kLanes) {
    const M found = greater(load(values + index), limit);
    if (any(found)) return index + first(found);
  }
  for (; index < count; index++) {
    if (values[index] > threshold) return index;
  }
  return count;
}

}  // namespace
}  // namespace rocmforge
