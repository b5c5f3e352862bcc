// Attention for prefill over wide heads, on the matrix units (attention/wide.h): a block takes up to ROW_TILES × 16
// neighbouring tokens of one sequence and one query head. Keys, queries and weights are f16, sums and the softmax f32.
// Grid: x query head × parts of a tile of 64 tokens, y tile (the step's last, which are the longest, first). Shared
// bytes: kSharedBytes. Defines: KV_TYPE (1 or 2), KEY_WIDTH, VALUE_WIDTH, BLOCK_TOKENS, GROUP, OUTPUT, ROW_TILES,
// TILE_POSITIONS, STAGES, those of attention/attributes.h.
//
// v1  not measured.
#define PARTS 1
#ifndef RESIDENT_BLOCKS
#define RESIDENT_BLOCKS (KEY_WIDTH <= 256 && VALUE_WIDTH <= 256 ? 2 : 1)
#endif
#include "attention/wide.h"

/** Blocks that share the tokens of a tile. */
constexpr int kTileParts = 4 / kRowTiles;

struct AttentionWideTiledArguments {
  const StepHead* step;
  /** First token, count, sequence. */
  const int* tiles;
  const int* positions;
  const int* table_starts;
  const int* tables;
  const float* query;
  float* out;
  i8* quantized;
  float* scales;
  float* sums;
  u16* halves;
  float* row_scales;
  int query_stride;
  int out_stride;
  int half_stride;
  int heads;
  int kv_heads;
  u64 layer_bytes;
  int layer_padding;
  float scale;
  /** One logit for each query head, if SINKS is 1. */
  const float* sinks;
};

/** Queries times the scale and log2 e; rows and columns that are not there as zeros. */
DEVICE void stage_queries(const AttentionWideTiledArguments& a, int first_token, int tokens, int head,
                          int first_position, u16* target) {
  constexpr int Pairs = kKeySteps * 8;
#pragma unroll 4
  for (int index = thread_index(); index < kRows * Pairs; index += kThreads) {
    const int row = index / Pairs, column = index % Pairs * 2;
    const float factor = score_factor(a.scale, first_position + row);
    const float* const from = a.query + u64(first_token + row) * u64(a.query_stride) + u64(head * KEY_WIDTH + column);
    const float low = row < tokens && column < KEY_WIDTH ? from[0] : 0.0f;
    const float high = row < tokens && column + 1 < KEY_WIDTH ? from[1] : 0.0f;
    *reinterpret_cast<u32*>(target + row * kKeyStride + column) =
        u32(saturated_half(low * factor)) | (u32(saturated_half(high * factor)) << 16);
  }
}

KERNEL(attention_wide_tiled, AttentionWideTiledArguments, kThreads) {
  DYNAMIC_SHARED(shared);
  const WideMemory memory = wide_memory(shared);
  dependency_release();
  const int tile_index = a.step->tiles - 1 - block_y();
  if (tile_index < 0) return;
  const int part = block_x() % kTileParts * kRows;
  const int first_token = a.tiles[tile_index * 3] + part;
  const int tokens = min(a.tiles[tile_index * 3 + 1] - part, kRows);
  if (tokens <= 0) return;
  const int head = block_x() / kTileParts;
  const int first_position = a.positions[first_token], last_position = first_position + tokens - 1;
  const Walk walk = {cache_layer(a, a.kv_heads),
                     a.tables + a.table_starts[a.tiles[tile_index * 3 + 2]],
                     head / GROUP,
                     a.kv_heads,
                     first_visible(first_position) / kTilePositions,
                     last_position / kTilePositions + 1,
                     last_position};
  find_wide_rows(walk, walk.first, memory);
  find_wide_rows(walk, walk.first + 1, memory);
  prepare_wide(memory);
  barrier();
  dependency_wait();
  bring_tile(walk, walk.first, memory);
  stage_queries(a, first_token, tokens, head, first_position, memory.queries);
  WideSums sums;
  walk_wide(walk, memory, sums, [&](int row, int position) {
    const int own = first_position + row;
    return position <= own && (!kLimited || position >= first_visible(own));
  });
  give_wide(sums, shared, [&](int row, int column, bool present, float sum) {
    const float highest = highest_of_row(walk, memory, row);
    const float total = with_sink(a, head, highest == negative_infinity() ? 0.0f : highest, memory.totals[row]);
    const bool wanted = present && row < tokens;
    write_column(a, first_token + row, head * VALUE_WIDTH + column, wanted, wanted ? sum / total : 0.0f);
  });
}
