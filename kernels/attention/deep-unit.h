// Scores and weighted values of one wave's tile of positions on the matrix units of NVIDIA (m16n8k16), all in registers:
// lines of queries are 8 heads in two parts, what f16 has of a number and the rest; a lane has both parts' scores of its
// head, and what it makes of them, weights in two parts, lies where the next product wants it.
//
//   scores   left: lines of queries (8 first parts, 8 second)   right: 8 keys       a lane: head lane / 4
//   values   left: 16 columns of 16 values                      right: 8 heads      a lane: heads 2 (lane % 4) and the next
#pragma once

/** A wave's heads: highest score and sum of weights of head lane / 4, and sums of values. */
struct DeepSums {
  float highest;
  float total;
  float back;
  u32 queries[kKeySteps][4];
  float values[kValueTiles][4];
};

/** After queries are staged; `backs` has what the scores of each head are multiplied by. */
DEVICE void begin_sums(const u16* queries, const float* backs, DeepSums& sums) {
  sums.highest = negative_infinity();
  sums.total = 0.0f;
  sums.back = backs[lane_index() / 4];
#pragma unroll
  for (int step = 0; step < kKeySteps; step++) {
    const Fragment lines = load_fragment(queries + step * 16, kKeyStride);
#pragma unroll
    for (int word = 0; word < 4; word++) sums.queries[step][word] = lines.words[word];
  }
#pragma unroll
  for (int tile = 0; tile < kValueTiles; tile++) {
#pragma unroll
    for (int element = 0; element < 4; element++) sums.values[tile][element] = 0.0f;
  }
}

/** Adds a tile; visible(position) says which of its positions count. */
template <typename Visible>
DEVICE void add_tile(const u16* keys, const u16* values, int first, DeepSums& sums, Visible visible) {
  // Of each eight positions the lane has two: [eight][position]. Two chains of products each, as one would wait for itself.
  float scores[kTile / 8][2];
  float top = sums.highest;
#pragma unroll
  for (int sixteen = 0; sixteen < kTile / 16; sixteen++) {
    float dots[2][2][4] = {};
#pragma unroll
    for (int step = 0; step < kKeySteps; step++) {
      const Fragment key = load_fragment(keys + sixteen * 16 * kKeyStride + step * 16, kKeyStride);
      const u32(&lines)[4] = sums.queries[step];
#pragma unroll
      for (int eight = 0; eight < 2; eight++)
        multiply_add_8(dots[step % 2][eight], lines[0], lines[1], lines[2], lines[3], key.words[eight],
                       key.words[eight + 2]);
    }
#pragma unroll
    for (int eight = 0; eight < 2; eight++) {
#pragma unroll
      for (int one = 0; one < 2; one++) {
        const float first_part = dots[0][eight][one] + dots[1][eight][one];
        const float rest = dots[0][eight][2 + one] + dots[1][eight][2 + one];
        const int position = first + sixteen * 16 + eight * 8 + lane_index() % 4 * 2 + one;
        const float score = visible(position) ? capped_score((first_part + rest) * sums.back) : negative_infinity();
        scores[sixteen * 2 + eight][one] = score;
        top = max(top, score);
      }
    }
  }
  top = wave_max<4>(top);
  const float base = top == negative_infinity() ? 0.0f : top;
  const float factor = exponential2(sums.highest - base);
  sums.highest = top;
  sums.total *= factor;
  const float factors[2] = {wave_from(factor, lane_index() % 4 * 8), wave_from(factor, lane_index() % 4 * 8 + 4)};
#pragma unroll
  for (int tile = 0; tile < kValueTiles; tile++) {
#pragma unroll
    for (int element = 0; element < 4; element++) sums.values[tile][element] *= factors[element % 2];
  }
#pragma unroll
  for (int sixteen = 0; sixteen < kTile / 16; sixteen++) {
    u32 weights[2][2];
#pragma unroll
    for (int eight = 0; eight < 2; eight++) {
      const float low = exponential2(scores[sixteen * 2 + eight][0] - base);
      const float high = exponential2(scores[sixteen * 2 + eight][1] - base);
      sums.total += low + high;
      const u32 halves = float2_to_half2(low * kWeightScale, high * kWeightScale);
      weights[0][eight] = halves;
      weights[1][eight] = float2_to_half2(fma(low, kWeightScale, -half_to_float(u16(halves))),
                                          fma(high, kWeightScale, -half_to_float(u16(halves >> 16))));
    }
#pragma unroll
    for (int tile = 0; tile < kValueTiles; tile++) {
      const Fragment columns = load_fragment_transposed(values + sixteen * 16 * kValueStride + tile * 16, kValueStride);
#pragma unroll
      for (int part = 0; part < 2; part++)
        multiply_add_8(sums.values[tile], columns.words[0], columns.words[1], columns.words[2], columns.words[3],
                       weights[part][0], weights[part][1]);
    }
  }
}

/** What the wave has come to, to part[head][column], highest[head] and totals[head]. */
DEVICE void put_sums(const DeepSums& sums, float* part, float* highest, float* totals) {
  const float total = wave_sum<4>(sums.total);
  if (lane_index() % 4 == 0) {
    highest[lane_index() / 4] = sums.highest;
    totals[lane_index() / 4] = total;
  }
#pragma unroll
  for (int tile = 0; tile < kValueTiles; tile++) {
#pragma unroll
    for (int element = 0; element < 4; element++) {
      const int head = lane_index() % 4 * 2 + element % 2;
      const int column = tile * 16 + lane_index() / 4 + element / 2 * 8;
      part[head * kPartStride + column] = sums.values[tile][element] * (1.0f / kWeightScale);
    }
  }
}
