// How decode attention over long sequences divides a token's visible positions among blocks: in parts of equal length,
// about as many as the device runs at once, whatever else is in the batch. Lengths depend on the token's own position, on
// the operation and on the device alone.
#pragma once
#include "attention/attributes.h"

/** Shorter parts would take longer to begin and to merge than to read; also in src/backends/gpu/memory/deep-attention.ts. */
constexpr int kShortestPart = 256;
/** Parts begin and end at multiples of it, but for the last one: whole tiles for every wave. */
constexpr int kPartUnit = 64;

struct DeepParts {
  /** Position at which the first part begins: at most the first visible one. */
  int begin;
  /** Positions of a part. */
  int length;
  int count;
};

DEVICE DeepParts deep_parts(int position, int most) {
  const int begin = first_visible(position) / kPartUnit * kPartUnit;
  const int positions = position + 1 - begin;
  const int even = ((positions + most - 1) / most + kPartUnit - 1) / kPartUnit * kPartUnit;
  const int length = even > kShortestPart ? even : kShortestPart;
  return {begin, length, (positions + length - 1) / length};
}
