// The operation `route-experts` and the order of its slots (matmul/expert-order.hip) as one launch, for steps of at most
// kOrderedRows rows. One block a row chooses; the last block that arrives sorts the slots of all rows by expert.
// Grid: one block for each row there may be. Defines: rows/expert-choice.h. `arrivals`: a word that is zero before the first
// launch, and left so by each. `tiles` has room as for matmul/expert-order.hip.
// Slots are looked at in runs of 32, a lane each: what a slot comes after is counted among the lanes of its run, then over
// runs by a thread for each expert, then over experts by a sum over the block. No atomics decide an order.
// v1 one launch instead of two: 1 to 2 % of a step of 64 sequences of GLM-4.7-Flash on an H200.
#include "rows/expert-choice.h"

/** Rows of the largest step that this kernel is launched for, also in src/backends/gpu/lowering/route-order.ts. */
constexpr int kOrderedRows = 64;
constexpr int kRunSlots = 32;
static_assert(WAVE % kRunSlots == 0, "a run lies in one wave");
constexpr int kRuns = (kOrderedRows * USED + kRunSlots - 1) / kRunSlots;
/** Runs that the block looks at together, and what a thread has of all. */
constexpr int kRunsAtOnce = kChoiceThreads / kRunSlots;
constexpr int kThreadRuns = (kRuns + kRunsAtOnce - 1) / kRunsAtOnce;
constexpr int kOrderWaves = kChoiceThreads / WAVE;

struct RouteOrderArguments {
  const float* logits;
  const float* bias;
  const int* row_count;
  /** Of each row USED experts' numbers, then their weights. */
  float* out;
  u32* arrivals;
  int* slots;
  /** Expert, first of its slots, number of slots. */
  int* tiles;
  int* tile_count;
  int logits_stride;
  int out_stride;
  int tile_tokens;
};

/** Whether this block is the last one of the step's rows to arrive, and sees what all of them have written. */
DEVICE bool arrives_last(u32* arrivals, int rows) {
  SHARED u32 arrived;
  device_fence();
  barrier();
  if (thread_index() == 0) arrived = atomic_add(arrivals, 1);
  barrier();
  if (arrived != u32(rows - 1)) return false;
  device_fence();
  if (thread_index() == 0) *arrivals = 0;
  return true;
}

/** The sum of the threads before this one; `total`: of all threads. */
DEVICE u32 sum_before(u32 value, u32& total) {
  SHARED u32 sums[kOrderWaves];
  u32 sum = value;
#pragma unroll
  for (int distance = 1; distance < WAVE; distance *= 2) {
    const u32 other = wave_exchange(sum, lane_index() >= distance ? lane_index() - distance : 0);
    if (lane_index() >= distance) sum += other;
  }
  if (lane_index() == WAVE - 1) sums[wave_index()] = sum;
  barrier();
  u32 before = sum - value;
  total = 0;
#pragma unroll
  for (int wave = 0; wave < kOrderWaves; wave++) {
    if (wave < wave_index()) before += sums[wave];
    total += sums[wave];
  }
  return before;
}

/** A slot of this thread: its expert, and how many slots before it in its run have the same. */
struct OwnSlot {
  int expert;
  int before;
};

/** Leaves how many slots of each run an expert has, in `counts`, which is zero before. */
DEVICE void count_runs(const RouteOrderArguments& a, int slots, OwnSlot (&own)[kThreadRuns], u16* counts) {
  const int run_lane = thread_index() % kRunSlots, first_lane = lane_index() - run_lane;
#pragma unroll
  for (int i = 0; i < kThreadRuns; i++) {
    const int run = i * kRunsAtOnce + thread_index() / kRunSlots, slot = run * kRunSlots + run_lane;
    const int token = slot / USED;
    // Past the last slot a number that no expert has, alike for all.
    int expert = EXPERTS;
    if (slot < slots) {
      // A row that is not a number must not lead anywhere else.
      const int chosen = int(a.out[u64(token) * u64(a.out_stride) + u64(slot - token * USED)]);
      expert = chosen < 0 ? 0 : min(chosen, EXPERTS - 1);
    }
    int before = 0, alike = 0;
#pragma unroll
    for (int other = 0; other < kRunSlots; other++) {
      const bool same = wave_from(expert, first_lane + other) == expert;
      alike += same ? 1 : 0;
      before += same && other < run_lane ? 1 : 0;
    }
    if (slot < slots && before == 0) counts[run * EXPERTS + expert] = u16(alike);
    own[i] = {expert, before};
  }
}

