// Matmuls of many tokens with F32, F16 or BF16 weights that keep the precision of f32: the logits of routers, whose nearest
// experts f16 would confuse, and F32 weights of models with recurrent layers, whose states would carry the error along.
// Rows of weights are few, so that vector units are fast enough; dot-float.hip has those of up to four rows.
// A block makes a tile of tokens × rows, a thread 8 × 8 results of it. A tile has so few results that the threads for one
// result each would not fill a block: the columns are divided among parts of the block, which add up their quads of every
// tile of columns, and whose sums are added in order at the end. Both inputs go through shared memory, the next tile of
// columns being on its way in registers. The order of a sum depends on the number of rows, never on the batch.
// Defines: TYPE0 of the weights, BIAS_TYPE: 0 (F32), 1 (F16) or 30 (BF16). SOFT_CAP: device/activation.h. MATMULS 1, or 2
//   of the same input, whose rows follow one another. TILE_TOKENS, TILE_ROWS: 32 or 64.
//   ALIGNED: matmul/float-quads.h.
// Grid: x = ⌈rows0 + rows1 ÷ TILE_ROWS⌉, y = ⌈tokens ÷ TILE_TOKENS⌉.
// v1 two tokens by four rows a thread, 32 tokens × 64 rows a block, one matrix. H200, 4,096 tokens of 2048: 256 rows 251 µs,
//    64 rows 178 µs, 32 rows 174 µs, one row 161 µs.
// v2 what is above: four times the results for a load from shared memory: 256 rows 148 µs (90 to 105 expected), 64
//    rows 84 (30 to 40).
#define RESIDENT_BLOCKS 2
#include "device/activation.h"
#include "matmul/float-quads.h"

#ifndef BIAS_TYPE
#define BIAS_TYPE 0
#endif
#ifndef MATMULS
#define MATMULS 1
#endif

constexpr int kTileThreads = 256;
constexpr int kTileTokens = TILE_TOKENS, kTileRows = TILE_ROWS;
/** Tokens and rows of a thread: those that are as far apart as a part of the block has lanes along them. */
constexpr int kOwn = 8;
constexpr int kTokenLanes = kTileTokens / kOwn, kRowLanes = kTileRows / kOwn;
constexpr int kPartThreads = kTokenLanes * kRowLanes;
constexpr int kParts = kTileThreads / kPartThreads;
/** Quads of columns in a tile, at least one for each part. */
constexpr int kTileQuads = kParts < 4 ? 4 : kParts;
constexpr int kPartQuads = kTileQuads / kParts;
/** Quads from one row to the next in shared memory: odd, so that neighbouring rows lie in different banks. */
constexpr int kStride = kTileQuads + 1;
/** Rows of both inputs, and those that the threads load at once. */
constexpr int kInputRows = kTileTokens + kTileRows, kLoadRows = kTileThreads / kTileQuads;
constexpr int kLoads = kInputRows / kLoadRows;
constexpr int kStageQuads = kInputRows * kStride;
constexpr int kSumQuads = kOwn * kOwn * kPartThreads / 4;
constexpr int kMemoryQuads = 2 * kStageQuads > kSumQuads ? 2 * kStageQuads : kSumQuads;
static_assert(kInputRows % kLoadRows == 0 && kTileTokens % kLoadRows == 0, "a load has rows of one input");

struct GemmFloatArguments {
  const float* inputs;
  const int* row_count;
  const u8* weights0;
  const u8* weights1;
  float* out0;
  float* out1;
  const u8* bias0;
  const u8* bias1;
  const float* factor0;
  const float* factor1;
  const float* residual;
  int input_stride;
  int width;
  int rows0;
  int rows1;
  int stride0;
  int stride1;
  int residual_stride;
};

/** What is on its way to a thread: a quad of every kLoadRows-th row of the inputs and then of the weights. */
struct TileQuads {
  Quad at[kLoads];
};

/** A row of the matrices, which follow one another. */
DEVICE const u8* weights_of(const GemmFloatArguments& a, int row) {
  if (MATMULS == 1 || row < a.rows0) return weights_row(a.weights0, row, a.width);
  return weights_row(a.weights1, row - a.rows0, a.width);
}

DEVICE int all_rows(const GemmFloatArguments& a) { return MATMULS == 1 ? a.rows0 : a.rows0 + a.rows1; }

DEVICE TileQuads load_tile(const GemmFloatArguments& a, int count, int first_token, int first_row, int quad) {
  const int place = thread_index() / kTileQuads;
  TileQuads quads;
#pragma unroll
  for (int i = 0; i < kLoads; i++) {
    const int index = i * kLoadRows + place;
    if (i * kLoadRows < kTileTokens) {
      // Tokens past the last one are computed like it and not written.
      const int token = min(first_token + index, count - 1);
      quads.at[i] = float_quad(a.inputs + u64(token) * u64(a.input_stride), a.width, quad);
    } else {
      const int row = min(first_row + index - kTileTokens, all_rows(a) - 1);
      quads.at[i] = weight_quad(weights_of(a, row), a.width, quad);
    }
  }
  return quads;
}

