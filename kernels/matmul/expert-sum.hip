// The last matmul of a mixture of experts with everything after it: out = Σ over slots of weight × (input · expertᵀ ×
// factor + bias) + residual, for few tokens with quantized weights. The slots of a token are one long row, which the lanes
// of a wave share block by block: a row's weights of all chosen experts are on their way together, and nothing is added
// up between blocks. The weight of a slot and the expert's factor go into the scales of its inputs.
// The experts are chosen from the router's logits (rows/expert-choice.h) before this launch waits for the one before it,
// and their weights asked for: a launch since the router's must have waited before it let the next start, as
// matmul/grouped-gemv.hip does with ROUTED 2.
// Defines: TYPE0; WIDTH: columns of a slot; ROWS a wave; DEPTH: weight blocks of a row on their way to a lane; THREADS;
//   SHARED_SLOTS n: a shared expert n slots wide, whose inputs follow those of the slots and whose matrix is of SHARED_TYPE,
//   times σ of shared_weight if that is not null, a column of which the router's launch has written;
//   BIAS_TYPE; WEIGHED 0: slots are added up as they are; those of rows/expert-choice.h, USED being the slots.
// Dynamic shared memory: the inputs of the slots and those of the shared expert, stagedBytes of gemv-shape.ts each, the first
// rounded up to 16. Grid: x = ⌈rows ÷ (waves × ROWS)⌉, y = tokens. out may
// be the residual.
// v1 all slots of a row as one, choice and weights before the wait. Not measured yet.
#ifndef THREADS
#define THREADS 256
#endif
#if !defined(RESIDENT_BLOCKS)
#define RESIDENT_BLOCKS (512 / THREADS)
#endif
#define STAGED 1
#define NORMED 0
#include "matmul/quantized-source.h"
#include "rows/expert-choice.h"

#ifndef SHARED_SLOTS
#define SHARED_SLOTS 0
#endif
#if SHARED_SLOTS == 0
#define SHARED_TYPE TYPE0
#endif
#ifndef WEIGHED
#define WEIGHED 1
#endif

constexpr int kSlotBlocks = WIDTH / kBlockWeights;
constexpr int kSlotChunks = WIDTH / 16;
constexpr int kBlocks = USED * kSlotBlocks;
constexpr int kSweeps = (kBlocks + WAVE - 1) / WAVE;
constexpr int kSumDepth = DEPTH < kSweeps ? DEPTH : kSweeps;
constexpr int kSharedWidth = SHARED_SLOTS * WIDTH;
constexpr int kSharedBlocks = kSharedWidth / kBlockWeights;
constexpr int kSharedSweeps = (kSharedBlocks + WAVE - 1) / WAVE;
constexpr int kSharedDepth = kSharedSweeps > 1 ? 2 : 1;

struct ExpertSumArguments {
  const i8* values;
  const float* scales;
  const float* sums;
  const int* row_count;
  const float* logits;
  const float* selection_bias;
  const u8* weights;
  const u8* shared;
  const float* shared_weight;
  const u8* bias;
  const float* factor;
  const float* residual;
  float* out;
  int logits_stride;
  int rows;
  int stride;
  int residual_stride;
};

typedef QuantizedSource<TYPE0> Source;
typedef QuantizedSource<SHARED_TYPE> SharedSource;

DEVICE Source::Raw fetch_slot(const ExpertSumArguments& a, const ExpertChoice& choice, int row, int block) {
  const int inside = min(block, kBlocks - 1);
  const int slot = inside / kSlotBlocks;
  const u64 index = u64(choice.experts[slot]) * u64(a.rows) + u64(row);
  return Source::fetch(a.weights + index * Format<TYPE0>::row_bytes(WIDTH), kSlotBlocks, inside - slot * kSlotBlocks);
}

