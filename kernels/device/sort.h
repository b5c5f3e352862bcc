// Sorts keys in shared memory by a whole block: a bitonic network. Steps that stay within a wave's own stretch of keys
// meet only that wave.
#pragma once
#include "device/portable.h"

/** The smallest power of two, 2 or more, that is not below `count`. */
DEVICE int sorted_size(int count) {
  int size = 2;
  while (size < count) size *= 2;
  return size;
}

/** Largest first. `keys` has room for sorted_size(count); what lies beyond `count` becomes 0, the least key. */
template <int Threads>
DEVICE void sort_falling(u64* keys, int count) {
  const int size = sorted_size(count);
  for (int index = count + thread_index(); index < size; index += Threads) keys[index] = 0;
  barrier();
  for (int run = 2; run <= size; run *= 2) {
    for (int distance = run / 2; distance > 0; distance /= 2) {
      for (int pair = thread_index(); pair < size / 2; pair += Threads) {
        const int left = 2 * pair - (pair & (distance - 1));
        const int right = left + distance;
        const bool falling = (left & run) == 0;
        const u64 first = keys[left];
        const u64 second = keys[right];
        if ((first < second) == falling) {
          keys[left] = second;
          keys[right] = first;
        }
      }
      // A wave's pairs of distance WAVE and less lie in 2 × WAVE keys that are its own.
      const int next_distance = distance > 1 ? distance / 2 : run;
      if (distance > WAVE || next_distance > WAVE) {
        barrier();
      } else {
        wave_barrier();
      }
    }
  }
  barrier();
}
