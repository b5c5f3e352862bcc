// out[token][row] = Σ_k input[token][k] × weight[row][k] for 9 and more tokens by the wide products of sm_90
// (device/wide-matmul.h): half rows times weights in their device layout, up to three matrices of one input in a launch.
// Teams of four waves have 64 rows each. Every lane loads and decodes the weight blocks that the products want it to
// hold, and decodes one half of a slab while the other is multiplied. Of the RING slabs of weights in registers one half is on
// its way while the other is decoded: NVIDIA's assembler counts all loads of a loop together, so that a wait for one slab of a
// plain ring is a wait for what was asked for last. One more wave brings the input,
// which lies in memory as products read it (rows/wide-order.h), a slab of a tile's tokens in one copy. Blocks share the
// slabs of all tiles evenly (stream-k): where a tile has several blocks, the last one to arrive adds up what all of them
// left in `partial`, in their order, so that results do not depend on which was faster.
// Defines: TOKENS 16, 32, 64, 128 or 256 a tile; MATMULS 1 to 3 with TYPE0 … TYPE2 (none Q5_K, whose columns lie
// otherwise); GATED: gate and up, of the same type and size, and out0 = activation(gate) × up; ACTIVATION and SOFT_CAP
// (device/activation.h); PANELS; BIAS_TYPE; TEAMS 3 to 5, RING 2, 4 or 6, STAGES; MATRIX_LAYOUT 80. Width: a multiple of 32.
// Grid: x = any number of blocks. partial: 2 × x × kRows × TOKENS floats; arrivals: x words, zero before the first launch,
// and left so by each. Shared bytes: STAGES × kStageBytes + 1024, to begin at a multiple of 1024.
// v1 four waves copied the input through registers: 52 us for gate and up of Llama-3-8B at 64 tokens of Q4_K on an H200, 168 at
//    256. Waiting for them was most of it.
// v2 rows lie as products read them and one thread asks for whole slabs: 47 us at 64 tokens, 67 at 128 and 113 at 256 (matmul/
//    gemm.hip: 189 at 128); 600 to 650 TFLOP/s at 2,048. 36 us at 16 tokens: three waves a quarter of a multiprocessor are
//    too few to hide what decoding waits for; more of them have too few registers.
// v3 weights decoded two columns apart, without moving bytes: fewer instructions by reading the code, no change in time. Two
//    teams that take no registers from the third: 10 to 13 % slower at 16 tokens.
// v4 two halves of the ring, and masks in one instruction instead of two: by counting machine code, 36 us should become 27 at 16
//    tokens. 30 us found; with the old loads a batch of 64 sequences is 7 % slower in the same run, and batches of 16 and 128
//    are 6 and 8 % slower than on another machine.
// v5 four teams and a ring of two for gate and up of 32 and 64 tokens, as a tuner found: 34.5 -> 31 and 44 -> 38 us. Two teams
//    instead of three for long rows: 5 to 9 %.
#ifndef MATMULS
#define MATMULS 1
#endif
#ifndef GATED
#define GATED 0
#endif
#ifndef TYPE1
#define TYPE1 TYPE0
#endif
#ifndef TYPE2
#define TYPE2 TYPE0
#endif
#if GATED && (MATMULS != 2 || TYPE0 != TYPE1)
#error "a gated matmul has two matrices of one type"
#endif
/** Of the biases: 0 (F32), 1 (F16) or 30 (BF16). */
#ifndef BIAS_TYPE
#define BIAS_TYPE 0
#endif
/** Whether the result of gate and up goes to the panels of the next such matmul, and not to out0. */
#ifndef PANELS
#define PANELS 0
#endif
#ifndef TEAMS
#define TEAMS 3
#endif
#ifndef RING
#define RING 2
#endif
#ifndef STAGES
#define STAGES 3
#endif
#ifndef RESIDENT_BLOCKS
#define RESIDENT_BLOCKS 1
#endif
#define MATRIX_WAVES TEAMS * 4
// Loads of weights stay where they are asked for.
#define ORDERED_LOADS 1
#include "device/activation.h"
#include "weights/half-blocks.h"
#include "device/matrix-unit.h"
#include "device/handover.h"
#include "rows/wide-order.h"

struct WideGemmArguments {
  /** Of tiles of TOKENS tokens, and of those slabs: kStageBytes each. */
  const u16* halves;
  const float* row_scales;
  const int* row_count;
  const u8* weights0;
  const u8* weights1;
  const u8* weights2;
  float* out0;
  float* out1;
  float* out2;
  const u8* bias0;
  const u8* bias1;
  const u8* bias2;
  const float* factor0;
  const float* factor1;
  const float* factor2;
  const float* residual;
  /** The input of the next such matmul, if PANELS is 1. */
  u16* panels;
  float* panel_scales;
  float* partial;
  u32* arrivals;
  int rows0;
  int rows1;
  int rows2;
  int stride0;
  int stride1;
  int stride2;
  int residual_stride;
  /** Columns of a row in the panels. */
  int panel_stride;
  int width;
  int blocks;
};

