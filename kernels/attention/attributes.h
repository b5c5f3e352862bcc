// Attributes of attention that some models have: sliding window, chunks, a first position, temperature, logit soft-cap, attention sinks.
// Each is a define, so that models without it compile to code without it. SOFT_CAP is that of device/activation.h.
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
/** Chunked attention: a token attends to the positions from the last multiple of CHUNK on; 0: to all positions. */
#ifndef CHUNK
#define CHUNK 0
#endif
/** Tokens attend to positions from FIRST on; those before it to themselves alone. */
#ifndef FIRST
#define FIRST 0
#endif
/**
 * Attention temperature: scores are multiplied by 1 + TEMPERATURE × ln(1 + ⌊(position + TEMPERATURE_OFFSET) ÷
 * TEMPERATURE_LENGTH⌋); 0: they are not.
 */
#ifndef TEMPERATURE
#define TEMPERATURE 0
#endif
#ifndef TEMPERATURE_LENGTH
#define TEMPERATURE_LENGTH 1
#endif
#ifndef TEMPERATURE_OFFSET
#define TEMPERATURE_OFFSET 0
#endif

/** log2 e: scores are exponents of two. */
constexpr float kLogarithm = 1.44269504088896340736f;

/** Whether tokens do not attend to everything before them. */
constexpr bool kLimited = WINDOW > 0 || CHUNK > 0 || FIRST > 0;

/** The first position that a token at `position` attends to. */
DEVICE int first_visible(int position) {
  const int of_window = WINDOW > 0 && position >= WINDOW ? position - WINDOW + 1 : 0;
  const int of_chunk = CHUNK > 0 ? position - position % (CHUNK > 0 ? CHUNK : 1) : 0;
  const int first = of_window > of_chunk ? of_window : of_chunk;
  return FIRST > first ? min(FIRST, position) : first;
}

/** ln of a number of at least 1. */
DEVICE float natural_logarithm(float value) {
  // value = 2^exponent × fraction with a fraction around 1, whose logarithm is 2 artanh((fraction − 1) ÷ (fraction + 1)).
  int exponent = int(bits_of(value) >> 23) - 127;
  float fraction = float_of((bits_of(value) & 0x7fffffu) | 0x3f800000u);
  if (fraction > 1.41421356f) {
    fraction *= 0.5f;
    exponent++;
  }
  const float ratio = (fraction - 1.0f) / (fraction + 1.0f), square = ratio * ratio;
  float series = fma(square, 1.0f / 9.0f, 1.0f / 7.0f);
  series = fma(square, series, 1.0f / 5.0f);
  series = fma(square, series, 1.0f / 3.0f);
  return fma(2.0f * ratio * square, series, fma(float(exponent), 0.693147180559945309f, 2.0f * ratio));
}

/** What queries at `position` are multiplied by, so that scores are exponents of two. */
DEVICE float score_factor(float scale, int position) {
  const float factor = scale * kLogarithm;
  if (float(TEMPERATURE) == 0.0f) return factor;
  const float steps = float((position + TEMPERATURE_OFFSET) / TEMPERATURE_LENGTH);
  return factor * fma(float(TEMPERATURE), natural_logarithm(1.0f + steps), 1.0f);
}

/** Where a split of a token's positions begins: splits are counted from its first visible position on. */
DEVICE int split_start(int position, int split) { return first_visible(position) + split * kSplitPositions; }

/** How many splits a token attends to. */
DEVICE int splits_of(int position) { return (position - first_visible(position)) / kSplitPositions + 1; }

/** A score, as an exponent of two, after the soft-cap. */
DEVICE float capped_score(float score) { return kSoftCap > 0.0f ? soft_capped(score, kSoftCap * kLogarithm) : score; }

/** The sum of weights of a head with the weight of its sink; `base` is what scores were lowered by. */
template <typename Arguments>
DEVICE float with_sink(const Arguments& a, int head, float base, float total) {
  if (SINKS == 0) return total;
  return total + exponential2(a.sinks[head] * kLogarithm - base);
}
