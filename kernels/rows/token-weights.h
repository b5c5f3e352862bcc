// Weights of tokens: e^((logit − origin) ÷ temperature), to single precision even where the exponent is large, and as
// whole numbers, whose sums are the same in whatever order threads add them. With 2^-40 of the origin's weight as the
// unit, a vocabulary of 2^23 tokens fits into 64 bits and what rounding loses of 128k tokens is below 10^-7 of the sum.
#pragma once
#include "device/order.h"

constexpr float kWeightUnits = 1099511627776.0f;

/** log2(e) ÷ temperature: `low` is what single precision lacks of it. */
struct Scale {
  float high;
  float low;
};

DEVICE Scale plain_scale() { return {1.44269502f, 1.92596299e-8f}; }

DEVICE bool is_plain(const Scale& scale) { return scale.high == plain_scale().high && scale.low == plain_scale().low; }

/** e^(difference ÷ temperature) of a difference that is 0 or less; 0 below 2^-120. */
DEVICE float scaled_exponential(float difference, const Scale& scale) {
  const float power = difference * scale.high;
  const float rest = fma(difference, scale.low, fma(difference, scale.high, -power));
  const float base = exponential2(power);
  return power > -120.0f ? fma(base, rest * 0.693147181f, base) : 0.0f;
}

DEVICE u64 weight_units(float weight) { return u64(fma(weight, kWeightUnits, 0.5f)); }

DEVICE u64 token_weight(float logit, float origin, const Scale& scale) {
  return weight_units(scaled_exponential(logit - origin, scale));
}

/** The least sum that reaches a share of the total: at least 1, at most all of it. */
DEVICE u64 goal_reaching(double share, u64 total) {
  const double wanted = share * double(total);
  u64 goal = u64(wanted);
  if (double(goal) < wanted) goal++;
  if (goal < 1) goal = 1;
  return goal < total ? goal : total;
}

/** The least sum that exceeds a share of the total, at most all of it. */
DEVICE u64 goal_passing(double share, u64 total) {
  const u64 goal = u64(share * double(total)) + 1;
  return goal < total ? goal : total;
}

DEVICE u64 wave_from_long(u64 value, int lane) {
  return (u64(wave_exchange(u32(value >> 32), lane)) << 32) | wave_exchange(u32(value), lane);
}

/** The sum over this lane and those before it. */
DEVICE u64 wave_prefix(u64 value) {
#pragma unroll
  for (int distance = 1; distance < WAVE; distance *= 2) {
    const int source = lane_index() >= distance ? lane_index() - distance : lane_index();
    const u64 other = wave_from_long(value, source);
    if (lane_index() >= distance) value += other;
  }
  return value;
}

/** The sum over the threads before this one, and over all. `scratch` is shared memory, a number for each wave. */
template <int Threads>
DEVICE u64 block_prefix(u64 value, u64* scratch, u64& total) {
  const u64 through = wave_prefix(value);
  barrier();
  if (lane_index() == WAVE - 1) scratch[wave_index()] = through;
  barrier();
  u64 before = through - value;
  total = 0;
  for (int wave = 0; wave < Threads / WAVE; wave++) {
    if (wave < wave_index()) before += scratch[wave];
    total += scratch[wave];
  }
  return before;
}

/** The largest of all threads' keys. */
template <int Threads>
DEVICE u64 block_max_key(u64 key, u64* scratch) {
  key = wave_max_key(key);
  barrier();
  if (lane_index() == 0) scratch[wave_index()] = key;
  barrier();
  for (int wave = 0; wave < Threads / WAVE; wave++) key = max(key, scratch[wave]);
  return key;
}

/** In the order of lanes and waves. */
template <int Threads>
DEVICE double block_sum_double(double value, u64* scratch) {
#pragma unroll
  for (int mask = WAVE / 2; mask > 0; mask /= 2)
    value += __builtin_bit_cast(double, wave_xor_key(__builtin_bit_cast(u64, value), mask));
  barrier();
  if (lane_index() == 0) scratch[wave_index()] = __builtin_bit_cast(u64, value);
  barrier();
  double total = 0;
  for (int wave = 0; wave < Threads / WAVE; wave++) total += __builtin_bit_cast(double, scratch[wave]);
  return total;
}