/** Copies `Slots` slots to shared memory, from slot `First` of the token on, each times its factor. */
template <int First, int Slots, bool HasMinimum>
DEVICE QuantizedInputs stage_slots(const ExpertSumArguments& a, const float* factors, int token, u8* scratch) {
  constexpr int Chunks = Slots * kSlotChunks;
  const u64 first = (u64(token) * u64(USED + SHARED_SLOTS) + First) * u64(kSlotChunks);
  const Words4* const values = reinterpret_cast<const Words4*>(a.values) + first;
  Words4* const staged = reinterpret_cast<Words4*>(scratch);
  float* const sums = reinterpret_cast<float*>(scratch + staged_value_bytes(1, Slots * WIDTH));
  float* const scales = sums + Chunks;
#pragma unroll 4
  for (int chunk = thread_index(); chunk < Chunks; chunk += THREADS) {
    const float factor = factors[chunk / kSlotChunks];
    staged[staged_chunk(chunk)] = values[chunk];
    if (HasMinimum) sums[chunk] = a.sums[first + chunk] * factor;
    if (chunk % 2 == 0) scales[chunk / 2] = a.scales[(first + chunk) / 2] * factor;
  }
  QuantizedInputs inputs = {};
  inputs.values = scratch;
  inputs.sums = sums;
  inputs.scales = scales;
  inputs.width = Slots * WIDTH;
  inputs.live = 1;
  return inputs;
}

#if SHARED_SLOTS
/** Bytes of the staged slots before those of the shared expert. */
DEVICE constexpr int staged_slot_bytes() {
  return (((USED * WIDTH + 63) & ~63) + USED * (WIDTH / 16 + WIDTH / 32) * 4 + 15) & ~15;
}

DEVICE SharedSource::Raw fetch_shared(const ExpertSumArguments& a, int row, int block) {
  return SharedSource::fetch(a.shared + u64(row) * Format<SHARED_TYPE>::row_bytes(kSharedWidth), kSharedBlocks,
                             min(block, kSharedBlocks - 1));
}

struct SharedFlight {
  SharedSource::Raw raw[kSharedDepth][ROWS];
};

DEVICE SharedFlight start_shared(const ExpertSumArguments& a, int row) {
  SharedFlight flight;
#pragma unroll
  for (int slot = 0; slot < kSharedDepth; slot++) {
#pragma unroll
    for (int r = 0; r < ROWS; r++)
      flight.raw[slot][r] = fetch_shared(a, min(row + r, a.rows - 1), slot * WAVE + lane_index());
  }
  return flight;
}

DEVICE void add_shared(const ExpertSumArguments& a, SharedFlight& flight, const QuantizedInputs& inputs, int row,
                       float (&sums)[ROWS]) {
#pragma unroll 1
  for (int sweep = 0; sweep < kSharedSweeps; sweep += kSharedDepth) {
#pragma unroll
    for (int slot = 0; slot < kSharedDepth; slot++) {
      if (kSharedSweeps % kSharedDepth != 0 && sweep + slot >= kSharedSweeps) continue;
      const int wanted = (sweep + slot) * WAVE + lane_index(), block = min(wanted, kSharedBlocks - 1);
      const SharedSource::Operand operand = SharedSource::load(inputs, 0, block, wanted < kSharedBlocks);
#pragma unroll
      for (int r = 0; r < ROWS; r++) {
        sums[r] = SharedSource::dot(SharedSource::decode(flight.raw[slot][r], block), operand, sums[r]);
        if (sweep + slot + kSharedDepth < kSharedSweeps)
          flight.raw[slot][r] = fetch_shared(a, min(row + r, a.rows - 1), wanted + kSharedDepth * WAVE);
      }
    }
  }
}
#endif

