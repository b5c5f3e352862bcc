// out[token][row] = Σ_k input[token][k] × weight[row][k] for more than a few tokens, on the matrix units: half rows
// times weights in their device layout, up to three matrices of one input in a launch. Every lane loads the weight
// blocks that the units want it to hold, straight into registers; only the input goes through shared memory. A block's
// waves lie along rows, tokens and depth (k); depths are added in order, and so are the splits of a matrix over several
// blocks, whose last one to arrive adds what all of them left in `partial`. So results never depend on which block was
// faster.
// Defines: TOKENS 16, 32, 64 or 128 a block; MATMULS 1 to 3 with TYPE0 … TYPE2; GATED: gate and up, of the same type
// and size, and out0 = activation(gate) × up; ACTIVATION and SOFT_CAP (device/activation.h); HALVES 1 or 2 tiles of 16
// rows a wave, ROW_WAVES and DEPTH_WAVES of a block, and WAVES, all of them. Width: a multiple of 32. Rows of a block:
// kRows, of gate and up together kRows.
// Grid: x = blocks over rows (of all matmuls; GATED: ⌈rows0 ÷ (kRows / 2)⌉), y = ⌈tokens ÷ TOKENS⌉, z = splits.
// partial: x × y × z × kRows × TOKENS floats; arrivals: x × y words, zero before the first launch, and left so by each.
// v1 weight blocks of 32 rows a wave in registers, one slab ahead; three stages of input by asynchronous copy (one,
//    held in registers, elsewhere). 126 registers at 16 tokens, 240 at 64 and 128 on sm_90. On an H200 8B's gate
//    and up take 71 µs at 16 tokens and 118 at 64.
// v2 16 rows a wave, up to 16 waves of 128 registers, blocks cut to the number of multiprocessors, weights asked for
//    where the last ones were used: steps of 8B take 4.7 instead of 6.0 ms at 16 tokens, 9.2 instead of 11.1 at 64.
//    Prefetching weights a few slabs ahead (into the device's cache) changed nothing.
// v3 the epilogue loads before it branches, and blocks begin with different slabs of the input, which all of them read: of
//    Gemma-3-12B's layer at 64 tokens gate and up take 69 instead of 92 µs, the others together 86 instead of 98. Two slabs of weights
//    in registers changed nothing; wide products (device/wide-matmul.h) instead of these took 127 µs for gate and up.
#ifndef RESIDENT_BLOCKS
#define RESIDENT_BLOCKS 1
#endif

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
#ifndef WAVES
#define HALVES 1
#define ROW_WAVES 8
#define DEPTH_WAVES 2
#define WAVES 16
#endif
#ifndef STAGES
#if !defined(ROCMFORGE_EMULATOR) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define STAGES 3
#else
#define STAGES 1
#endif
#endif

#define MATRIX_WAVES WAVES
#include "device/activation.h"
#include "device/async-copy.h"
#include "weights/half-blocks.h"
#include "device/matrix-unit.h"

struct GemmArguments {
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
  float* partial;
  u32* arrivals;
  int rows0;
  int rows1;
  int rows2;
  int stride0;
  int stride1;
  int stride2;
  int residual_stride;
  int halves_stride;
  int width;
  int splits;
};

constexpr int kTokens = TOKENS;
constexpr int kTokenWaves = TOKENS == 128 ? 2 : 1;
constexpr int kDepthWaves = DEPTH_WAVES;
constexpr int kRowWaves = ROW_WAVES;
constexpr int kSumWaves = kRowWaves * kTokenWaves;
constexpr int kThreads = WAVES * WAVE;
static_assert(WAVES == kSumWaves * kDepthWaves, "waves along rows, tokens and depth");
/** A wave has kHalves tiles of 16 rows by kTiles of 16 tokens. */
constexpr int kHalves = HALVES;
constexpr int kRows = kRowWaves * kHalves * 16;
constexpr int kBlockRows = GATED ? kRows / 2 : kRows;
constexpr int kTiles = kTokens / kTokenWaves / 16;
constexpr int kWaveSums = kHalves * kTiles * kTileElements;
/** Of a gated matmul a wave has a tile of gate and one of up, or the upper half of the waves has up's. */
constexpr int kGateWaves = GATED && kHalves == 1 ? kRowWaves / 2 : kRowWaves;
static_assert(!GATED || kHalves == 2 || kRowWaves % 2 == 0, "as many waves for gate as for up");
/** What the block multiplies between two barriers: a weight block a lane. */
constexpr int kSlabBlocks = kDepthWaves * kShares;
constexpr int kSlabBytes = kTokens * kSlabBlocks * 64;
constexpr int kThreadChunks = (kSlabBytes / 16 + kThreads - 1) / kThreads;

#include "matmul/tile-slab.h"
#include "matmul/tile-sums.h"

#if STAGES > 1

