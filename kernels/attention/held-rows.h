// Rows of the cache on their way to shared memory through registers, for machines that do not copy in the background: keys
// as they lie, values transposed ([column][position]), so that the matrix units' operands along positions are whole loads and
// not halves one by one.
#pragma once
#include "attention/bring.h"

/** What each of Threads threads has of Positions rows. */
template <typename HeadRow, int Positions, int Threads>
struct HeldRows {
  static constexpr int kAll = Positions * HeadRow::kChunks;
  static constexpr int kEach = (kAll + Threads - 1) / Threads;
  /** Two columns each, once they are halves. */
  static constexpr int kChunkWords = HeadRow::kChunkColumns / 2;
  u32 words[kEach][4];
  u16 scales[kEach];

  /** Neighbouring threads have neighbouring chunks of a row. */
  DEVICE int place_of_key(int i) { return (i * Threads + thread_index()) / HeadRow::kChunks; }
  DEVICE int chunk_of_key(int i) { return (i * Threads + thread_index()) % HeadRow::kChunks; }
  /** A thread has one chunk of neighbouring rows, and its neighbours the rows after these: they write side by side. */
  static constexpr int kGroups = Positions / kEach;
  DEVICE int place_of_value(int i) { return thread_index() % kGroups * kEach + i; }
  DEVICE int chunk_of_value() { return thread_index() / kGroups; }
};

template <typename HeadRow, int Positions, int Threads>
DEVICE void hold_chunk(HeldRows<HeadRow, Positions, Threads>& held, int i, const CachePlane& plane, u64 row,
                       int chunk) {
  const Words4 words = load_shared(plane.rows + row * HeadRow::kBytes + chunk * 16);
  held.words[i][0] = words.x;
  held.words[i][1] = words.y;
  held.words[i][2] = words.z;
  held.words[i][3] = words.w;
  held.scales[i] = 0;
  if (KV_TYPE == 2)
    held.scales[i] = reinterpret_cast<const u16*>(plane.scales)[row * HeadRow::kScales + chunk * 16 / kScaleColumns];
}

/** The chunk as halves, two a word. */
template <typename HeadRow, int Positions, int Threads>
DEVICE void halves_of_chunk(const HeldRows<HeadRow, Positions, Threads>& held, int i, u32* halves) {
  if (KV_TYPE == 1) {
#pragma unroll
    for (int word = 0; word < 4; word++) halves[word] = held.words[i][word];
    return;
  }
  float columns[16];
  widen({held.words[i][0], held.words[i][1], held.words[i][2], held.words[i][3]}, columns);
  const float scale = half_to_float(held.scales[i]);
#pragma unroll
  for (int word = 0; word < HeldRows<HeadRow, Positions, Threads>::kChunkWords; word++)
    halves[word] = float2_to_half2(saturated(columns[word * 2] * scale), saturated(columns[word * 2 + 1] * scale));
}

/** Asks for the keys of `rows`. */
template <int Positions, int Threads>
DEVICE void hold_keys(HeldRows<KeyRow, Positions, Threads>& held, const CachePlane& plane, const int* rows) {
  typedef HeldRows<KeyRow, Positions, Threads> Held;
#pragma unroll
  for (int i = 0; i < Held::kEach; i++)
    hold_chunk(held, i, plane, u64(rows[min(Held::place_of_key(i), Positions - 1)]), Held::chunk_of_key(i));
  keep_load_order();
}

template <int Positions, int Threads>
DEVICE void put_keys(const HeldRows<KeyRow, Positions, Threads>& held, u16* keys, int stride) {
  typedef HeldRows<KeyRow, Positions, Threads> Held;
#pragma unroll
  for (int i = 0; i < Held::kEach; i++) {
    if (Held::kAll % Threads != 0 && Held::place_of_key(i) >= Positions) break;
    u16* const to = keys + Held::place_of_key(i) * stride + Held::chunk_of_key(i) * KeyRow::kChunkColumns;
    u32 halves[Held::kChunkWords];
    halves_of_chunk(held, i, halves);
#pragma unroll
    for (int first = 0; first < Held::kChunkWords; first += 4)
      *reinterpret_cast<Words4*>(to + first * 2) = {halves[first], halves[first + 1], halves[first + 2],
                                                    halves[first + 3]};
  }
}

template <int Positions, int Threads>
DEVICE void hold_values(HeldRows<ValueRow, Positions, Threads>& held, const CachePlane& plane, const int* rows) {
  typedef HeldRows<ValueRow, Positions, Threads> Held;
  static_assert(Threads % ValueRow::kChunks == 0 && Held::kAll % Threads == 0 && Held::kEach % 2 == 0 &&
                    Held::kEach <= 8 && VALUE_WIDTH % 16 == 0,
                "a thread has two to eight neighbouring rows of one chunk");
#pragma unroll
  for (int i = 0; i < Held::kEach; i++)
    hold_chunk(held, i, plane, u64(rows[Held::place_of_value(i)]), Held::chunk_of_value());
  keep_load_order();
}

template <int Positions, int Threads>
DEVICE void put_values(const HeldRows<ValueRow, Positions, Threads>& held, u16* values, int stride) {
  typedef HeldRows<ValueRow, Positions, Threads> Held;
  u32 halves[Held::kEach][Held::kChunkWords];
#pragma unroll
  for (int i = 0; i < Held::kEach; i++) halves_of_chunk(held, i, halves[i]);
  u16* const to = values + Held::chunk_of_value() * ValueRow::kChunkColumns * stride + Held::place_of_value(0);
#pragma unroll
  for (int word = 0; word < Held::kChunkWords; word++) {
    u32* const low = reinterpret_cast<u32*>(to + word * 2 * stride);
    u32* const high = reinterpret_cast<u32*>(to + (word * 2 + 1) * stride);
#pragma unroll
    for (int i = 0; i < Held::kEach; i += 2) {
      low[i / 2] = (halves[i][word] & 0xffffu) | (halves[i + 1][word] << 16);
      high[i / 2] = (halves[i][word] >> 16) | (halves[i + 1][word] & 0xffff0000u);
    }
  }
}
