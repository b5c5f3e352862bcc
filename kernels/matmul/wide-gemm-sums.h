// The last part of matmul/wide-gemm.hip: what several blocks have summed for one tile comes together, always in the same
// order, and goes out. Knows WideGemmArguments, Share and the block's shape.
#pragma once

/** The matrix and the rows and tokens of it that a tile has. */
struct Target {
  const u8* weights;
  const u8* bias;
  const float* factor;
  float* out;
  int type;
  int rows;
  int stride;
  int first_row;
  int first_token;
};

DEVICE Target find_target(const WideGemmArguments& a, const Share& share, int tile) {
  const int row_tile = tile / share.token_tiles, first_token = (tile - row_tile * share.token_tiles) * kTokens;
  const int tiles0 = tiles_of(a.rows0), tiles1 = MATMULS > 1 && !GATED ? tiles_of(a.rows1) : 0;
  if (MATMULS > 2 && row_tile >= tiles0 + tiles1) {
    return {a.weights2, a.bias2, a.factor2, a.out2, TYPE2, a.rows2, a.stride2, (row_tile - tiles0 - tiles1) * kTileRows,
            first_token};
  }
  if (MATMULS > 1 && row_tile >= tiles0) {
    return {a.weights1, a.bias1, a.factor1, a.out1, TYPE1, a.rows1, a.stride1, (row_tile - tiles0) * kTileRows,
            first_token};
  }
  return {a.weights0, a.bias0, a.factor0, a.out0, TYPE0, a.rows0, a.stride0, row_tile * kTileRows, first_token};
}

/** Which of the tile's rows line 0 or 1 of this lane is; of gate and up both have the same. */
DEVICE int lane_row(int line) {
  return GATED ? wave_index() * 8 + fragment_line(0) : wave_index() * 16 + fragment_line(line);
}

DEVICE int block_of(const WideGemmArguments& a, const Share& share, u32 unit) {
  return int((u64(unit + 1) * u64(a.blocks) - 1) / u64(share.units));
}

/** The compiler moves no reads or writes of memory across this. */
DEVICE void hold_order() {
#if !defined(ROCMFORGE_EMULATOR)
  asm volatile("" ::: "memory");
#endif
}

/** Keeps the compiler from using sums before the wait that precedes this. */
DEVICE void hold_sums(Tile (&sums)[kTiles]) {
#if !defined(ROCMFORGE_EMULATOR)
#pragma unroll
  for (int tile = 0; tile < kTiles; tile++) {
#pragma unroll
    for (int element = 0; element < kTileElements; element++)
      asm volatile("" : "+f"(sums[tile].values[element])::"memory");
  }
#endif
}

struct alignas(16) FourSums {
  float at[4];
};

/** Tiles whose sums are read at once: more would need registers that the sums have. */
constexpr int kTilesTogether = 2;

/** Calls `visit(number, sums)` for each four of this lane's sums. */
template <typename Visit>
DEVICE void each_four(Tile (&sums)[kTiles], Visit visit) {
#pragma unroll
  for (int tile = 0; tile < kTiles; tile++) {
    if (tile % kTilesTogether == 0) hold_order();
#pragma unroll
    for (int first = 0; first < kTileElements; first += 4) {
      FourSums four = {{sums[tile].values[first], sums[tile].values[first + 1], sums[tile].values[first + 2],
                        sums[tile].values[first + 3]}};
      visit((tile * kTileElements + first) / 4, four);
#pragma unroll
      for (int i = 0; i < 4; i++) sums[tile].values[first + i] = four.at[i];
    }
  }
}

/** That add_parts() has. */
constexpr int kPartBarriers = 3;

/** Where this thread's sums of a block's first or last tile lie. */
DEVICE FourSums* part_place(const WideGemmArguments& a, int block, bool last) {
  return reinterpret_cast<FourSums*>(a.partial) + u64(block * 2 + (last ? 1 : 0)) * (kLaneSums / 4 * kUsers) +
         thread_index();
}

/**
 * Whether this block is the last of its tile's to arrive, or the only one; then its sums are those of all, added in
 * their order.
 */
