// What becomes of the sums of matmul/row-stream.h: added up over lanes, times a factor, with bias and residual, and written as
// f32 rows or quantized ones. After THREADS, ROWS, BIAS_TYPE and what depends on them.
#pragma once
#include "device/activation.h"
#include "rows/prepared-row.h"
#include "weights/weights.h"

/** One matrix of a launch and what becomes of its matmul: × factor + bias + residual, each where there is one. */
struct Matmul {
  const u8* weights;
  float* out;
  const u8* bias;
  const float* factor;
  const float* residual;
  int rows;
  int stride;
  int residual_stride;
};

/** Where a gated matmul goes when its reader wants quantized rows: rows of `width` columns. */
struct QuantizedTarget {
  i8* values;
  float* scales;
  float* sums;
  int width;
};

/** Halves the number of sums that a lane has with every halving of the distance to the lanes it adds up with. */
template <int Count, int Distance>
struct SpreadSums {
  DEVICE float over_lanes(const float (&sums)[Count]) {
    const bool upper = (lane_index() & Distance) != 0;
    float kept[Count / 2];
#pragma unroll
    for (int i = 0; i < Count / 2; i++) {
      const float given = upper ? sums[i] : sums[i + Count / 2];
      kept[i] = (upper ? sums[i + Count / 2] : sums[i]) + wave_xor(given, Distance);
    }
    return SpreadSums<Count / 2, Distance / 2>::over_lanes(kept);
  }
};

template <int Distance>
struct SpreadSums<1, Distance> {
  DEVICE float over_lanes(const float (&sums)[1]) { return wave_sum<Distance * 2>(sums[0]); }
};

/** Sums over the lanes of a wave, Count of them at once: lane l gets the one of index l × Count ÷ WAVE. The additions of
 *  each are those of wave_sum. */
template <int Count>
DEVICE float spread_sums(const float (&sums)[Count]) {
  static_assert(Count <= WAVE && (Count & (Count - 1)) == 0, "a lane at least for each sum");
  return SpreadSums<Count, WAVE / 2>::over_lanes(sums);
}

/** What the end of a pass needs beside the sums, asked for at its beginning. */
struct Epilogue {
  float factor;
  float bias;
  float residual;
};

DEVICE Epilogue load_epilogue(const Matmul& matmul, int token, int row) {
  Epilogue epilogue = {1.0f, 0.0f, 0.0f};
  if (matmul.factor != nullptr) epilogue.factor = *matmul.factor;
  if (matmul.bias != nullptr) epilogue.bias = Plain<BIAS_TYPE>::value(matmul.bias, row);
  if (matmul.residual != nullptr)
    epilogue.residual = matmul.residual[u64(token) * u64(matmul.residual_stride) + u64(row)];
  return epilogue;
}

DEVICE float apply_epilogue(const Epilogue& epilogue, float sum) {
  return soft_capped(fma(sum, epilogue.factor, epilogue.bias)) + epilogue.residual;
}

/** 32 neighbouring columns of each token, from shared memory; eight lanes a token. `column` is a multiple of 32. */
template <int Tokens>
DEVICE void write_quantized_columns(const float* results, const QuantizedTarget& target, int first_token, int live,
                                    int column) {
  for (int first = 0; first < Tokens * kBlockLanes; first += THREADS) {
    const int token = (first + thread_index()) / kBlockLanes, lane = thread_index() % kBlockLanes;
    const float* const from = results + min(token, Tokens - 1) * kQuantizedRows + lane * 4;
    const QuantizedPlace place =
        quantized_place(target.values, target.scales, target.sums, first_token + token, target.width);
    write_quantized_quad(place, column / 4 + lane, {{from[0], from[1], from[2], from[3]}}, token < live);
  }
}
