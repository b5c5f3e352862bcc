// Matmuls of many tokens with F32, F16 or BF16 weights that keep the precision of f32: the logits of routers, whose nearest
// experts f16 would confuse, and F32 weights of models with recurrent layers, whose states would carry the error along.
// Rows of weights are few, so that vector units are fast enough.
// A block makes 32 tokens × 64 rows; both inputs go through shared memory 32 columns at a time, the next ones being on
// their way in registers. A sum runs over the columns in order, whatever the batch.
// Defines: TYPE0 of the weights, BIAS_TYPE: 0 (F32), 1 (F16) or 30 (BF16). SOFT_CAP: device/activation.h.
// Grid: x = ⌈rows ÷ 64⌉, y = ⌈tokens ÷ 32⌉.
// v1 two tokens by four rows a thread. Not measured yet.
#include "device/activation.h"
#include "device/quad.h"
#include "weights/weights.h"

#ifndef BIAS_TYPE
#define BIAS_TYPE 0
#endif

constexpr int kTileThreads = 256;
constexpr int kTileTokens = 32;
constexpr int kTileRows = 64;
constexpr int kTileColumns = 32;
/** Floats from one column to the next in shared memory: quads stay whole. */
constexpr int kTokenStride = kTileTokens + 4;
constexpr int kRowStride = kTileRows + 4;
constexpr int kColumnQuads = kTileColumns / 4;
/** Rows of weights that the threads load at once, a quad of columns each. */
constexpr int kLoadRows = kTileThreads / kColumnQuads;
static_assert(kLoadRows == kTileTokens, "a thread loads one quad of tokens");

struct GemmFloatArguments {
  const float* inputs;
  const int* row_count;
  const u8* weights;
  const u8* bias;
  const float* factor;
  const float* residual;
  float* out;
  int input_stride;
  int width;
  int rows;
  int stride;
  int residual_stride;
};

/** What is on its way to a thread: a quad of a token, and one of every 32nd row. */
struct TileQuads {
  Quad token;
  Quad rows[kTileRows / kLoadRows];
};

DEVICE Quad read_plain(const u8* row, int width, int column) {
  if (TYPE0 == kF32) return read_quad(row_of(reinterpret_cast<const float*>(row), width), column / 4);
  Quad result;
#pragma unroll
  for (int i = 0; i < 4; i++) result.at[i] = column + i < width ? Plain<TYPE0>::value(row, column + i) : 0.0f;
  return result;
}

DEVICE TileQuads load_tile(const GemmFloatArguments& a, int token, bool live, int first_row, int column) {
  TileQuads quads = {};
  if (live) quads.token = read_quad(row_of(a.inputs, token, a.input_stride, a.width), column / 4);
#pragma unroll
  for (int i = 0; i < kTileRows / kLoadRows; i++) {
    const int row = min(first_row + i * kLoadRows + thread_index() / kColumnQuads, a.rows - 1);
    quads.rows[i] = read_plain(a.weights + u64(row) * u64(a.width) * Plain<TYPE0>::element_bytes, a.width, column);
  }
  return quads;
}

KERNEL(gemm_float, GemmFloatArguments, kTileThreads) {
  SHARED Quad token_memory[kTileColumns * kTokenStride / 4];
  SHARED Quad row_memory[kTileColumns * kRowStride / 4];
  float* const tokens = reinterpret_cast<float*>(token_memory);
  float* const rows = reinterpret_cast<float*>(row_memory);
  dependency_release();
  const int count = *a.row_count;
  dependency_wait();
  const int first_token = block_y() * kTileTokens, first_row = block_x() * kTileRows;
  if (first_token >= count) return;
  const int thread = thread_index();
  const int loaded = thread / kColumnQuads, quad_column = thread % kColumnQuads * 4;
  const bool live = first_token + loaded < count;
  const int own_row = thread % (kTileRows / 4) * 4, own_token = thread / (kTileRows / 4) * 2;
  float sums[2][4] = {};
  TileQuads next = load_tile(a, first_token + loaded, live, first_row, quad_column);
  for (int column = 0; column < a.width; column += kTileColumns) {
    barrier();
#pragma unroll
    for (int i = 0; i < 4; i++) {
      tokens[(quad_column + i) * kTokenStride + loaded] = next.token.at[i];
#pragma unroll
      for (int r = 0; r < kTileRows / kLoadRows; r++)
        rows[(quad_column + i) * kRowStride + r * kLoadRows + loaded] = next.rows[r].at[i];
    }
    barrier();
    if (column + kTileColumns < a.width)
      next = load_tile(a, first_token + loaded, live, first_row, column + kTileColumns + quad_column);
#pragma unroll 8
    for (int k = 0; k < kTileColumns; k++) {
      const Quad weights = *reinterpret_cast<const Quad*>(rows + k * kRowStride + own_row);
      const float first = tokens[k * kTokenStride + own_token], second = tokens[k * kTokenStride + own_token + 1];
#pragma unroll
      for (int i = 0; i < 4; i++) {
        sums[0][i] = fma(first, weights.at[i], sums[0][i]);
        sums[1][i] = fma(second, weights.at[i], sums[1][i]);
      }
    }
  }
  const float factor = a.factor == nullptr ? 1.0f : *a.factor;
#pragma unroll
  for (int i = 0; i < 4; i++) {
    const int row = first_row + own_row + i;
    if (row >= a.rows) continue;
    const float bias = a.bias == nullptr ? 0.0f : Plain<BIAS_TYPE>::value(a.bias, row);
#pragma unroll
    for (int t = 0; t < 2; t++) {
      const int token = first_token + own_token + t;
      if (token >= count) continue;
      const float value = soft_capped(fma(sums[t][i], factor, bias));
      const float added = a.residual == nullptr ? 0.0f : a.residual[u64(token) * u64(a.residual_stride) + u64(row)];
      a.out[u64(token) * u64(a.stride) + u64(row)] = value + added;
    }
  }
}
