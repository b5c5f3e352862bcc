// Rows of the cache to shared memory as halves, for the matrix units.
#pragma once
#include "attention/kv-cache.h"
#include "attention/output.h"
#include "device/async-copy.h"

DEVICE float saturated(float value) {
  const float low = value > kMaxHalf ? kMaxHalf : value;
  return low < -kMaxHalf ? -kMaxHalf : low;
}

/** The rows of Positions positions, by Threads threads, in the background where they are halves already. */
template <typename HeadRow, int Positions, int Threads, int Unroll = 4>
DEVICE void bring_rows(const CachePlane& plane, const int* rows, u16* target, int stride) {
  constexpr int Chunks = Positions * HeadRow::kChunks;
  // Unrolled further, the addresses alone take more registers than there are.
#pragma unroll(Unroll)
  for (int first = 0; first < Chunks; first += Threads) {
    const int index = first + thread_index();
    if (Chunks % Threads != 0 && index >= Chunks) break;
    const int place = index / HeadRow::kChunks, chunk = index % HeadRow::kChunks;
    const u64 row = u64(rows[place]);
    u16* const to = target + place * stride + chunk * HeadRow::kChunkColumns;
    if (KV_TYPE == 1) copy_in_background(to, plane.rows + row * HeadRow::kBytes + chunk * 16);
    if (KV_TYPE == 2) {
      const CacheChunk fetched = fetch_chunk<HeadRow>(plane, row, chunk);
      float columns[16];
      widen(fetched.words, columns);
      const float scale = half_to_float(fetched.scale);
      u32 words[8];
#pragma unroll
      for (int pair = 0; pair < 8; pair++)
        words[pair] = float2_to_half2(saturated(columns[pair * 2] * scale), saturated(columns[pair * 2 + 1] * scale));
      *reinterpret_cast<Words4*>(to) = {words[0], words[1], words[2], words[3]};
      *reinterpret_cast<Words4*>(to + 8) = {words[4], words[5], words[6], words[7]};
    }
  }
}

// A lane has parts of kRowSlots rows of a result; kRowLanes neighbouring lanes share a row. After device/matrix-unit.h.
#if MATRIX_LAYOUT == 80
constexpr int kRowSlots = 2, kRowLanes = 4;
DEVICE int slot_of(int element) { return (element >> 1) & 1; }
/** An element of the slot's row. */
DEVICE int element_of_slot(int slot) { return slot * 2; }
#else
constexpr int kRowSlots = kTileElements, kRowLanes = 16;
DEVICE int slot_of(int element) { return element; }
DEVICE int element_of_slot(int slot) { return slot; }
#endif
