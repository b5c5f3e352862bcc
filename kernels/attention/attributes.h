// Attributes of attention that some models have: sliding window, logit soft-cap, attention sinks. Each is a define, so
// that models without it compile to code without it. SOFT_CAP is that of device/activation.h.
#pragma once
#include "device/activation.h"
#include "device/step.h"

/** Sliding window: a token attends to its own position and the WINDOW - 1 before it; 0: to all positions. */
#ifndef WINDOW
#define WINDOW 0
#endif
/** 1: `a.sinks` has one logit for each query head that joins the softmax without a value. */
#ifndef SINKS
#define SINKS 0
#endif

/** log2 e: scores are exponents of two. */
constexpr float kLogarithm = 1.44269504088896340736f;

/** The first position that a token at `position` attends to. */
DEVICE int first_visible(int position) { return WINDOW > 0 && position >= WINDOW ? position - WINDOW + 1 : 0; }

/** The split that has it: blocks of split attention count splits from here on. */
DEVICE int first_split(int position) { return first_visible(position) / kSplitPositions; }

/** A score, as an exponent of two, after the soft-cap. */
DEVICE float capped_score(float score) { return kSoftCap > 0.0f ? soft_capped(score, kSoftCap * kLogarithm) : score; }

/** The sum of weights of a head with the weight of its sink; `base` is what scores were lowered by. */
template <typename Arguments>
DEVICE float with_sink(const Arguments& a, int head, float base, float total) {
  if (SINKS == 0) return total;
  return total + exponential2(a.sinks[head] * kLogarithm - base);
}
