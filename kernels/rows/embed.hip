// Rows of a table, one for each token, unpacked: out[t] = table[tokens[t]] × EMBED_SCALE, to the bit as src/quant
// decodes them; without the define rows are not scaled. A negative token −1 − w is word w of the previous step's results,
// which that step has chosen while this one was already queued.
// GATHERED 1: row t of the table is that of token t, from a table that stays in host memory.
// TYPE0: the table's ggml type, any that weights/weights.h knows. A thread makes 32 columns of a quantised row, 4 of a
// plain one.
// Grid: x = ⌈width ÷ (128 × columns a thread)⌉, y = tokens.
// v1 one block a thread. Latency only: 4096 columns are one block. Not measured yet.
#include "device/quad.h"
#include "weights/weights.h"

#ifndef GATHERED
#define GATHERED 0
#endif
#ifdef EMBED_SCALE
constexpr float kEmbedScale = float(EMBED_SCALE);
#else
constexpr float kEmbedScale = 1.0f;
#endif

/** Four neighbouring columns, scaled. */
DEVICE void write_scaled(const Row& out, int quad, Quad values) {
  if (kEmbedScale != 1.0f) {
#pragma unroll
    for (int i = 0; i < 4; i++) values.at[i] *= kEmbedScale;
  }
  write_quad(out, quad, values);
}

struct EmbedArguments {
  const u8* table;
  const int* tokens;
  const int* results;
  const int* row_count;
  float* out;
  int width;
  int rows;
  int stride;
};

template <int Type>
struct Unpack {
  static constexpr int columns = kBlockWeights;

  DEVICE void columns_from(const u8* table, u64 row, int column, const Row& out) {
    typedef Format<Type> Weights;
    if (column >= out.width) return;
    const int index = column / kBlockWeights;
    const Block block = Weights::decode(
        Weights::fetch(table + row * Weights::row_bytes(out.width), out.width / kBlockWeights, index), index);
#pragma unroll
    for (int group = 0; group < 2; group++) {
      const int quad = Weights::column(index, group) / 4;
#pragma unroll
      for (int i = 0; i < 4; i++) {
        Quad values;
#pragma unroll
        for (int k = 0; k < 4; k++) values.at[k] = block_value(block, group, i * 4 + k);
        write_scaled(out, quad + i, values);
      }
    }
  }
};

template <int Type>
struct UnpackPlain {
  static constexpr int columns = 4;

  DEVICE void columns_from(const u8* table, u64 row, int column, const Row& out) {
    const u8* const from = table + row * u64(out.width) * Plain<Type>::element_bytes;
    Quad values = {{0, 0, 0, 0}};
#pragma unroll
    for (int k = 0; k < 4; k++) {
      if (column + k < out.width) values.at[k] = Plain<Type>::value(from, column + k);
    }
    write_scaled(out, column / 4, values);
  }
};

template <>
struct Unpack<kF32> : UnpackPlain<kF32> {};
template <>
struct Unpack<kF16> : UnpackPlain<kF16> {};
template <>
struct Unpack<kBF16> : UnpackPlain<kBF16> {};

constexpr int kEmbedThreads = 128;

KERNEL(embed_rows, EmbedArguments, kEmbedThreads) {
  dependency_release();
  dependency_wait();
  const int token = block_y();
  if (token >= *a.row_count) return;
  const int known = GATHERED ? token : a.tokens[token];
  const int id = known < 0 ? a.results[-1 - known] : known;
  // Ids were checked when the step was made; a wrong one must not read elsewhere all the same.
  const u64 row = id >= 0 && id < a.rows ? u64(id) : 0;
  const int column = (block_x() * kEmbedThreads + thread_index()) * Unpack<TYPE0>::columns;
  Unpack<TYPE0>::columns_from(a.table, row, column, row_of(a.out + u64(token) * u64(a.stride), a.width));
}