DEVICE void keep_tile(Quad* stage, const TileQuads& quads) {
  const int place = thread_index() / kTileQuads, quad = thread_index() % kTileQuads;
#pragma unroll
  for (int i = 0; i < kLoads; i++) stage[(i * kLoadRows + place) * kStride + quad] = quads.at[i];
}

struct alignas(16) Sums {
  float at[kOwn][kOwn];
};

/** The quads of this thread's part in a tile of columns. */
DEVICE void add_tile(const Quad* stage, Sums& sums) {
  const int part = thread_index() / kPartThreads, lane = thread_index() % kPartThreads;
  const Quad* const tokens = stage + lane / kRowLanes * kStride + part;
  const Quad* const rows = stage + (kTileTokens + lane % kRowLanes) * kStride + part;
#pragma unroll
  for (int q = 0; q < kPartQuads; q++) {
    Quad weights[kOwn];
#pragma unroll
    for (int r = 0; r < kOwn; r++) weights[r] = rows[r * kRowLanes * kStride + q * kParts];
#pragma unroll
    for (int t = 0; t < kOwn; t++) {
      const Quad token = tokens[t * kTokenLanes * kStride + q * kParts];
#pragma unroll
      for (int k = 0; k < 4; k++) {
#pragma unroll
        for (int r = 0; r < kOwn; r++) sums.at[t][r] = fma(token.at[k], weights[r].at[k], sums.at[t][r]);
      }
    }
  }
}

/** The sums of all parts, in order, in the threads of the first. */
DEVICE void add_parts(Quad* memory, Sums& sums) {
  const int part = thread_index() / kPartThreads, lane = thread_index() % kPartThreads;
#pragma unroll 1
  for (int other = 1; other < kParts; other++) {
    barrier();
#pragma unroll
    for (int t = 0; t < kOwn; t++) {
#pragma unroll
      for (int half = 0; half < 2; half++) {
        Quad& kept = memory[(t * 2 + half) * kPartThreads + lane];
        if (part == other) kept = *reinterpret_cast<const Quad*>(&sums.at[t][half * 4]);
      }
    }
    barrier();
#pragma unroll
    for (int t = 0; t < kOwn; t++) {
#pragma unroll
      for (int half = 0; half < 2; half++) {
        if (part != 0) continue;
        const Quad added = memory[(t * 2 + half) * kPartThreads + lane];
#pragma unroll
        for (int i = 0; i < 4; i++) sums.at[t][half * 4 + i] += added.at[i];
      }
    }
  }
}

KERNEL(gemm_float, GemmFloatArguments, kTileThreads) {
  SHARED Quad memory[kMemoryQuads];
  dependency_release();
  const int count = *a.row_count;
  dependency_wait();
  const int first_token = block_y() * kTileTokens, first_row = block_x() * kTileRows;
  if (first_token >= count) return;
  const int quads = quads_of(a.width), own_quad = thread_index() % kTileQuads;
  Sums sums = {};
  keep_tile(memory, load_tile(a, count, first_token, first_row, own_quad));
  barrier();
  int current = 0;
  for (int first = 0; first < quads; first += kTileQuads) {
    const bool more = first + kTileQuads < quads;
    TileQuads next = {};
    if (more) next = load_tile(a, count, first_token, first_row, first + kTileQuads + own_quad);
    add_tile(memory + current * kStageQuads, sums);
    current ^= 1;
    if (more) keep_tile(memory + current * kStageQuads, next);
    barrier();
  }
  add_parts(memory, sums);
  if (thread_index() >= kPartThreads) return;
#pragma unroll
  for (int r = 0; r < kOwn; r++) {
    const int index = first_row + r * kRowLanes + thread_index() % kRowLanes;
    if (index >= all_rows(a)) continue;
    const bool second = MATMULS > 1 && index >= a.rows0;
    const int row = second ? index - a.rows0 : index, stride = second ? a.stride1 : a.stride0;
    const u8* const biases = second ? a.bias1 : a.bias0;
    const float* const factors = second ? a.factor1 : a.factor0;
    float* const out = second ? a.out1 : a.out0;
    const float factor = factors == nullptr ? 1.0f : *factors;
    const float bias = biases == nullptr ? 0.0f : Plain<BIAS_TYPE>::value(biases, row);
#pragma unroll
    for (int t = 0; t < kOwn; t++) {
      const int token = first_token + t * kTokenLanes + thread_index() / kRowLanes;
      if (token >= count) continue;
      const float value = soft_capped(fma(sums.at[t][r], factor, bias));
      const bool adds = !second && a.residual != nullptr;
      const float added = adds ? a.residual[u64(token) * u64(a.residual_stride) + u64(row)] : 0.0f;
      out[u64(token) * u64(stride) + u64(row)] = value + added;
    }
  }
}
