// Angles and rotations of RoPE, for every kernel that rotates: the same expressions, so the same bits, wherever a row
// is computed.
// Angles as src/graph/rope-angles.ts has them: multiplied up from pair to pair in f32, divided by the file's factor,
// times the stretch. Defines: ROTARY_WIDTH, ADJACENT (1 rotates 2i with 2i + 1, 0 rotates i with i + half), FIRST_COLUMN
// of a head that is rotated.
#pragma once
#include "device/portable.h"
#include "device/sine.h"

#ifndef FIRST_COLUMN
#define FIRST_COLUMN 0
#endif

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
DEVICE Rotation rotation_of_pair(const Arguments& a, const PairTables& tables, int pair, int position) {
  float rotated = float(position);
  for (int step = 0; step < pair; step++) rotated *= a.ratio;
  if (a.factors != nullptr) rotated /= tables.factor;
  const float angle = rotated * tables.stretch;
  const float rest = fma(rotated, tables.rest, fma(rotated, tables.stretch, -angle));
  const Rotation rotation = rotation_of(angle, rest);
  return {rotation.cosine * a.magnitude, rotation.sine * a.magnitude};
}

DEVICE int left_column(int pair) { return FIRST_COLUMN + (ADJACENT ? pair * 2 : pair); }
DEVICE int right_column(int pair) { return FIRST_COLUMN + (ADJACENT ? pair * 2 + 1 : pair + kPairs); }
/** Of the columns that are not rotated, the one with this index. */
DEVICE int still_column(int index) { return index < FIRST_COLUMN ? index : index + 2 * kPairs; }

/** Which multiplications are part of an fma is written here and not left to each compiler. */
DEVICE void rotate_pair(float cosine, float sine, float& left, float& right) {
  const float rotated = fma(left, cosine, -(right * sine));
  right = fma(left, sine, right * cosine);
  left = rotated;
}
