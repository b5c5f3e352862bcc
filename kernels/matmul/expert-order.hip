// Which rows each expert of a mixture multiplies: the slots of all tokens sorted by expert, and cut into tiles of at
// most `tile_tokens` slots that have one expert. A slot is the number token × USED + place, so that slots of one expert
// are in the order of their tokens. Made once a layer, for the matmuls of gate, up and down (matmul/grouped-gemm.hip).
// Defines: USED, experts of a token; EXPERTS, all of them. ALIGNED 1: rows of the routing begin at multiples of 16 bytes.
// Grid: x = EXPERTS. A block counts the slots of all experts, and writes the slots and the tiles of its own: the tiles
// of an expert without tokens are none, and their order is that of the experts. Counts come from the step buffer, so a
// captured graph serves every routing; `tiles` has room for ⌊slots ÷ tile_tokens⌋ + EXPERTS, or one for each slot.
// v1 every block reads all of the routing from the device's cache, 4 KB for 128 tokens of 8 experts, 128 KB for 4096:
//    one launch instead of three (count, sum, sort), without atomics on memory. H200, 4,096 tokens, 8 of 256: 55 µs.
// v2 each wave counts and sorts neighbouring slots of its own, so that the block meets for the sums alone, and reads four
//    at a time. 25 µs expected, 33 found.
#include "device/quad.h"

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
/** Neighbouring slots that a lane looks at, and those of a wave at a time. */
constexpr int kOwnSlots = 8;
constexpr int kWaveSlots = WAVE * kOwnSlots;

/** Experts of neighbouring slots; −1 past the last slot. */
struct OwnSlots {
  int experts[kOwnSlots];
};

/** A row that is not a number must not lead anywhere else. */
DEVICE int expert_of(float routed) {
  const int expert = int(routed);
  return expert < 0 ? 0 : min(expert, EXPERTS - 1);
}

DEVICE OwnSlots load_slots(const ExpertOrderArguments& a, int first, int slots) {
  OwnSlots own;
#if ALIGNED && USED % 4 == 0
#pragma unroll
  for (int quad = 0; quad < kOwnSlots / 4; quad++) {
    const int slot = first + quad * 4, token = slot / USED;
    Quad routed = {};
    if (slot < slots)
      routed =
          *reinterpret_cast<const Quad*>(a.routing + u64(token) * u64(a.routing_stride) + u64(slot - token * USED));
#pragma unroll
    for (int i = 0; i < 4; i++) own.experts[quad * 4 + i] = slot < slots ? expert_of(routed.at[i]) : -1;
  }
#else
#pragma unroll
  for (int i = 0; i < kOwnSlots; i++) {
    const int slot = first + i, token = slot / USED;
    own.experts[i] = -1;
    if (slot < slots)
      own.experts[i] = expert_of(a.routing[u64(token) * u64(a.routing_stride) + u64(slot - token * USED)]);
  }
#endif
  return own;
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

/** The sum of the lanes before this one. */
DEVICE int sum_before(int value) {
  int sum = value;
#pragma unroll
  for (int distance = 1; distance < WAVE; distance *= 2) {
    const int other = wave_from(sum, lane_index() >= distance ? lane_index() - distance : 0);
    if (lane_index() >= distance) sum += other;
  }
  return sum - value;
}

KERNEL(expert_order, ExpertOrderArguments, kOrderThreads) {
  SHARED u32 counts[EXPERTS];
  SHARED int scratch[kOrderWaves];
  dependency_release();
  for (int expert = thread_index(); expert < EXPERTS; expert += kOrderThreads) counts[expert] = 0;
  const int own = block_x(), slots = *a.row_count * USED;
  const int rounds = (slots + kOrderThreads * kOwnSlots - 1) / (kOrderThreads * kOwnSlots);
  const int first = wave_index() * rounds * kWaveSlots + lane_index() * kOwnSlots;
  dependency_wait();
  barrier();
  int found = 0;
#pragma unroll 4
  for (int round = 0; round < rounds; round++) {
    const OwnSlots seen = load_slots(a, first + round * kWaveSlots, slots);
#pragma unroll
    for (int i = 0; i < kOwnSlots; i++) {
      if (seen.experts[i] < 0) continue;
      atomic_add(counts + seen.experts[i], 1);
      found += seen.experts[i] == own ? 1 : 0;
    }
  }
  barrier();

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
  const int wave_found = wave_sum(found);
  barrier();
  if (lane_index() == 0) scratch[wave_index()] = wave_found;
  barrier();
  if (wave_found == 0) return;
  int place = slots_before;
  for (int wave = 0; wave < wave_index(); wave++) place += scratch[wave];
#pragma unroll 4
  for (int round = 0; round < rounds; round++) {
    const OwnSlots seen = load_slots(a, first + round * kWaveSlots, slots);
    int matches = 0;
#pragma unroll
    for (int i = 0; i < kOwnSlots; i++) matches += seen.experts[i] == own ? 1 : 0;
    const int in_round = wave_sum(matches);
    if (in_round == 0) continue;
    int next = place + sum_before(matches);
#pragma unroll
    for (int i = 0; i < kOwnSlots; i++) {
      if (seen.experts[i] == own) a.slots[next++] = first + round * kWaveSlots + i;
    }
    place += in_round;
  }
}
