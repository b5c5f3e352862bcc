// Sums of several values at once over the lanes of a wave: as long as a lane has more than one value left, it gives
// half of them away and gets the other half's share of its partner, so n values over n lanes take n exchanges and not
// n·log n.
#pragma once
#include "device/portable.h"

/**
 * Sums over the lanes that differ in the bits from Mask down to Last, halving what each lane keeps as long as it has
 * more than one value. Returns the index of the first value that the lane is left with.
 */
template <int Count, int Mask, int Last, bool More = (Mask >= Last)>
struct Fold {
  static constexpr int kHalf = Count / 2;
  typedef Fold<kHalf, Mask / 2, Last> Next;
  static constexpr int kLeft = Next::kLeft;
  static constexpr int kSpare = Next::kSpare;
  DEVICE int sum(float* values) {
    const bool upper = (lane_index() & Mask) != 0;
#pragma unroll
    for (int index = 0; index < kHalf; index++) {
      const float kept = upper ? values[index + kHalf] : values[index];
      const float given = upper ? values[index] : values[index + kHalf];
      values[index] = kept + wave_xor(given, Mask);
    }
    return (upper ? kHalf : 0) + Next::sum(values);
  }
};

template <int Mask, int Last>
struct Fold<1, Mask, Last, true> {
  typedef Fold<1, Mask / 2, Last> Next;
  static constexpr int kLeft = 1;
  /** Lanes with any of these bits hold what another lane holds too. */
  static constexpr int kSpare = Mask | Next::kSpare;
  DEVICE int sum(float* values) {
    values[0] += wave_xor(values[0], Mask);
    return Next::sum(values);
  }
};

template <int Count, int Mask, int Last>
struct Fold<Count, Mask, Last, false> {
  static constexpr int kLeft = Count;
  static constexpr int kSpare = 0;
  DEVICE int sum(float*) { return 0; }
};
