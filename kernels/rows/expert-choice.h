// The choice of experts for one row of router logits, by a whole block in shared memory. Every expert counts the experts
// that come before it: those with a larger score, and of equal scores the ones with a smaller number, so the ranks are a
// permutation whatever the logits are, and the experts of the first USED ranks are chosen.
//   logits ─ GATING ─ probabilities + bias = scores ─ the best groups ─ ranks ─ weights of the chosen experts
// EXPERTS, USED (at most one for each of the threads that choose). GATING: 0 softmax, 1 sigmoid, 2 softmax over the chosen
// experts alone, 3 √softplus, 4 sigmoid of the chosen experts' logits, which choose. SELECTION_BIAS 1: scores are probabilities + bias, F32. GROUPS groups of neighbours, of which
// the best GROUPS_USED are looked at: a group's score is the sum of its two best. RENORMALIZE 1: weights are divided by
// their sum. ROUTING_SCALE: a factor of the weights.
// Results do not depend on the number of threads of the block: kernels that choose anew choose the same.
#pragma once
#include "device/order.h"
#include "device/softplus.h"

#ifndef SELECTION_BIAS
#define SELECTION_BIAS 0
#endif
#ifndef GROUPS
#define GROUPS 1
#endif
#ifndef GROUPS_USED
#define GROUPS_USED GROUPS
#endif
#ifndef RENORMALIZE
#define RENORMALIZE 0
#endif
#ifndef ROUTING_SCALE
#define ROUTING_SCALE 1
#endif

constexpr int kChoiceThreads = 128;
/** Experts of one thread. */
constexpr int kChoiceHeld = (EXPERTS + kChoiceThreads - 1) / kChoiceThreads;
constexpr int kChoiceQuads = (EXPERTS + 3) / 4;
constexpr int kGroupExperts = EXPERTS / GROUPS;
/** Without a bias and groups the logits order the experts as the probabilities do, and lose nothing to rounding. */
constexpr bool kScoresAreLogits = !SELECTION_BIAS && GROUPS == 1;
/** The sum of weights is not taken below this, the smallest normal number of f16. */
constexpr float kSmallestWeightSum = 1.0f / 16384.0f;
static_assert(USED <= kChoiceThreads && USED <= EXPERTS, "a thread for each chosen expert");

/** In shared memory. */
struct ExpertChoice {
  int experts[USED];
  float weights[USED];
};

DEVICE float root_of_softplus(float logit) {
  const float value = softplus(logit);
  return value > 0.0f ? value * reciprocal_root(value) : value;
}

/** Those of threads past the ones that choose add nothing. */
template <int Threads>
DEVICE void gate_logits(float (&values)[kChoiceHeld], float* scratch) {
#if GATING == 0
  float most = negative_infinity();
#pragma unroll
  for (int i = 0; i < kChoiceHeld; i++) most = max(most, values[i]);
  most = block_max<Threads>(most, scratch);
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kChoiceHeld; i++) {
    // What lies past the last expert is −∞, of which e to it is 0.
    values[i] = exponential(values[i] - most);
    sum += values[i];
  }
  sum = block_sum<Threads>(sum, scratch);
#pragma unroll
  for (int i = 0; i < kChoiceHeld; i++) values[i] = values[i] / sum;
#elif GATING == 1
#pragma unroll
  for (int i = 0; i < kChoiceHeld; i++) values[i] = sigmoid(values[i]);
#elif GATING == 3
#pragma unroll
  for (int i = 0; i < kChoiceHeld; i++) values[i] = root_of_softplus(values[i]);
#endif
}

/** The weight of an expert whose gated logit is `own`; `chosen` gives those of all chosen experts by rank. */
template <typename Chosen>
DEVICE float weight_of_chosen(float own, Chosen chosen) {
  float weight = own;
#if GATING == 2
  float most = chosen(0), total = 0;
  for (int i = 1; i < USED; i++) most = max(most, chosen(i));
  for (int i = 0; i < USED; i++) total += exponential(chosen(i) - most);
  weight = exponential(weight - most) / total;
#endif
#if GATING == 4
  weight = sigmoid(weight);
#endif
#if RENORMALIZE && GATING != 2
  float sum = 0;
  for (int i = 0; i < USED; i++) sum += GATING == 4 ? sigmoid(chosen(i)) : chosen(i);
  // A sum that is not a number stays one.
  weight = weight / (sum < kSmallestWeightSum ? kSmallestWeightSum : sum);
#endif
  return weight * float(ROUTING_SCALE);
}

