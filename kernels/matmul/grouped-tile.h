// What a block of a grouped matmul works on, and the results: which slots and weight rows are its own, and what becomes of
// their sums. Knows GroupedGemmArguments and the block's shape.
#pragma once
#include "matmul/expert-tile.h"

#if SHARED_EXPERT && (BIASED || SCALED || SPLIT || !ROUTED)
#error "a shared expert has neither bias nor factor, and is beside routed ones"
#endif

/** Rows of slots that a token has in the input, if slots have inputs of their own: the shared expert's is the last. */
constexpr int kInputSlots = USED + SHARED_EXPERT;

/**
 * Where the input of each slot of one part begins, in chunks of 16 bytes: those that one thread brings side by side. Of
 * slots that the tile has not got: anywhere.
 */
struct alignas(16) SlotInputs {
  u32 chunks[kTokenStep][kThreadChunks];
};
SHARED SlotInputs slot_inputs[kMostParts];
/** Where the result of each slot begins, and what scales it. */
SHARED u32 slot_outputs[kMostParts * kTokens];
SHARED float slot_scales[kMostParts * kTokens];
SHARED float slot_factors[kMostParts * kTokens];

/** False: this block has none. */
DEVICE bool find_tile(const GroupedGemmArguments& a, GroupTile& tile) {
#if ROUTED
  return find_expert_tile<kMostParts * kTokens, SHARED_EXPERT != 0>(a.tiles, a.tile_count, *a.row_count, block_y(),
                                                                    tile);
#else
  const int index = block_y();
  tile.shared = false;
  tile.matrix = index / a.token_blocks;
  tile.first = (index - tile.matrix * a.token_blocks) * kTokens;
  tile.count = min(*a.row_count - tile.first, kTokens);
  return tile.count > 0;
#endif
}

/** Where a slot's input row begins, in chunks. */
DEVICE u32 input_chunk(const GroupedGemmArguments& a, u32 token, u32 number, u32& row) {
  // Rows of rows/slot-rows.hip are one for each slot, if slots have inputs of their own.
  const bool apart = WIDE || SPLIT || SHARED_EXPERT || SLOT_ROWS;
  row = apart && a.slot_columns != 0 ? token * kInputSlots + number : token;
  return row * u32(a.halves_stride / 8) + (apart ? 0 : number * u32(a.slot_columns / 8));
}

DEVICE void place_slots(const GroupedGemmArguments& a, const GroupTile& tile) {
  constexpr int PartInputs = kTokenStep * kThreadChunks;
  for (int index = thread_index(); index < kMostParts * PartInputs; index += kThreads) {
    const int part = index / PartInputs, own = index % PartInputs, i = part * kTokens + own;
    u32& input = slot_inputs[part].chunks[own % kTokenStep][own / kTokenStep];
    input = 0;
    if (own >= kTokens || i >= tile.count) continue;
    u32 token, number, row;
    if (SHARED_EXPERT && tile.shared) {
      token = u32(tile.first + i);
      number = USED;
      slot_outputs[i] = token * u32(a.shared_out_stride);
      if (WEIGHTED) slot_factors[i] = 1.0f;
    } else {
      const int slot = ROUTED ? a.slots[tile.first + i] : (tile.first + i) * USED + tile.matrix;
      token = u32(slot) / USED;
      number = u32(slot) - token * USED;
      slot_outputs[i] = token * u32(a.out_stride) + number * u32(a.out_slot_stride);
      if (WEIGHTED) slot_factors[i] = a.slot_weights[token * u32(a.weights_stride) + number];
    }
    input = input_chunk(a, token, number, row);
    slot_scales[i] = a.row_scales[row];
  }
}

/** First row of the wave's tile number `half`. */
DEVICE int tile_first_row(int half) {
  return block_x() * kBlockRows + 16 * (GATED ? wave_index() : wave_index() * kHalves + half);
}

/** The first row that is used of the tile's matrix: of up if `half` is the second of a gated matmul. */
template <typename Source>
DEVICE const u8* matrix_of(const GroupedGemmArguments& a, const GroupTile& tile, int half) {
  const bool up = GATED && half == 1;
  if (SHARED_EXPERT && tile.shared) return up ? a.shared_weights1 : a.shared_weights0;
  const u64 first = u64(tile.matrix) * u64(a.matrix_rows) + u64(up ? a.first_row1 : a.first_row0);
  return (up ? a.weights1 : a.weights0) + first * Source::row_bytes(a.width);
}

/** The weight rows whose blocks this lane decodes. */
template <typename Source>
DEVICE void find_rows(const GroupedGemmArguments& a, const GroupTile& tile, const u8* (&rows)[kHalves][kLines]) {
#pragma unroll
  for (int half = 0; half < kHalves; half++) {
    const u8* const matrix = matrix_of<Source>(a, tile, half);
#pragma unroll
    for (int line = 0; line < kLines; line++) {
      const int row = min(tile_first_row(half) + fragment_line(line), a.rows - 1);
      rows[half][line] = matrix + u64(row) * Source::row_bytes(a.width);
    }
  }
}

DEVICE void clear_sums(Tile (&sums)[kHalves][kTiles]) {
#pragma unroll
  for (int half = 0; half < kHalves; half++) {
#pragma unroll
    for (int i = 0; i < kTiles; i++) clear_tile(sums[half][i]);
  }
}

DEVICE void scale_sums(Tile (&sums)[kHalves][kTiles], float scale) {
#pragma unroll
  for (int half = 0; half < kHalves; half++) {
#pragma unroll
    for (int i = 0; i < kTiles; i++) {
#pragma unroll
      for (int element = 0; element < kTileElements; element++) sums[half][i].values[element] *= scale;
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

/** Of the part that begins with slot `first_slot` of the tile. */
DEVICE void write_sums(const GroupedGemmArguments& a, const GroupTile& tile, Tile (&sums)[kHalves][kTiles],
                       int first_slot = 0) {
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
      const int place = first_slot + column * 16 + tile_column(i);
      const float scale = slot_scales[place], weight = WEIGHTED ? slot_factors[place] : 1.0f;
      float* const out = (SHARED_EXPERT && tile.shared ? a.shared_out : a.out) + slot_outputs[place];
      // Computed for slots and rows that there are not, too: a branch for each would take longer.
#pragma unroll
      for (int half = 0; half < (GATED ? 1 : kHalves); half++) {
        const int row = tile_first_row(half) + tile_row(i), last = kHalves - 1;
        float value = apply_epilogue(sums[half][column].values[i], scale, rows[half][i], weight);
        if (GATED)
          value = gated_unit(value, apply_epilogue(sums[last][column].values[i], scale, rows[last][i], weight));
        if (place < tile.count && row < a.rows) out[row] = value;
      }
    }
  }
}
