// Which rows each expert of a mixture multiplies: the slots of all tokens sorted by expert, and cut into tiles of at
// most `tile_tokens` slots that have one expert. A slot is the number token × USED + place, so that slots of one expert
// are in the order of their tokens. Made once a layer, for the matmuls of gate, up and down (matmul/grouped-gemm.hip).
// Defines: USED, experts of a token; EXPERTS, all of them.
// Grid: x = EXPERTS. A block counts the slots of all experts, and writes the slots and the tiles of its own: the tiles
// of an expert without tokens are none, and their order is that of the experts. Counts come from the step buffer, so a
// captured graph serves every routing; `tiles` has room for ⌊slots ÷ tile_tokens⌋ + EXPERTS, or one for each slot.
// v1 every block reads all of the routing from the device's cache, 4 KB for 128 tokens of 8 experts, 128 KB for 4096:
//    one launch instead of three (count, sum, sort), without atomics on memory. Not measured yet.
#include "device/portable.h"

struct ExpertOrderArguments {
  /** Of each token USED experts' numbers, then their weights. */
  const float* routing;
  const int* row_count;
  int* slots;
  /** Expert, first of its slots, number of slots. */
  int* tiles;
  int* tile_count;
  int routing_stride;
  int tile_tokens;
};

constexpr int kOrderThreads = 256;
constexpr int kOrderWaves = kOrderThreads / WAVE;
/** Neighbouring slots that a thread looks at between two barriers. */
constexpr int kOwnSlots = 8;

/** The expert of a slot; a row that is not a number must not lead anywhere else. */
DEVICE int expert_of(const ExpertOrderArguments& a, int slot) {
  const int token = slot / USED;
  const int expert = int(a.routing[u64(token) * u64(a.routing_stride) + u64(slot - token * USED)]);
  return expert < 0 ? 0 : min(expert, EXPERTS - 1);
}

/** Over the block; every thread gets the result. */
DEVICE int total_of(int value, int* scratch) {
  value = wave_sum(value);
  barrier();
  if (lane_index() == 0) scratch[wave_index()] = value;
  barrier();
  int total = 0;
  for (int wave = 0; wave < kOrderWaves; wave++) total += scratch[wave];
  return total;
}

/** The sum of the threads before this one; `total`: of all threads. */
DEVICE int sum_before(int value, int* scratch, int& total) {
  int sum = value;
#pragma unroll
  for (int distance = 1; distance < WAVE; distance *= 2) {
    const int other = wave_from(sum, lane_index() >= distance ? lane_index() - distance : 0);
    if (lane_index() >= distance) sum += other;
  }
  barrier();
  if (lane_index() == WAVE - 1) scratch[wave_index()] = sum;
  barrier();
  int before = sum - value;
  total = 0;
  for (int wave = 0; wave < kOrderWaves; wave++) {
    if (wave < wave_index()) before += scratch[wave];
    total += scratch[wave];
  }
  return before;
}

KERNEL(expert_order, ExpertOrderArguments, kOrderThreads) {
  SHARED u32 counts[EXPERTS];
  SHARED int scratch[kOrderWaves];
  dependency_release();
  for (int expert = thread_index(); expert < EXPERTS; expert += kOrderThreads) counts[expert] = 0;
  const int slots = *a.row_count * USED;
  dependency_wait();
  barrier();
  for (int slot = thread_index(); slot < slots; slot += kOrderThreads) atomic_add(counts + expert_of(a, slot), 1);
  barrier();

  const int own = block_x();
  int slots_before = 0, tiles_before = 0;
  for (int expert = thread_index(); expert < own; expert += kOrderThreads) {
    slots_before += int(counts[expert]);
    tiles_before += (int(counts[expert]) + a.tile_tokens - 1) / a.tile_tokens;
  }
  slots_before = total_of(slots_before, scratch);
  tiles_before = total_of(tiles_before, scratch);
  const int count = int(counts[own]), tiles = (count + a.tile_tokens - 1) / a.tile_tokens;
  if (own == EXPERTS - 1 && thread_index() == 0) *a.tile_count = tiles_before + tiles;
  if (count == 0) return;
  for (int tile = thread_index(); tile < tiles; tile += kOrderThreads) {
    int* const written = a.tiles + u64(tiles_before + tile) * 3;
    written[0] = own;
    written[1] = slots_before + tile * a.tile_tokens;
    written[2] = min(count - tile * a.tile_tokens, a.tile_tokens);
  }
  int place = slots_before;
  for (int first = 0; first < slots; first += kOrderThreads * kOwnSlots) {
    const int start = first + thread_index() * kOwnSlots;
    u32 matches = 0;
    int found = 0;
#pragma unroll
    for (int i = 0; i < kOwnSlots; i++) {
      if (start + i < slots && expert_of(a, start + i) == own) {
        matches |= 1u << i;
        found++;
      }
    }
    int total;
    int next = place + sum_before(found, scratch, total);
#pragma unroll
    for (int i = 0; i < kOwnSlots; i++) {
      if ((matches >> i & 1) != 0) a.slots[next++] = start + i;
    }
    place += total;
  }
}