KERNEL(expert_sum, ExpertSumArguments, THREADS) {
  DYNAMIC_SHARED(scratch);
  SHARED ExpertChoice choice;
  SHARED float factors[USED + SHARED_SLOTS];
  dependency_release();
  const int token = block_y(), lane = lane_index();
  const int row = (block_x() * (THREADS / WAVE) + wave_index()) * ROWS;
  // Returning without waiting would let the next launch overtake this one.
  if (token >= *a.row_count) return dependency_wait();
#if SHARED_SLOTS
  SharedFlight shared_flight = start_shared(a, row);
#endif
  choose_experts<THREADS, WEIGHED != 0>(a.logits + u64(token) * u64(a.logits_stride), a.selection_bias, choice);

  Source::Raw raw[kSumDepth][ROWS];
#pragma unroll
  for (int slot = 0; slot < kSumDepth; slot++) {
#pragma unroll
    for (int r = 0; r < ROWS; r++) raw[slot][r] = fetch_slot(a, choice, min(row + r, a.rows - 1), slot * WAVE + lane);
  }
  if (thread_index() < USED) {
    const float weight = WEIGHED ? choice.weights[thread_index()] : 1.0f;
    factors[thread_index()] = a.factor == nullptr ? weight : weight * a.factor[choice.experts[thread_index()]];
  }
#if SHARED_SLOTS
  if (thread_index() < SHARED_SLOTS)
    factors[USED + thread_index()] = a.shared_weight == nullptr ? 1.0f : sigmoid(a.shared_weight[token]);
#endif
  float sums[ROWS];
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    // A lane for the bias of each slot.
    sums[r] = 0;
    for (int slot = lane; a.bias != nullptr && slot < USED; slot += WAVE) {
      const u64 index = u64(choice.experts[slot]) * u64(a.rows) + u64(min(row + r, a.rows - 1));
      const float bias = Plain<BIAS_TYPE>::value(a.bias + index * Plain<BIAS_TYPE>::element_bytes, 0);
      sums[r] = fma(bias, WEIGHED ? choice.weights[slot] : 1.0f, sums[r]);
    }
  }
  barrier();
  dependency_wait();
  float residual[ROWS];
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    residual[r] = 0;
    if (a.residual != nullptr && lane == 0 && row + r < a.rows)
      residual[r] = a.residual[u64(token) * u64(a.residual_stride) + u64(row + r)];
  }
  const QuantizedInputs inputs = stage_slots<0, USED, Format<TYPE0>::has_minimum>(a, factors, token, scratch);
#if SHARED_SLOTS
  const QuantizedInputs shared_inputs = stage_slots<USED, SHARED_SLOTS, Format<SHARED_TYPE>::has_minimum>(
      a, factors + USED, token, scratch + staged_slot_bytes());
  barrier();
  add_shared(a, shared_flight, shared_inputs, row, sums);
#else
  barrier();
#endif

#pragma unroll(kRingUnroll)
  for (int sweep = 0; sweep < kSweeps; sweep += kSumDepth) {
#pragma unroll
    for (int slot = 0; slot < kSumDepth; slot++) {
      if (kSweeps % kSumDepth != 0 && sweep + slot >= kSweeps) continue;
      const int wanted = (sweep + slot) * WAVE + lane;
      const Source::Operand operand = Source::load(inputs, 0, min(wanted, kBlocks - 1), wanted < kBlocks);
#pragma unroll
      for (int r = 0; r < ROWS; r++) {
        const Block block = Source::decode(raw[slot][r], min(wanted, kBlocks - 1) % kSlotBlocks);
        sums[r] = Source::dot(block, operand, sums[r]);
        settle(sums[r]);
        keep_load_order();
        if (sweep + slot + kSumDepth < kSweeps)
          raw[slot][r] = fetch_slot(a, choice, min(row + r, a.rows - 1), wanted + kSumDepth * WAVE);
      }
    }
  }
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    const float sum = wave_sum(sums[r]);
    if (lane == 0 && row + r < a.rows) a.out[u64(token) * u64(a.stride) + u64(row + r)] = sum + residual[r];
  }
}