constexpr int kTokens = TOKENS;
constexpr int kTiles = kTokens / 16;
constexpr int kTeamThreads = 128;
constexpr int kThreads = TEAMS * kTeamThreads;
/** Teams that multiply, and their threads: of the last one a wave brings the input. */
constexpr int kTeams = TEAMS - 1;
constexpr int kUsers = kTeams * kTeamThreads;
/** Registers that a thread has when the block begins, and then those of the last team and of the others. */
constexpr int kBegunRegisters = 65536 / kThreads / 8 * 8;
constexpr int kKeptRegisters = 24;
constexpr int kTakenRegisters = (kBegunRegisters * kThreads - kKeptRegisters * kTeamThreads) / kUsers / 8 * 8;
/** Rows of a tile; of gate and up each half of them. */
constexpr int kRows = kTeams * 64;
constexpr int kTileRows = GATED ? kRows / 2 : kRows;
constexpr int kLaneSums = kTiles * kTileElements;

#define WIDE_SWIZZLED 1
#include "device/wide-matmul.h"

static_assert(kShares == 4, "a slab is four blocks");
constexpr int kSlabBlocks = 4;
constexpr int kSlabChunks = 16;
constexpr int kStageBytes = 2 * kWidePanelBytes;
constexpr int kHalfRing = RING / 2;
static_assert(RING % 2 == 0, "a ring has two halves");

/** Full and empty stages of the input. */
struct Handovers {
  Handover full[STAGES];
  Handover empty[STAGES];
};

/** Which stage comes next, and how often all of them have come. */
struct StageCount {
  int stage, rounds;
};

DEVICE void next_stage(StageCount& count) {
  count.stage = count.stage == STAGES - 1 ? 0 : count.stage + 1;
  count.rounds += count.stage == 0 ? 1 : 0;
}

#include "matmul/wide-gemm-share.h"
#include "matmul/wide-gemm-sums.h"

/** Stages are filled in the order of the block's units. */
DEVICE void bring_input(const WideGemmArguments& a, const Share& share, u8* shared, Handovers& handovers) {
  dependency_wait();
  stores_before_copies();
  const u8* const input = reinterpret_cast<const u8*>(a.halves);
  StageCount count = {0, 0};
  u32 unit = share.begin;
#pragma unroll 1
  while (unit < share.end) {
    const Segment segment = segment_at(share, unit);
    const u64 token_tile = u64(segment.tile % share.token_tiles);
#pragma unroll 1
    for (int slab = segment.first; slab < segment.end; slab++) {
      await_handover(&handovers.empty[count.stage], (count.rounds & 1) ^ 1);
      if (lane_index() == 0) {
        hand_over_bytes(&handovers.full[count.stage], shared + count.stage * kStageBytes,
                        input + (token_tile * u64(share.slabs) + u64(slab)) * u64(kStageBytes), kStageBytes);
      }
      stage_filled();
      stage_used();
      next_stage(count);
    }
    if (!is_whole(share, segment)) fillers_join(kPartBarriers);
    unit += u32(segment.end - segment.first);
  }
}

/** Rows of the lane's lines: of gate and up the first line is gate's. */
template <typename Source>
DEVICE void find_rows(const WideGemmArguments& a, const Target& target, const u8* (&rows)[kLines]) {
#pragma unroll
  for (int line = 0; line < kLines; line++) {
    const int row = min(target.first_row + lane_row(line), target.rows - 1);
    rows[line] = (GATED && line == 1 ? a.weights1 : target.weights) + u64(row) * Source::row_bytes(a.width);
  }
}

/** The lane's blocks, number `share` of each slab, of slabs from `first` on, as far as the segment goes. */
template <typename Source>
DEVICE void fetch_half(const u8* const (&rows)[kLines], int weight_blocks, const Segment& segment, int first, int share,
                       typename Source::Raw (&raw)[kHalfRing][kLines]) {
#pragma unroll
  for (int i = 0; i < kHalfRing; i++) {
    const int block = min(min(first + i, segment.end - 1) * kSlabBlocks + share, weight_blocks - 1);
#pragma unroll
    for (int line = 0; line < kLines; line++) raw[i][line] = Source::fetch(rows[line], weight_blocks, block);
  }
}

/** Products of one half of a slab, which are under way when this returns. */
DEVICE void multiply_group(Tile (&sums)[kTiles], const u32 (&left)[kLines][8], WidePlace place) {
  wide_begin();
#pragma unroll
  for (int step = 0; step < kSteps; step++)
    wide_multiply_add<kTokens>(sums, pack_fragment(left, step), chunks_on(place, step * 2));
  wide_end();
}