/** Sorts the slots of all rows, by the whole block. */
DEVICE void order_slots(const RouteOrderArguments& a, int rows) {
  constexpr int CountQuads = (kRuns * EXPERTS + 7) / 8;
  SHARED Words4 count_quads[CountQuads];
  SHARED u16 starts[EXPERTS];
  u16* const counts = reinterpret_cast<u16*>(count_quads);
  const int slots = rows * USED;
  for (int quad = thread_index(); quad < CountQuads; quad += kChoiceThreads) count_quads[quad] = {0, 0, 0, 0};
  barrier();
  OwnSlot own[kThreadRuns];
  count_runs(a, slots, own, counts);
  barrier();
  // A thread has neighbouring experts. Their slots below, their tiles above.
  const int first_expert = thread_index() * kChoiceHeld;
  int expert_slots[kChoiceHeld];
  u32 both = 0;
#pragma unroll
  for (int i = 0; i < kChoiceHeld; i++) {
    const int expert = first_expert + i;
    int count = 0;
    for (int run = 0; run < kRuns && expert < EXPERTS; run++) {
      const int own_count = counts[run * EXPERTS + expert];
      counts[run * EXPERTS + expert] = u16(count);
      count += own_count;
    }
    expert_slots[i] = count;
    both += u32(count) + (u32((count + a.tile_tokens - 1) / a.tile_tokens) << 16);
  }
  u32 total;
  const u32 before = sum_before(both, total);
  if (thread_index() == 0) *a.tile_count = int(total >> 16);
  int slot = int(before & 0xffffu), tile = int(before >> 16);
#pragma unroll
  for (int i = 0; i < kChoiceHeld; i++) {
    const int expert = first_expert + i;
    if (expert < EXPERTS) starts[expert] = u16(slot);
    for (int first = 0; first < expert_slots[i]; first += a.tile_tokens) {
      int* const written = a.tiles + u64(tile++) * 3;
      written[0] = expert;
      written[1] = slot + first;
      written[2] = min(expert_slots[i] - first, a.tile_tokens);
    }
    slot += expert_slots[i];
  }
  barrier();
#pragma unroll
  for (int i = 0; i < kThreadRuns; i++) {
    const int run = i * kRunsAtOnce + thread_index() / kRunSlots;
    if (own[i].expert >= EXPERTS) continue;
    const int place = starts[own[i].expert] + counts[run * EXPERTS + own[i].expert] + own[i].before;
    a.slots[place] = run * kRunSlots + thread_index() % kRunSlots;
  }
}

KERNEL(route_order, RouteOrderArguments, kChoiceThreads) {
  SHARED ExpertChoice choice;
  dependency_release();
  const int rows = *a.row_count;
  dependency_wait();
  const int index = block_x();
  if (index == 0 && rows <= 0 && thread_index() == 0) *a.tile_count = 0;
  if (index >= rows) return;
  choose_experts<kChoiceThreads, true>(a.logits + u64(index) * u64(a.logits_stride), a.bias, choice);
  if (thread_index() < USED) {
    float* const out = a.out + u64(index) * u64(a.out_stride);
    out[thread_index()] = float(choice.experts[thread_index()]);
    out[USED + thread_index()] = choice.weights[thread_index()];
  }
  if (arrives_last(a.arrivals, rows)) order_slots(a, rows);
}