DEVICE bool add_parts(const WideGemmArguments& a, const Share& share, const Segment& segment, Tile (&sums)[kTiles]) {
  if (is_whole(share, segment)) return true;
  const u32 first_unit = u32(segment.tile) * u32(share.slabs);
  const int first = block_of(a, share, first_unit), last = block_of(a, share, first_unit + u32(share.slabs) - 1);
  SHARED u32 arrived;
  FourSums* const own = part_place(a, block_x(), block_x() == first);
  each_four(sums, [&](int number, FourSums& four) { own[number * kUsers] = four; });
  device_fence();
  users_barrier<kUsers>();
  if (thread_index() == 0) arrived = atomic_add(a.arrivals + first, 1);
  users_barrier<kUsers>();
  const bool is_last = arrived == u32(last - first);
  // The next tile's count goes to the same place.
  users_barrier<kUsers>();
  if (!is_last) return false;
  device_fence();
  if (thread_index() == 0) a.arrivals[first] = 0;
  const FourSums* const begun = part_place(a, first, true);
  each_four(sums, [&](int number, FourSums& four) { four = begun[number * kUsers]; });
#pragma unroll 1
  for (int block = first + 1; block <= last; block++) {
    const FourSums* const theirs = part_place(a, block, false);
    each_four(sums, [&](int number, FourSums& four) {
      const FourSums part = theirs[number * kUsers];
#pragma unroll
      for (int i = 0; i < 4; i++) four.at[i] += part.at[i];
    });
  }
  return true;
}

DEVICE float bias_of(const u8* bias, int row) { return bias == nullptr ? 0.0f : Plain<BIAS_TYPE>::value(bias, row); }

/**
 * Panels have this scale, whatever their values, since no block knows the largest of a row: 64 times as large as halves may be
 * is more than activations are, and below 0.004, where it costs bits, values hardly count beside the others of a row.
 */
constexpr float kPanelScale = 64.0f;
constexpr float kMaxHalf = 65504.0f;

/** A value of the next matmul's input; infinity and NaN stay what they are. */
DEVICE void write_panel(const WideGemmArguments& a, int token, int column, float value) {
  const float scaled = value * (1.0f / kPanelScale), size = magnitude(scaled);
  const float kept = size > kMaxHalf && size < float_of(0x7f800000u) ? (scaled < 0.0f ? -kMaxHalf : kMaxHalf) : scaled;
  u16* const tile = a.panels + u64(token / kTokens) * u64(a.panel_stride) * u64(kTokens);
  tile[panel_half(kTokens, token % kTokens, column)] = float_to_half(kept);
  if (column == 0) a.panel_scales[token] = kPanelScale;
}

/** All that is read of a tile of 16 tokens comes before anything of it is written, and depends on no branch. */
DEVICE void write_sums(const WideGemmArguments& a, const Share& share, const Target& target, Tile (&sums)[kTiles]) {
  const float factor = target.factor == nullptr ? 1.0f : *target.factor;
  const float up_factor = !GATED || a.factor1 == nullptr ? 1.0f : *a.factor1;
  int rows[2];
  float bias[2];
#pragma unroll
  for (int line = 0; line < 2; line++) {
    rows[line] = target.first_row + lane_row(line);
    bias[line] = bias_of(GATED && line == 1 ? a.bias1 : target.bias, min(rows[line], target.rows - 1));
  }
#pragma unroll
  for (int tile = 0; tile < kTiles; tile++) {
    float scales[kTileElements], residual[kTileElements];
#pragma unroll
    for (int i = 0; i < kTileElements; i++) {
      const int token = min(target.first_token + tile * 16 + tile_column(i), share.tokens - 1);
      const int row = min(rows[(i & 2) / 2], target.rows - 1);
      scales[i] = a.row_scales[token];
      residual[i] = a.residual == nullptr ? 0.0f : a.residual[u64(token) * u64(a.residual_stride) + u64(row)];
    }
#pragma unroll
    for (int i = 0; i < kTileElements; i++) {
      if (GATED && (i & 2) != 0) continue;
      const int token = target.first_token + tile * 16 + tile_column(i), line = (i & 2) / 2;
      float value = soft_capped(sums[tile].values[i] * scales[i] * factor + bias[line]);
      if (GATED) value = gated_unit(value, soft_capped(sums[tile].values[i | 2] * scales[i] * up_factor + bias[1]));
      value += residual[i];
      if (token >= share.tokens || rows[line] >= target.rows) continue;
      if (PANELS) {
        write_panel(a, token, rows[line], value);
      } else {
        target.out[u64(token) * u64(target.stride) + u64(rows[line])] = value;
      }
    }
  }
}