template <typename Source>
DEVICE void multiply_segment(const WideGemmArguments& a, const Target& target, const Segment& segment, int zero,
                             Tile (&sums)[kTiles], StageCount& count, const u8* shared, Handovers& handovers) {
  const u8* rows[kLines];
  find_rows<Source>(a, target, rows);
  const int weight_blocks = a.width / 32;
  // One half of the ring is decoded while the other is on its way.
  typename Source::Raw raw[2][kHalfRing][kLines];
  fetch_half<Source>(rows, weight_blocks, segment, segment.first, fragment_share(), raw[0]);
  dependency_wait();
#pragma unroll
  for (int tile = 0; tile < kTiles; tile++) clear_tile(sums[tile]);
  u32 left[2][kLines][8];
  int before = -1;
#pragma unroll 1
  for (int first = segment.first; first < segment.end; first += RING) {
#pragma unroll
    for (int slot = 0; slot < RING; slot++) {
      const int slab = first + slot;
      if (slab >= segment.end) break;
      const int half = slot / kHalfRing, place_in_half = slot % kHalfRing;
      if (place_in_half == 0)
        fetch_half<Source>(rows, weight_blocks, segment, slab + kHalfRing,
                           fragment_share() + when_here(raw[half][0][0], zero), raw[1 - half]);
      const int block = min(slab * kSlabBlocks + fragment_share(), weight_blocks - 1);
      // Of the slab before the first half's products are done with their registers, the second's may still run.
      wide_wait<1>();
#pragma unroll
      for (int line = 0; line < kLines; line++)
        Source::crossed(raw[half][place_in_half][line], block, 0, left[0][line]);
      stage_filled();
      await_handover(&handovers.full[count.stage], count.rounds & 1);
      const WidePlace place = wide_place(shared + count.stage * kStageBytes);
      multiply_group(sums, left[0], place);
      wide_wait<1>();
      if (before >= 0 && lane_index() == 0) hand_over(&handovers.empty[before]);
#pragma unroll
      for (int line = 0; line < kLines; line++)
        Source::crossed(raw[half][place_in_half][line], block, 1, left[1][line]);
      multiply_group(sums, left[1], chunks_on(place, kSlabChunks / 2));
      stage_used();
      before = count.stage;
      next_stage(count);
    }
  }
  wide_wait<0>();
  hold_sums(sums);
  if (lane_index() == 0) hand_over(&handovers.empty[before]);
}

DEVICE void multiply(const WideGemmArguments& a, const Share& share, const u8* shared, Handovers& handovers) {
  StageCount count = {0, 0};
  u32 unit = share.begin;
  const int zero = min(share.tokens, 0);
#pragma unroll 1
  while (unit < share.end) {
    const Segment segment = segment_at(share, unit);
    const Target target = find_target(a, share, segment.tile);
    Tile sums[kTiles];
    if (target.type == TYPE0) {
      multiply_segment<HalfSource<TYPE0>>(a, target, segment, zero, sums, count, shared, handovers);
    }
#if MATMULS > 1 && TYPE1 != TYPE0
    if (target.type == TYPE1)
      multiply_segment<HalfSource<TYPE1>>(a, target, segment, zero, sums, count, shared, handovers);
#endif
#if MATMULS > 2 && TYPE2 != TYPE0 && TYPE2 != TYPE1
    if (target.type == TYPE2)
      multiply_segment<HalfSource<TYPE2>>(a, target, segment, zero, sums, count, shared, handovers);
#endif
    if (add_parts(a, share, segment, sums)) write_sums(a, share, find_target(a, share, segment.tile), sums);
    unit += u32(segment.end - segment.first);
  }
}

KERNEL(wide_gemm, WideGemmArguments, kThreads) {
  DYNAMIC_SHARED(memory);
  SHARED Handovers handovers;
  dependency_release();
  u8* const shared = wide_start(memory);
  if (thread_index() == 0) {
#pragma unroll
    for (int stage = 0; stage < STAGES; stage++) {
      begin_handover(&handovers.full[stage], 1);
      begin_handover(&handovers.empty[stage], kTeams * 4);
    }
    handovers_begun();
  }
  // The row count comes with the step and is no kernel's, so it is read before dependency_wait().
  const Share share = block_share(a);
  barrier();
  if (thread_index() >= kUsers) {
    keep_registers<kKeptRegisters>();
    if (thread_index() >= kUsers + WAVE) return;
    bring_input(a, share, shared, handovers);
  } else {
    take_registers<kTakenRegisters>();
    multiply(a, share, shared, handovers);
  }
}
