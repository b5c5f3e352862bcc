// Rope's angles and turns, for every kernel that turns: the same expressions, so the same bits, wherever a row is computed.
// Angles as src/graph/rope-angles.ts has them: multiplied up from pair to pair in f32, divided by the file's factor, times
// the stretch. Defines: ROTARY_WIDTH, ADJACENT (1 turns 2i with 2i + 1, 0 turns i with i + half).
#pragma once
#include "device/portable.h"
#include "device/sine.h"

constexpr int kPairs = ROTARY_WIDTH / 2;

/** What no step changes: it can be read before anything is known of the step. */
struct PairTables {
  float factor;
  float stretch;
  float rest;
};

/** `a` has factors (or null) and stretches, two for each pair: the f32 nearest to the stretch, and what is left. */
template <typename Arguments>
DEVICE PairTables tables_of_pair(const Arguments& a, int pair) {
  return {a.factors == nullptr ? 1.0f : a.factors[pair], a.stretches[pair * 2], a.stretches[pair * 2 + 1]};
}

/** `a` has ratio and magnitude. */
template <typename Arguments>
DEVICE Turn turn_of_pair(const Arguments& a, const PairTables& tables, int pair, int position) {
  float turned = float(position);
  for (int step = 0; step < pair; step++) turned *= a.ratio;
  if (a.factors != nullptr) turned /= tables.factor;
  const float angle = turned * tables.stretch;
  const float rest = fused(turned, tables.rest, fused(turned, tables.stretch, -angle));
  const Turn turn = turn_of(angle, rest);
  return {turn.cosine * a.magnitude, turn.sine * a.magnitude};
}

DEVICE int left_column(int pair) { return ADJACENT ? pair * 2 : pair; }
DEVICE int right_column(int pair) { return ADJACENT ? pair * 2 + 1 : pair + kPairs; }

/** Which products are fused is said here and not left to each compiler. */
DEVICE void turn_pair(float cosine, float sine, float& left, float& right) {
  const float turned = fused(left, cosine, -(right * sine));
  right = fused(left, sine, right * cosine);
  left = turned;
}
