// Scores and weighted values of one wave's tile of positions by products of 16 × 16 × 16 (device/matrix-unit.h), on
// machines whose results have one column a lane. Lines of queries, and of weights, are 8 heads in two parts, what f16 has
// of a number and the rest; scores and weights pass through memory that the wave alone uses.
#pragma once

static_assert(MATRIX_LAYOUT != 80, "a lane has several columns: attention/deep-unit.h");

constexpr int kScoreStride = kTile + 4;
constexpr int kWeightStride = kTile + 8;
/** Lanes that share a head's positions. */
constexpr int kHeadLanes = WAVE / kHeads;

/** A wave's heads: highest score and sum of weights of head lane % 8, and sums of both its parts. */
struct DeepSums {
  float highest;
  float total;
  float back;
  const u16* queries;
  Tile values[kValueTiles];
};

/** After queries are staged; `backs` has what the scores of each head are multiplied by. */
DEVICE void begin_sums(const u16* queries, const float* backs, DeepSums& sums) {
  sums.highest = negative_infinity();
  sums.total = 0.0f;
  sums.back = backs[lane_index() % kHeads];
  sums.queries = queries;
#pragma unroll
  for (int tile = 0; tile < kValueTiles; tile++) clear_tile(sums.values[tile]);
}

/** Over the lanes of a head. */
DEVICE float highest_of_head(float value) {
#pragma unroll
  for (int mask = kHeads; mask < WAVE; mask *= 2) value = max(value, wave_xor(value, mask));
  return value;
}

/** Adds a tile; visible(position) says which of its positions count. */
template <typename Visible>
DEVICE void add_tile(const u16* keys, const u16* values, int first, DeepSums& sums, Visible visible) {
  SHARED float scores_of_waves[kWaves][2 * kHeads * kScoreStride];
  SHARED Words4 weights_of_waves[kWaves][2 * kHeads * kWeightStride / 8];
  float* const scores = scores_of_waves[wave_index()];
  u16* const weights = reinterpret_cast<u16*>(weights_of_waves[wave_index()]);
#pragma unroll
  for (int place = 0; place < kTile; place += 16) {
    Tile dots;
    clear_tile(dots);
#pragma unroll 4
    for (int step = 0; step < kKeySteps; step++)
      multiply_add(dots, load_fragment(sums.queries + step * 16, kKeyStride),
                   load_fragment(keys + place * kKeyStride + step * 16, kKeyStride));
#pragma unroll
    for (int element = 0; element < kTileElements; element++)
      scores[tile_row(element) * kScoreStride + place + tile_column(element)] = dots.values[element];
  }
  wave_barrier();

  const int head = lane_index() % kHeads;
  float own[kTile / kHeadLanes];
  float top = sums.highest;
#pragma unroll
  for (int index = 0; index < kTile / kHeadLanes; index++) {
    const int place = index * kHeadLanes + lane_index() / kHeads;
    const float score =
        (scores[head * kScoreStride + place] + scores[(kHeads + head) * kScoreStride + place]) * sums.back;
    own[index] = visible(first + place) ? capped_score(score) : negative_infinity();
    top = max(top, own[index]);
  }
  top = highest_of_head(top);
  const float base = top == negative_infinity() ? 0.0f : top;
  const float factor = exponential2(sums.highest - base);
  sums.highest = top;
  sums.total *= factor;
#pragma unroll
  for (int index = 0; index < kTile / kHeadLanes; index++) {
    const int place = index * kHeadLanes + lane_index() / kHeads;
    const float weight = exponential2(own[index] - base);
    sums.total += weight;
    const u16 half = float_to_half(weight * kWeightScale);
    weights[head * kWeightStride + place] = half;
    weights[(kHeads + head) * kWeightStride + place] = float_to_half(fma(weight, kWeightScale, -half_to_float(half)));
  }
  wave_barrier();

  // The column of a lane's results is a line of its own head.
#pragma unroll
  for (int tile = 0; tile < kValueTiles; tile++) {
#pragma unroll
    for (int element = 0; element < kTileElements; element++) sums.values[tile].values[element] *= factor;
  }
#pragma unroll
  for (int place = 0; place < kTile; place += 16) {
    const Fragment lines = load_fragment(weights + place, kWeightStride);
#pragma unroll
    for (int tile = 0; tile < kValueTiles; tile++) {
      multiply_add(sums.values[tile], load_fragment_transposed(values + place * kValueStride + tile * 16, kValueStride),
                   lines);
      // Else every operand is loaded at once, which takes more registers than gfx11 has.
      settle(sums.values[tile].values[0]);
    }
  }
}

/** What the wave has come to, to part[head][column], highest[head] and totals[head]. */
DEVICE void put_sums(const DeepSums& sums, float* part, float* highest, float* totals) {
  float total = sums.total;
#pragma unroll
  for (int mask = kHeads; mask < WAVE; mask *= 2) total += wave_xor(total, mask);
  if (lane_index() < kHeads) {
    highest[lane_index()] = sums.highest;
    totals[lane_index()] = total;
  }
#pragma unroll
  for (int tile = 0; tile < kValueTiles; tile++) {
#pragma unroll
    for (int element = 0; element < kTileElements; element++) {
      const float sum = sums.values[tile].values[element];
      const float both = sum + wave_xor(sum, kHeads);
      if (lane_index() % 16 < kHeads)
        part[lane_index() % kHeads * kPartStride + tile * 16 + tile_row(element)] = both * (1.0f / kWeightScale);
    }
  }
}