/** Keys before the key `own` of index `own_index`, of `count` keys in shared memory padded with zeros to whole quads. */
DEVICE int rank_among(const u32* keys, int count, u32 own, int own_index) {
  int rank = 0;
  for (int quad = 0; quad < (count + 3) / 4; quad++) {
    const Words4 four = reinterpret_cast<const Words4*>(keys)[quad];
    const u32 others[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
    for (int i = 0; i < 4; i++) rank += others[i] > own || (others[i] == own && quad * 4 + i < own_index) ? 1 : 0;
  }
  return rank;
}

/** Keys of experts outside of the best groups become 0, which comes after every score. */
DEVICE void keep_best_groups(u32* keys) {
  constexpr int GroupQuads = (GROUPS + 3) / 4;
  SHARED Words4 group_quads[GroupQuads];
  u32* const group_keys = reinterpret_cast<u32*>(group_quads);
  for (int group = thread_index(); group < GroupQuads * 4 && thread_index() < kChoiceThreads; group += kChoiceThreads) {
    u32 best = 0, second = 0;
    for (int i = 0; i < kGroupExperts && group < GROUPS; i++) {
      const u32 key = keys[group * kGroupExperts + i];
      if (key > best) {
        second = best;
        best = key;
      } else if (key > second) {
        second = key;
      }
    }
    const float score = float_of_order(best) + (kGroupExperts > 1 ? float_of_order(second) : 0.0f);
    group_keys[group] = group < GROUPS ? order_of(score) : 0u;
  }
  barrier();
#pragma unroll
  for (int i = 0; i < kChoiceHeld; i++) {
    const int expert = i * kChoiceThreads + thread_index();
    if (thread_index() >= kChoiceThreads || expert >= EXPERTS) continue;
    const int group = expert / kGroupExperts;
    if (rank_among(group_keys, GROUPS, group_keys[group], group) >= GROUPS_USED) keys[expert] = 0u;
  }
  barrier();
}

/**
 * Fills `choice`, the most probable expert first; all threads of the block come here, 128 of them at least. `weighted`:
 * whether the weights are wanted too. `bias` has one element for each expert.
 */
template <int Threads, bool Weighted>
DEVICE void choose_experts(const float* logits, const float* bias, ExpertChoice& choice) {
  static_assert(Threads >= kChoiceThreads, "too few threads to choose experts");
  SHARED Words4 key_quads[kChoiceQuads];
  u32* const keys = reinterpret_cast<u32*>(key_quads);
  SHARED float chosen[USED];
  SHARED float scratch[Threads / WAVE];
  const int thread = thread_index();
  const bool chooses = thread < kChoiceThreads;
  float values[kChoiceHeld];
  u32 own[kChoiceHeld];
#pragma unroll
  for (int i = 0; i < kChoiceHeld; i++) {
    const int expert = i * kChoiceThreads + thread;
    values[i] = chooses && expert < EXPERTS ? logits[expert] : negative_infinity();
    own[i] = order_of(values[i]);
  }
  if (Weighted || !kScoresAreLogits) gate_logits<Threads>(values, scratch);
#pragma unroll
  for (int i = 0; i < kChoiceHeld; i++) {
    const int expert = i * kChoiceThreads + thread;
    if (!kScoresAreLogits) {
      const float score = SELECTION_BIAS && chooses && expert < EXPERTS ? values[i] + bias[expert] : values[i];
      own[i] = order_of(score);
    }
    if (chooses && expert < kChoiceQuads * 4) keys[expert] = expert < EXPERTS ? own[i] : 0u;
  }
  barrier();
  if (GROUPS > 1) keep_best_groups(keys);
#pragma unroll
  for (int i = 0; i < kChoiceHeld; i++) {
    const int expert = i * kChoiceThreads + thread;
    if (!chooses || expert >= EXPERTS) continue;
    const int rank = rank_among(keys, EXPERTS, keys[expert], expert);
    if (rank < USED) {
      choice.experts[rank] = expert;
      chosen[rank] = values[i];
    }
  }
  barrier();
  if (!Weighted) return;
  if (thread < USED) {
    choice.weights[thread] = weight_of_chosen(chosen[thread], [&](int place) INLINE_LAMBDA { return chosen[place]; });
  }
  barrier();
}