/** Slabs are copied in the background, STAGES - 1 ahead. */
template <typename Source>
DEVICE void multiply_slabs(const GemmArguments& a, const Place& place, const u8* const (&rows)[kHalves][kLines],
                           const SlabShare& share, typename Source::Raw (&raw)[kHalves][kLines],
                           Tile (&sums)[kHalves][kTiles], u8* shared) {
  const int weight_blocks = a.width / 32, own = place.depth_wave * kShares + fragment_share();
  const int count = share.end - share.first;
  int slab = share.start, copied = share.start;
#pragma unroll
  for (int stage = 0; stage < STAGES - 1; stage++) {
    if (stage < count) copy_slab<Source>(a, place, copied, shared + stage * kSlabBytes);
    end_copy_group();
    copied = slab_after(share, copied);
  }
  int stage = 0;
#pragma unroll 1
  for (int i = 0; i < count; i++) {
    wait_for_copy_groups<STAGES - 2>();
    barrier();
    const int free_stage = stage == 0 ? STAGES - 1 : stage - 1;
    if (i + STAGES - 1 < count) copy_slab<Source>(a, place, copied, shared + free_stage * kSlabBytes);
    end_copy_group();
    copied = slab_after(share, copied);
    // After the last slab the first once more rather than none: a branch here costs registers, and these bytes are near.
    const int next = slab_after(share, slab);
    multiply_slab<Source>(sums, raw, min(slab * kSlabBlocks + own, weight_blocks - 1), place,
                          shared + stage * kSlabBytes,
                          [&] { fetch_weights<Source>(rows, weight_blocks, next * kSlabBlocks + own, raw); });
    slab = next;
    stage = stage == STAGES - 1 ? 0 : stage + 1;
  }
  wait_for_copy_groups<0>();
}

#else

/** The next slab waits in registers while one is multiplied. */
template <typename Source>
DEVICE void multiply_slabs(const GemmArguments& a, const Place& place, const u8* const (&rows)[kHalves][kLines],
                           const SlabShare& share, typename Source::Raw (&raw)[kHalves][kLines],
                           Tile (&sums)[kHalves][kTiles], u8* shared) {
  const int weight_blocks = a.width / 32, own = place.depth_wave * kShares + fragment_share();
  Words4 held[kThreadChunks];
  int slab = share.start;
  hold_slab<Source>(a, place, slab, held);
#pragma unroll 1
  for (int left = share.end - share.first; left > 0; left--) {
    const int next = slab_after(share, slab);
    barrier();
    store_slab(held, shared);
    barrier();
    // After the last one the first once more: behind a branch, the weights' wait would be for these too.
    hold_slab<Source>(a, place, next, held);
    keep_load_order();
    multiply_slab<Source>(sums, raw, min(slab * kSlabBlocks + own, weight_blocks - 1), place, shared, [&] {
      // After the last slab the first once more rather than none: a branch here costs registers, and these bytes are near.
      fetch_weights<Source>(rows, weight_blocks, next * kSlabBlocks + own, raw);
    });
    slab = next;
  }
}

#endif

template <int Type>
DEVICE void gemm_tile(const GemmArguments& a, const Target& target, int block, u8* shared) {
  typedef HalfSource<Type> Source;
  const int wave = wave_index();
  // The row count comes with the step and is no kernel's, so it is read before dependency_wait().
  const Place place = {wave % kRowWaves, wave / kRowWaves % kTokenWaves, wave / kSumWaves, block_y() * kTokens,
                       *a.row_count};
  const int weight_blocks = a.width / 32;
  const SlabShare share = slab_share((weight_blocks + kSlabBlocks - 1) / kSlabBlocks, a.splits);

  const u8* rows[kHalves][kLines];
#pragma unroll
  for (int half = 0; half < kHalves; half++) {
#pragma unroll
    for (int line = 0; line < kLines; line++) {
      const int row = min(tile_first_row(target, place, half) + fragment_line(line), target.rows - 1);
      rows[half][line] = (is_up(place, half) ? a.weights1 : target.weights) + u64(row) * Source::row_bytes(a.width);
    }
  }
  typename Source::Raw raw[kHalves][kLines];
  fetch_weights<Source>(rows, weight_blocks, share.start * kSlabBlocks + place.depth_wave * kShares + fragment_share(),
                        raw);

  SHARED float scales[kTokens];
  dependency_wait();
  if (place.first_token >= place.tokens) return;
  for (int token = thread_index(); token < kTokens; token += kThreads)
    scales[token] = a.row_scales[min(place.first_token + token, place.tokens - 1)];
  Tile sums[kHalves][kTiles];
#pragma unroll
  for (int half = 0; half < kHalves; half++) {
#pragma unroll
    for (int tile = 0; tile < kTiles; tile++) clear_tile(sums[half][tile]);
  }
  multiply_slabs<Source>(a, place, rows, share, raw, sums, shared);
  add_depths(sums, place, shared);
  if (!add_splits(a, sums, place, block, shared)) return;
  const float* const up = GATED && kHalves == 1 ? exchange_up(sums, place, shared) : nullptr;
  if (place.depth_wave == 0 && place.row_wave < kGateWaves) write_sums(a, target, sums, up, place, scales);
}

KERNEL(gemm, GemmArguments, kThreads) {
  DYNAMIC_SHARED(shared);
  dependency_release();
  const Work work = find_work(a);
  if (work.type == TYPE0) gemm_tile<TYPE0>(a, work.target, work.block, shared);
#if MATMULS > 1 && TYPE1 != TYPE0
  if (work.type == TYPE1) gemm_tile<TYPE1>(a, work.target, work.block, shared);
#endif
#if MATMULS > 2 && TYPE2 != TYPE0 && TYPE2 != TYPE1
  if (work.type == TYPE2) gemm_tile<TYPE2>(a, work.target, work.block, shared);
#endif
}
