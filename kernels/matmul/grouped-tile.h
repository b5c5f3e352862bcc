// The parts of matmul/grouped-gemm.hip: which slots a block multiplies, their input through shared memory, the products
// of a slab on the matrix units, and the results of each slot. Knows GroupedGemmArguments and the block's shape.
#pragma once

struct GroupTile {
  int matrix;
  /** Of the tile's slots in `slots`, or its first token where there is no router. */
  int first;
  int count;
};

/** The tile's slots, token × USED + place in the token, and where the input of each begins, in chunks of 8 halves. */
SHARED int tile_slots[kTokens];
SHARED u32 tile_inputs[kTokens];

/** False: this block has none. */
DEVICE bool find_tile(const GroupedGemmArguments& a, GroupTile& tile) {
  const int index = block_y();
#if ROUTED
  const int tiles = *a.tile_count;
  if (index >= tiles) return false;
  const int* const entry = a.tiles + u64(index) * 3;
  tile = {entry[0], entry[1], entry[2]};
#else
  tile.matrix = index / a.token_blocks;
  tile.first = (index - tile.matrix * a.token_blocks) * kTokens;
  tile.count = min(*a.row_count - tile.first, kTokens);
#endif
  return tile.count > 0;
}

DEVICE void place_slots(const GroupedGemmArguments& a, const GroupTile& tile) {
  for (int i = thread_index(); i < tile.count; i += kThreads) {
    const int slot = ROUTED ? a.slots[tile.first + i] : (tile.first + i) * USED + tile.matrix;
    const int token = slot / USED;
    tile_slots[i] = slot;
    tile_inputs[i] = u32(token) * u32(a.halves_stride / 8) + u32(slot - token * USED) * u32(a.slot_columns / 8);
  }
}

/** First row of the wave's tile number `half`. */
DEVICE int tile_first_row(int half) {
  return block_x() * kBlockRows + 16 * (GATED ? wave_index() : wave_index() * kHalves + half);
}

/** Calls `use(i, source, wanted, read)` for each of the thread's chunks of a slab; `read`: whether a product needs it. */
template <typename Source, typename Use>
DEVICE void each_chunk(const GroupedGemmArguments& a, const GroupTile& tile, int slab, Use use) {
  const Carrier own = carrier();
  const int weight_block = slab * kSlabBlocks + own.weight_block;
  const int column = Source::column(weight_block, own.quarter / 2) + own.quarter % 2 * 8;
  const bool inside = weight_block * 32 < a.width;
  const int read = (tile.count + 15) & ~15;
#pragma unroll
  for (int i = 0; i < kThreadChunks; i++) {
    const int token = own.token + i * kTokenStep;
    const bool wanted = inside && token < tile.count;
    use(i, a.halves + (wanted ? u64(tile_inputs[token]) * 8 + u64(column) : 0), wanted, token < read);
  }
}

template <typename Source>
DEVICE void copy_slab(const GroupedGemmArguments& a, const GroupTile& tile, int slab, u8* stage) {
  const Carrier own = carrier();
  each_chunk<Source>(a, tile, slab, [&](int i, const u16* source, bool wanted, bool read) {
    if (read) copy_or_clear(stage + carried_place(own, i), source, wanted);
  });
}

template <typename Source>
DEVICE void hold_slab(const GroupedGemmArguments& a, const GroupTile& tile, int slab, Words4 (&held)[kThreadChunks]) {
  each_chunk<Source>(a, tile, slab, [&](int i, const u16* source, bool wanted, bool) {
    held[i] = wanted ? load_shared(source) : Words4{0, 0, 0, 0};
  });
}

/**
 * `Whole`: the tile has slots for all of its products; else those of 16 slots of which there is none are left out.
 * `refill` brings weights of a later slab, as soon as those of this one are not needed any more.
 */
template <typename Source, bool Whole, typename Refill>
DEVICE void multiply_slab(Tile (&sums)[kHalves][kTiles], const typename Source::Raw (&raw)[kHalves][kLines], int slab,
                          int weight_blocks, const GroupTile& tile, const u8* stage, Refill refill) {
  const int weight_block = min(slab * kSlabBlocks + fragment_share(), weight_blocks - 1);
#pragma unroll
  for (int group = 0; group < 2; group++) {
    u32 left[kHalves][kLines][8];
#pragma unroll
    for (int half = 0; half < kHalves; half++) {
#pragma unroll
      for (int line = 0; line < kLines; line++) Source::halves(raw[half][line], weight_block, group, left[half][line]);
    }
    if (group == 1) refill();
#pragma unroll
    for (int i = 0; i < kTiles; i++) {
      if (!Whole && i * 16 >= tile.count) break;
      u32 right[kLines][8];
#pragma unroll
      for (int line = 0; line < kLines; line++) {
#pragma unroll
        for (int quarter = 0; quarter < 2; quarter++) {
          const int chunk = chunk_place(0, group * 2 + quarter, i * 16 + fragment_line(line), fragment_share());
          const Words4 words = *reinterpret_cast<const Words4*>(stage + chunk);
          right[line][4 * quarter] = words.x;
          right[line][4 * quarter + 1] = words.y;
          right[line][4 * quarter + 2] = words.z;
          right[line][4 * quarter + 3] = words.w;
        }
      }
#pragma unroll
      for (int step = 0; step < kSteps; step++) {
        const Fragment columns = pack_fragment(right, step);
#pragma unroll
        for (int half = 0; half < kHalves; half++)
          multiply_add(sums[half][i], pack_fragment(left[half], step), columns);
      }
    }
  }
}

DEVICE float apply_epilogue(float sum, float scale, float factor, const u8* bias, u64 row, float weight) {
  const float value = sum * (scale * factor);
  return (bias == nullptr ? value : value + Plain<BIAS_TYPE>::value(bias, int(row))) * weight;
}

DEVICE void write_sums(const GroupedGemmArguments& a, const GroupTile& tile, Tile (&sums)[kHalves][kTiles]) {
  const float factor0 = a.factor0 == nullptr ? 1.0f : a.factor0[tile.matrix];
  const float factor1 = !GATED || a.factor1 == nullptr ? 1.0f : a.factor1[tile.matrix];
  const u64 first = u64(tile.matrix) * u64(a.matrix_rows);
#pragma unroll
  for (int column = 0; column < kTiles; column++) {
#pragma unroll
    for (int i = 0; i < kTileElements; i++) {
      const int place = column * 16 + tile_column(i);
      if (place >= tile.count) continue;
      const int slot = tile_slots[place], token = slot / USED, number = slot - token * USED;
      const float scale = a.row_scales[token];
      const float weight =
          a.slot_weights == nullptr ? 1.0f : a.slot_weights[u64(token) * u64(a.weights_stride) + u64(number)];
      float* const out = a.out + u64(token) * u64(a.out_stride) + u64(number) * u64(a.rows);
#pragma unroll
      for (int half = 0; half < (GATED ? 1 : kHalves); half++) {
        const int row = tile_first_row(half) + tile_row(i);
        if (row >= a.rows) continue;
        float value = apply_epilogue(sums[half][column].values[i], scale, factor0, a.bias0,
                                     first + u64(a.first_row0 + row), weight);
        if (GATED) {
          value = gated_unit(value, apply_epilogue(sums[kHalves - 1][column].values[i], scale, factor1, a.bias1,
                                                   first + u64(a.first_row1 + row), weight));
        }
        out[row] = value;
      }
    }
  }
}
