// The parts of matmul/grouped-gemm.hip: which slots a block multiplies, their input through shared memory, the products
// of a slab on the matrix units, and the results of each slot. Knows GroupedGemmArguments and the block's shape.
#pragma once

struct GroupTile {
  int matrix;
  /** Of the tile's slots in `slots`, or its first token where there is no router. */
  int first;
  int count;
};

/**
 * Where the input of each of the tile's slots begins, in chunks of 16 bytes: those that one thread brings side by side.
 * Of slots that the tile has not got: anywhere.
 */
struct alignas(16) SlotInputs {
  u32 chunks[kTokenStep][kThreadChunks];
};
SHARED SlotInputs slot_inputs;
/** Where the result of each slot begins, and what scales it. */
SHARED u32 slot_outputs[kTokens];
SHARED float slot_scales[kTokens];
SHARED float slot_factors[kTokens];

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
  for (int i = thread_index(); i < kTokenStep * kThreadChunks; i += kThreads) {
    u32& input = slot_inputs.chunks[i % kTokenStep][i / kTokenStep];
    input = 0;
    if (i >= tile.count) continue;
    const int slot = ROUTED ? a.slots[tile.first + i] : (tile.first + i) * USED + tile.matrix;
    const u32 token = u32(slot) / USED, number = u32(slot) - token * USED;
    input = token * u32(a.halves_stride / 8) + number * u32(a.slot_columns / 8);
    slot_outputs[i] = token * u32(a.out_stride) + number * u32(a.rows);
    slot_scales[i] = a.row_scales[token];
    if (WEIGHTED) slot_factors[i] = a.slot_weights[token * u32(a.weights_stride) + number];
  }
}

/** First row of the wave's tile number `half`. */
DEVICE int tile_first_row(int half) {
  return block_x() * kBlockRows + 16 * (GATED ? wave_index() : wave_index() * kHalves + half);
}

/** The columns of a slab that a thread brings, of input row 0. */
struct SlabColumns {
  const u8* chunk;
  /** Otherwise they lie beyond the width, and are zero. */
  bool inside;
};

template <typename Source>
DEVICE SlabColumns slab_columns(const GroupedGemmArguments& a, const Carrier& own, int slab) {
  const int weight_block = slab * kSlabBlocks + own.weight_block;
  const bool inside = weight_block * 32 < a.width;
  const int column = Source::column(weight_block, own.quarter / 2) + own.quarter % 2 * 8;
  return {reinterpret_cast<const u8*>(a.halves + (inside ? column : 0)), inside};
}

/** Chunks whose places in the input a thread loads at once. */
constexpr int kChunkRun = kThreadChunks % 4 == 0 ? 4 : 1;

/** Only of as many slots as products read; `Whole`: of all. */
template <typename Source, bool Whole>
DEVICE void copy_slab(const GroupedGemmArguments& a, const GroupTile& tile, int slab, u8* stage) {
  const Carrier own = carrier();
  const SlabColumns columns = slab_columns<Source>(a, own, slab);
  const SharedPlace target = shared_place(stage);
  const int read = (tile.count + 15) & ~15;
  // More at a time would need registers that the sums have.
#pragma unroll 1
  for (int first = 0; first < kThreadChunks; first += kChunkRun) {
    if (!Whole && own.token + first * kTokenStep >= read) break;
    u32 inputs[kChunkRun];
    if (kChunkRun == 4) {
      const Words4 four = *reinterpret_cast<const Words4*>(slot_inputs.chunks[own.token] + first);
      inputs[0] = four.x;
      inputs[kChunkRun - 3] = four.y;
      inputs[kChunkRun - 2] = four.z;
      inputs[kChunkRun - 1] = four.w;
    } else {
      inputs[0] = slot_inputs.chunks[own.token][first];
    }
#pragma unroll
    for (int i = 0; i < kChunkRun; i++) {
      const int place = own.token + (first + i) * kTokenStep;
      const bool wanted = columns.inside && (Whole || place < tile.count);
      if (carries(own, first + i))
        copy_to_place(target + carried_place(own, first + i), columns.chunk + u64(inputs[i]) * 16, wanted);
    }
  }
}

template <typename Source>
DEVICE void hold_slab(const GroupedGemmArguments& a, const GroupTile& tile, int slab, Words4 (&held)[kThreadChunks]) {
  const Carrier own = carrier();
  const SlabColumns columns = slab_columns<Source>(a, own, slab);
  const int wanted = columns.inside ? tile.count : 0;
#pragma unroll
  for (int i = 0; i < kThreadChunks; i++) {
    held[i] = own.token + i * kTokenStep < wanted
                  ? load_shared(columns.chunk + u64(slot_inputs.chunks[own.token][i]) * 16)
                  : Words4{0, 0, 0, 0};
  }
}

/**
 * `Whole`: the tile is full; else the products of 16 slots of which there is none are left out.
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

/** What becomes of a lane's sums in one row of gate, of up or of the only matrix. */
struct RowEpilogue {
  float factor;
  float bias;
};

DEVICE RowEpilogue row_epilogue(const float* factor, const u8* bias, int matrix, u64 row) {
  return {SCALED && factor != nullptr ? factor[matrix] : 1.0f,
          BIASED && bias != nullptr ? Plain<BIAS_TYPE>::value(bias + row * Plain<BIAS_TYPE>::element_bytes, 0) : 0.0f};
}

DEVICE float apply_epilogue(float sum, float scale, const RowEpilogue& row, float weight) {
  const float value = sum * (SCALED ? scale * row.factor : scale);
  const float biased = BIASED ? value + row.bias : value;
  return WEIGHTED ? biased * weight : biased;
}

DEVICE void write_sums(const GroupedGemmArguments& a, const GroupTile& tile, Tile (&sums)[kHalves][kTiles]) {
  RowEpilogue rows[kHalves][kTileElements];
#pragma unroll
  for (int half = 0; half < kHalves; half++) {
    const bool up = GATED && half == 1;
    const u64 first = u64(tile.matrix) * u64(a.matrix_rows) + u64(up ? a.first_row1 : a.first_row0);
#pragma unroll
    for (int i = 0; i < kTileElements; i++) {
      const int row = min(tile_first_row(half) + tile_row(i), a.rows - 1);
      rows[half][i] = row_epilogue(up ? a.factor1 : a.factor0, up ? a.bias1 : a.bias0, tile.matrix, first + u64(row));
    }
  }
#pragma unroll
  for (int column = 0; column < kTiles; column++) {
#pragma unroll
    for (int i = 0; i < kTileElements; i++) {
      const int place = column * 16 + tile_column(i);
      if (place >= tile.count) continue;
      const float scale = slot_scales[place], weight = WEIGHTED ? slot_factors[place] : 1.0f;
      float* const out = a.out + slot_outputs[place];
#pragma unroll
      for (int half = 0; half < (GATED ? 1 : kHalves); half++) {
        const int row = tile_first_row(half) + tile_row(i);
        if (row >= a.rows) continue;
        const float value = apply_epilogue(sums[half][column].values[i], scale, rows[half][i], weight);
        const int last = kHalves - 1;
        out[row] = GATED ? gated_unit(value, apply_epilogue(sums[last][column].values[i], scale, rows[last][i], weight))
                         : value;
      }
    }
  }
}
