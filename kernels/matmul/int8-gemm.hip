// out[token][row] = Σ_k input[token][k] × weight[row][k] for more than a few tokens by the matrix units' products of bytes: rows
// quantized as for a GEMV (rows/prepared-row.h) times weights of Q4_0, Q8_0, Q4_K or Q6_K, which stay whole numbers. A block of
// 32 columns is one product of 16 × 16 × 32, exact, and then multiplied by the scales of its row and its token: so it
// spares turning weights into halves, and pays for every tile of 16 tokens instead. docs/amd.md has the counts, by which
// steps of few tokens take it. Everything else is as in matmul/gemm.hip: blocks, waves, splits, the order of sums.
// Defines: TOKENS 16, 32, 64 or 128 a block; MATMULS, TYPE0 … TYPE2, GATED, ACTIVATION, SOFT_CAP, HALVES, ROW_WAVES,
// DEPTH_WAVES and WAVES as there. Width: a multiple of 128. Grid, partial and arrivals as there.
// v1 a row's lanes share its blocks, four at a time; minimums by products of floats where the units have them. Not measured yet.
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

#define MATRIX_WAVES WAVES
#include "device/activation.h"
#include "device/matrix-bytes.h"

struct GemmArguments {
  const u8* values;
  const float* scales;
  const float* sums;
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
/** What the block multiplies between two barriers: four weight blocks of every row and wave of the depth. */
constexpr int kSlabBlocks = kDepthWaves * 4;

#include "matmul/byte-slab.h"
#include "matmul/tile-sums.h"

/** A wave's rows: the first one's place, the same for all lanes, and bytes from there to each lane's. */
struct WaveRows {
  const u8* first[kHalves];
  u32 lanes[kHalves];
};

template <typename Source>
DEVICE WaveRows wave_rows(const GemmArguments& a, const Target& target, const Place& place) {
  WaveRows rows;
  const u64 row_bytes = Source::row_bytes(a.width);
#pragma unroll
  for (int half = 0; half < kHalves; half++) {
    const int first = min(tile_first_row(target, place, half), target.rows - 1);
    const int row = min(first + fragment_line(0), target.rows - 1);
    rows.first[half] = (is_up(place, half) ? a.weights1 : target.weights) + u64(first) * row_bytes;
    rows.lanes[half] = u32(row - first) * u32(row_bytes);
  }
  return rows;
}

template <typename Source>
DEVICE void fetch_weights(const WaveRows& rows, int weight_blocks, int weight_block,
                          typename Source::Raw (&raw)[kHalves]) {
  // Past the last, whose tokens are zero: the last four.
  const int block = min(weight_block, weight_blocks - kByteBlocks);
#pragma unroll
  for (int half = 0; half < kHalves; half++) {
    // Added by the loads themselves, to a place that is the same for all lanes.
    const u32 lane = u32(anew(int(rows.lanes[half])));
    raw[half] = Source::fetch(rows.first[half], lane, weight_blocks, block);
  }
}

/** The next slab of the input waits in registers while one is multiplied. */
template <typename Source>
DEVICE void multiply_slabs(const GemmArguments& a, const Place& place, const WaveRows& rows, const SlabShare& share,
                           typename Source::Raw (&raw)[kHalves], Tile (&sums)[kHalves][kTiles], u8* shared) {
  SHARED Words4 exchanges[WAVES][kExchangeBytes / 16];
  u8* const exchange = reinterpret_cast<u8*>(exchanges[wave_index()]);
  const int weight_blocks = a.width / 32, own = place.depth_wave * kByteBlocks;
  HeldSlab held;
  int slab = share.start;
  hold_slab(a, place, slab, Source::has_minimum, held);
#pragma unroll 1
  for (int left = share.end - share.first; left > 0; left--) {
    const int next = slab_after(share, slab);
    barrier();
    store_slab(held, Source::has_minimum, shared);
    barrier();
    // After the last slab the first once more rather than none: a branch here costs registers, and these bytes are near.
    hold_slab(a, place, next, Source::has_minimum, held);
    keep_load_order();
    multiply_slab<Source>(sums, raw, place, shared, exchange,
                          [&] { fetch_weights<Source>(rows, weight_blocks, next * kSlabBlocks + own, raw); });
    slab = next;
  }
}

template <int Type>
DEVICE void gemm_tile(const GemmArguments& a, const Target& target, int block, u8* shared) {
  typedef ByteSource<Type> Source;
  const int wave = wave_index();
  // The row count comes with the step and is no kernel's, so it is read before dependency_wait().
  const Place place = {wave % kRowWaves, wave / kRowWaves % kTokenWaves, wave / kSumWaves, block_y() * kTokens,
                       *a.row_count};
  const int weight_blocks = a.width / 32;
  const SlabShare share = slab_share((weight_blocks + kSlabBlocks - 1) / kSlabBlocks, a.splits);
  const WaveRows rows = wave_rows<Source>(a, target, place);
  typename Source::Raw raw[kHalves];
  fetch_weights<Source>(rows, weight_blocks, share.start * kSlabBlocks + place.depth_wave * kByteBlocks, raw);
  dependency_wait();
  if (place.first_token >= place.tokens) return;
  Tile sums[kHalves][kTiles];
#pragma unroll
  for (int half = 0; half < kHalves; half++) {
#pragma unroll
    for (int tile = 0; tile < kTiles; tile++) clear_tile(sums[half][tile]);
  }
  multiply_slabs<Source>(a, place, rows, share, raw, sums, shared);
  if (Source::unit != 1.0f) each_sum(sums, [&](int, float& sum) { sum *= Source::unit; });
  add_depths(sums, place, shared);
  if (!add_splits(a, sums, place, block, shared)) return;
  const float* const up = GATED && kHalves == 1 ? exchange_up(sums, place, shared) : nullptr;
  if (place.depth_wave == 0 && place.row_wave < kGateWaves) write_sums(a, target, sums, up, place, nullptr);
}

KERNEL(int8_gemm, GemmArguments, kThreads) {
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
