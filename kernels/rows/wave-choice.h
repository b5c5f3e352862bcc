// The choice of experts for a row of router logits by one wave: what rows/expert-choice.h computes with a block, to the same
// bits, for routers without groups that choose no more experts than a wave has lanes. The best expert is looked for USED
// times, which takes a small part of the comparisons of all experts with all.
// Sums of gated logits run as in a block of 128 threads: over the experts of a thread, its wave, then over the waves.
#pragma once
#include "rows/expert-choice.h"

static_assert(GROUPS == 1 && USED <= WAVE, "a wave chooses among all experts, and has a lane for each chosen one");
/** Waves of the block that this wave stands for. */
constexpr int kChoiceWaves = kChoiceThreads / WAVE;

/** An expert of this lane. */
DEVICE int expert_of_lane(int held, int wave) { return held * kChoiceThreads + wave * WAVE + lane_index(); }

/** The gated logits of this lane's experts, as gate_logits leaves them. */
DEVICE void gate_in_wave(float (&values)[kChoiceHeld][kChoiceWaves]) {
#if GATING == 0
  float most = negative_infinity();
#pragma unroll
  for (int i = 0; i < kChoiceHeld; i++) {
#pragma unroll
    for (int wave = 0; wave < kChoiceWaves; wave++) most = max(most, values[i][wave]);
  }
  most = wave_max(most);
  float total = 0;
#pragma unroll
  for (int wave = 0; wave < kChoiceWaves; wave++) {
    float sum = 0;
#pragma unroll
    for (int i = 0; i < kChoiceHeld; i++) {
      values[i][wave] = exponential(values[i][wave] - most);
      sum += values[i][wave];
    }
    total += wave_sum(sum);
  }
#endif
#pragma unroll
  for (int i = 0; i < kChoiceHeld; i++) {
#pragma unroll
    for (int wave = 0; wave < kChoiceWaves; wave++) {
      float& value = values[i][wave];
#if GATING == 0
      value = value / total;
#elif GATING == 1
      value = sigmoid(value);
#elif GATING == 3
      value = root_of_softplus(value);
#endif
    }
  }
}

/** What a lane knows of the expert of its rank. */
struct ChosenExpert {
  int expert;
  float weight;
};

/** Lanes past the last rank get nothing of use. `gated`: shared memory of this wave, a float for each expert. */
DEVICE ChosenExpert choose_in_wave(const float* logits, const float* bias, float* gated) {
  float values[kChoiceHeld][kChoiceWaves];
  u64 keys[kChoiceHeld][kChoiceWaves];
#pragma unroll
  for (int i = 0; i < kChoiceHeld; i++) {
#pragma unroll
    for (int wave = 0; wave < kChoiceWaves; wave++) {
      const int expert = expert_of_lane(i, wave);
      values[i][wave] = expert < EXPERTS ? logits[expert] : negative_infinity();
      keys[i][wave] = expert < EXPERTS ? key_of(order_of(values[i][wave]), expert) : 0;
    }
  }
  gate_in_wave(values);
#pragma unroll
  for (int i = 0; i < kChoiceHeld; i++) {
#pragma unroll
    for (int wave = 0; wave < kChoiceWaves; wave++) {
      const int expert = expert_of_lane(i, wave);
      if (expert >= EXPERTS) continue;
      gated[expert] = values[i][wave];
      if (!kScoresAreLogits)
        keys[i][wave] = key_of(order_of(SELECTION_BIAS ? values[i][wave] + bias[expert] : values[i][wave]), expert);
    }
  }
  wave_barrier();
  int expert = 0;
  for (int rank = 0; rank < USED; rank++) {
    u64 best = 0;
#pragma unroll
    for (int i = 0; i < kChoiceHeld; i++) {
#pragma unroll
      for (int wave = 0; wave < kChoiceWaves; wave++) best = max(best, keys[i][wave]);
    }
    best = wave_max_key(best);
    if (lane_index() == rank) expert = column_of_key(best);
#pragma unroll
    for (int i = 0; i < kChoiceHeld; i++) {
#pragma unroll
      for (int wave = 0; wave < kChoiceWaves; wave++) keys[i][wave] = keys[i][wave] == best ? 0 : keys[i][wave];
    }
  }
  const float own = gated[expert];
  const float weight = weight_of_chosen(own, [&](int rank) INLINE_LAMBDA { return wave_from(own, rank); });
  return {expert, weight};
}
