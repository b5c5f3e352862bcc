// The last part of matmul/gemm.hip and matmul/int8-gemm.hip: what waves and blocks have summed for the same rows and tokens comes together,
// always in the same order, and goes out.
#pragma once

/** Calls `visit(number, sum)` for each of this lane's sums. */
template <typename Visit>
DEVICE void each_sum(Tile (&sums)[kHalves][kTiles], Visit visit) {
#pragma unroll
  for (int half = 0; half < kHalves; half++) {
#pragma unroll
    for (int tile = 0; tile < kTiles; tile++) {
#pragma unroll
      for (int i = 0; i < kTileElements; i++)
        visit((half * kTiles + tile) * kTileElements + i, sums[half][tile].values[i]);
    }
  }
}

/** Adds up what the waves of other depths have, in their order, in those of depth 0. */
DEVICE void add_depths(Tile (&sums)[kHalves][kTiles], const Place& place, u8* shared) {
  if (kDepthWaves == 1) return;
  float* const left = reinterpret_cast<float*>(shared) +
                      (place.token_wave * kRowWaves + place.row_wave) * kWaveSums * WAVE + lane_index();
  constexpr int depth_floats = kSumWaves * kWaveSums * WAVE;
  barrier();
  if (place.depth_wave > 0) {
    each_sum(sums, [&](int number, float& sum) { left[(place.depth_wave - 1) * depth_floats + number * WAVE] = sum; });
  }
  barrier();
  if (place.depth_wave > 0) return;
  for (int depth = 0; depth < kDepthWaves - 1; depth++) {
    each_sum(sums, [&](int number, float& sum) { sum += left[depth * depth_floats + number * WAVE]; });
  }
}

/**
 * Whether this block is the last of its splits to arrive; then its sums are those of all splits, added in their order.
 */
DEVICE bool add_splits(const GemmArguments& a, Tile (&sums)[kHalves][kTiles], const Place& place, int block,
                       u8* shared) {
  if (a.splits == 1) return true;
  constexpr int block_floats = kSumWaves * kWaveSums * WAVE;
  float* const left = a.partial + u64(block) * u64(a.splits) * block_floats +
                      (place.token_wave * kRowWaves + place.row_wave) * kWaveSums * WAVE + lane_index();
  if (place.depth_wave == 0) {
    float* const own = left + u64(block_z()) * block_floats;
    each_sum(sums, [&](int number, float& sum) { own[number * WAVE] = sum; });
  }
  device_fence();
  barrier();
  u32* const arrived = reinterpret_cast<u32*>(shared);
  if (thread_index() == 0) *arrived = atomic_add(a.arrivals + block, 1);
  barrier();
  if (*arrived != u32(a.splits - 1)) return false;
  device_fence();
  if (thread_index() == 0) a.arrivals[block] = 0;
  if (place.depth_wave > 0) return true;
  each_sum(sums, [&](int, float& sum) { sum = 0; });
  for (int split = 0; split < a.splits; split++) {
    const float* const theirs = left + u64(split) * block_floats;
    each_sum(sums, [&](int number, float& sum) { sum += theirs[number * WAVE]; });
  }
  return true;
}

/** What becomes of a lane's sums beside the scale of their row: a factor of all, and the biases of its rows. */
struct RowEpilogue {
  float factor;
  float bias[kHalves][kTileElements];
};

DEVICE RowEpilogue load_epilogue(const Target& target, const Place& place, const float* factor, const u8* bias) {
  RowEpilogue epilogue;
  epilogue.factor = factor == nullptr ? 1.0f : *factor;
#pragma unroll
  for (int half = 0; half < kHalves; half++) {
#pragma unroll
    for (int i = 0; i < kTileElements; i++) {
      const int row = min(tile_first_row(target, place, half) + sum_row(i), target.rows - 1);
      epilogue.bias[half][i] = bias == nullptr ? 0.0f : Plain<BIAS_TYPE>::value(bias, row);
    }
  }
  return epilogue;
}

DEVICE float apply_epilogue(float sum, float scale, const RowEpilogue& epilogue, int half, int i) {
  return soft_capped(sum * scale * epilogue.factor + epilogue.bias[half][i]);
}

/** Where waves of gate find what their partners have of up: in shared memory, a wave's lanes side by side. */
DEVICE const float* exchange_up(Tile (&sums)[kHalves][kTiles], const Place& place, u8* shared) {
  float* const left = reinterpret_cast<float*>(shared) +
                      (place.token_wave * kGateWaves + place.row_wave % kGateWaves) * kWaveSums * WAVE + lane_index();
  barrier();
  if (place.depth_wave == 0 && place.row_wave >= kGateWaves)
    each_sum(sums, [&](int number, float& sum) { left[number * WAVE] = sum; });
  barrier();
  return left;
}

/** Where this lane's residuals and results of a tile lie; past the last token or row, at the last. */
struct SumPlace {
  int token, row;
  bool wanted;
};

DEVICE SumPlace sum_place(const Target& target, const Place& place, int half, int tile, int i) {
  const int token = place.first_token + (place.token_wave * kTiles + tile) * 16 + sum_token(i);
  const int row = tile_first_row(target, place, half) + sum_row(i);
  return {min(token, place.tokens - 1), min(row, target.rows - 1), token < place.tokens && row < target.rows};
}

/**
 * `up`: where the wave has none of its own. `scales`: of the tokens, or null. Everything that is read comes before anything is written and depends on no
 * branch: loads one after the other would take longer than the matmul of a small matrix.
 */
DEVICE void write_sums(const GemmArguments& a, const Target& target, Tile (&sums)[kHalves][kTiles], const float* up,
                       const Place& place, const float* scales) {
  constexpr int Halves = GATED ? 1 : kHalves;
  const RowEpilogue own = load_epilogue(target, place, target.factor, target.bias);
  const RowEpilogue other = GATED ? load_epilogue(target, place, a.factor1, a.bias1) : own;
  float residual[Halves][kTiles][kTileElements] = {};
  if (a.residual != nullptr) {
#pragma unroll
    for (int half = 0; half < Halves; half++) {
#pragma unroll
      for (int tile = 0; tile < kTiles; tile++) {
#pragma unroll
        for (int i = 0; i < kTileElements; i++) {
          const SumPlace at = sum_place(target, place, half, tile, i);
          residual[half][tile][i] = a.residual[u64(at.token) * u64(a.residual_stride) + u64(at.row)];
        }
      }
    }
  }
#pragma unroll
  for (int tile = 0; tile < kTiles; tile++) {
#pragma unroll
    for (int i = 0; i < kTileElements; i++) {
      const float scale = scales == nullptr ? 1.0f : scales[(place.token_wave * kTiles + tile) * 16 + sum_token(i)];
#pragma unroll
      for (int half = 0; half < Halves; half++) {
        const SumPlace at = sum_place(target, place, half, tile, i);
        float value = apply_epilogue(sums[half][tile].values[i], scale, own, half, i);
        if (GATED) {
          const float sum = kHalves == 2 ? sums[kHalves - 1][tile].values[i] : up[(tile * kTileElements + i) * WAVE];
          value = gated_unit(value, apply_epilogue(sum, scale, other, half, i));
        }
        value += residual[half][tile][i];
        if (at.wanted) target.out[u64(at.token) * u64(target.stride) + u64(at.row)] = value;
      }
    }
  }
}
