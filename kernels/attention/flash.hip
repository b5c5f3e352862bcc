// Attention for prefill by wide products of sm_90 (device/wide-panels.h): a block takes a tile of up to 64 neighbouring
// tokens of one sequence and one or two query heads of a kv head, four waves each (a team), and walks over the keys and
// values of TILE_POSITIONS positions at a time, from the first that a token of the tile attends to up to the tile's own.
// Four more waves bring keys and values. The scores of a tile are multiplied while the values of the tile before are,
// and weights are computed while those products run.
// Keys, queries and weights are f16, sums and the softmax f32.
// Grid: x kv head × pairs of its query heads, y tile (the step's last, which are the longest, first). Shared bytes:
// kSharedBytes below, also in src/backends/gpu/memory/flash-attention.ts. Defines: KV_TYPE 1, KEY_WIDTH and VALUE_WIDTH
// (64, 128 or 256), BLOCK_TOKENS, GROUP, OUTPUT, TEAMS (3 for two heads, 2 for one), TILE_POSITIONS (64 or 128), STAGES,
// RESIDENT_BLOCKS (2 only if TEAMS is 2), MATRIX_LAYOUT 80, those of attention/attributes.h.
//
// v1  On an H200, 32 query and 8 kv heads of 128: 0.246 ms for 512 tokens at depth 16,384 (568 TFLOP/s; attention/tiled.hip
//     0.741 ms), 0.336 ms for 4,096 tokens at depth 0 (410; 0.730 ms). The sums so far are multiplied only where a highest
//     score has changed: 0.271 ms without. Three stages, and turns of the two teams kept apart by barriers: no change.
// v2  Queries are loaded by neighbouring lanes, many at a time: 16 query and 2 kv heads of 256,
//     4,096 tokens at depth 0, 279 → 261 µs.
#ifndef TEAMS
#define TEAMS 3
#endif
#ifndef TILE_POSITIONS
#define TILE_POSITIONS 128
#endif
#ifndef STAGES
#define STAGES 2
#endif
#ifndef RESIDENT_BLOCKS
#define RESIDENT_BLOCKS 1
#endif
#include "device/portable.h"
#include "device/step.h"
#include "attention/kv-cache.h"
#include "device/async-copy.h"
#include "device/handover.h"
#include "attention/flash-rows.h"

static_assert(KV_TYPE == 1 && KEY_WIDTH % 64 == 0 && VALUE_WIDTH % 64 == 0, "rows of whole panels of f16");

constexpr int kThreads = TEAMS * kTeamThreads;
/** Query heads of a block: the last team brings keys and values. */
constexpr int kHeads = TEAMS - 1;
/** Registers of threads that copy, and of those that compute; 0: as many as the block began with, which is enough. */
constexpr int kKeptRegisters = kHeads > 1 || RESIDENT_BLOCKS > 1 ? 40 : 0;
constexpr int kTakenRegisters = kHeads > 1 ? 232 : RESIDENT_BLOCKS > 1 ? 216 : 0;
constexpr int kKeysOffset = kHeads * kQueryBytes;
constexpr int kValuesOffset = kKeysOffset + STAGES * kKeyBytes;
/** And room to begin at a multiple of 1024. */
constexpr int kSharedBytes = kValuesOffset + STAGES * kValueBytes + 1024;
constexpr int kBlocksOfTile = kTilePositions <= BLOCK_TOKENS ? 1 : kTilePositions / BLOCK_TOKENS;
static_assert(kTilePositions % BLOCK_TOKENS == 0 || BLOCK_TOKENS % kTilePositions == 0, "tiles of whole blocks");
static_assert(kBlocksOfTile <= WAVE, "one lane for each block of a tile");
constexpr int kHeadPairs = (GROUP + kHeads - 1) / kHeads;

struct AttentionTiledArguments {
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

struct Work {
  int first_token;
  int tokens;
  int kv_head;
  int first_position;
  int last_position;
  /** Tiles of positions: the first, and the one after the last. */
  int begin;
  int end;
  const int* table;
};

/** Full and empty stages of keys and values. */
struct Handovers {
  Handover keys_full[STAGES];
  Handover keys_empty[STAGES];
  Handover values_full[STAGES];
  Handover values_empty[STAGES];
};

DEVICE int stage_of(int count) { return count % STAGES; }
DEVICE int parity_of(int count) { return count / STAGES & 1; }

/** One tile of keys or values, by the waves that copy; `block` is a lane's of the tile's blocks. */
template <typename HeadRow>
DEVICE void bring_tile(const AttentionTiledArguments& a, const Work& work, const u8* rows, int first, int block,
                       u8* stage) {
  constexpr int Chunks = HeadRow::kChunks, RowsAtOnce = kTeamThreads / Chunks;
  constexpr int Run = BLOCK_TOKENS < kTilePositions ? BLOCK_TOKENS : kTilePositions;
  static_assert(Run % RowsAtOnce == 0, "blocks of whole rounds");
  const int thread = thread_index() % kTeamThreads;
  const int chunk = thread % Chunks, row = thread / Chunks;
  const int offset = BLOCK_TOKENS > kTilePositions ? first % BLOCK_TOKENS : 0;
  const u8* const column = rows + chunk * 16 + (u64(work.kv_head) * BLOCK_TOKENS + u64(offset + row)) * HeadRow::kBytes;
  const SharedPlace panel = shared_place(stage + chunk / 8 * kPanelBytes);
  const u64 block_bytes = u64(a.kv_heads) * BLOCK_TOKENS * HeadRow::kBytes;
#pragma unroll 1
  for (int index = 0; index < kBlocksOfTile; index++) {
    const u8* const from = column + u64(wave_from(block, index)) * block_bytes;
#pragma unroll
    for (int start = 0; start < Run; start += RowsAtOnce) {
      const int place = index * Run + start + row;
      copy_to_place(panel + panel_chunk(place, chunk % 8), from + start * HeadRow::kBytes, true);
    }
  }
}

DEVICE int block_of_tile(const Work& work, int index) {
  const int lane = min(lane_index(), kBlocksOfTile - 1);
  return work.table[min(index * kTilePositions / BLOCK_TOKENS + lane, work.last_position / BLOCK_TOKENS)];
}

DEVICE void bring_tiles(const AttentionTiledArguments& a, const Work& work, u8* shared, Handovers& handovers) {
  const CacheLayer layer = cache_layer(a, a.kv_heads);
  int block = block_of_tile(work, work.begin), before = 0;
  const int count = work.end - work.begin;
#pragma unroll 1
  for (int round = 0; round <= count; round++) {
    const int next = round + 1 < count ? block_of_tile(work, work.begin + round + 1) : 0;
    if (round < count) {
      if (round >= STAGES) await_handover(&handovers.keys_empty[stage_of(round)], parity_of(round) ^ 1);
      bring_tile<KeyRow>(a, work, layer.keys.rows, (work.begin + round) * kTilePositions, block,
                         shared + kKeysOffset + stage_of(round) * kKeyBytes);
      hand_over_copies(&handovers.keys_full[stage_of(round)]);
    }
    if (round > 0) {
      const int own = round - 1;
      if (own >= STAGES) await_handover(&handovers.values_empty[stage_of(own)], parity_of(own) ^ 1);
      bring_tile<ValueRow>(a, work, layer.values.rows, (work.begin + own) * kTilePositions, before,
                           shared + kValuesOffset + stage_of(own) * kValueBytes);
      hand_over_copies(&handovers.values_full[stage_of(own)]);
    }
    before = block;
    block = next;
    stage_filled();
    stage_used();
  }
}

DEVICE void attend(const AttentionTiledArguments& a, const Work& work, int team, int own_head, u8* shared,
                   Handovers& handovers) {
  u8* const queries = shared + team * kQueryBytes;
  const int head = work.kv_head * GROUP + min(own_head, GROUP - 1);
  stage_queries<kTeamThreads>(a, work.first_token, work.tokens, head, work.first_position, queries);
  panels_written();
  four_waves_barrier(team);
  const PanelPlace query_place = rows_place(queries);
  const int own_position = work.first_position + wave_index() % 4 * 16;
  Running running;
#pragma unroll
  for (int slot = 0; slot < 2; slot++) {
    running.highest[slot] = negative_infinity();
    running.total[slot] = 0.0f;
  }
#pragma unroll
  for (int tile = 0; tile < kValueTiles; tile++) clear_tile(running.values[tile]);
  Tile scores[kPositionTiles];
  Fragment weights[kPositionTiles];
  float before[2];

  const auto keys_at = [&](int round) { return rows_place(shared + kKeysOffset + stage_of(round) * kKeyBytes); };
  const auto values_at = [&](int round) {
    return columns_place(shared + kValuesOffset + stage_of(round) * kValueBytes, kPanelBytes);
  };
  stage_filled();
  await_handover(&handovers.keys_full[0], 0);
  panels_written();
  panels_begin();
  score_tile(scores, query_place, keys_at(0));
  panels_end();
  panels_wait<0>();
  hold_tiles(scores);
  if (lane_index() == 0) hand_over(&handovers.keys_empty[0]);
  mask_scores(scores, work.begin * kTilePositions, own_position);
  weigh_scores(scores, running, before);
  pack_weights(scores, weights);
  stage_used();

  const int count = work.end - work.begin;
#pragma unroll 1
  for (int round = 1; round < count; round++) {
    const int first = (work.begin + round) * kTilePositions;
    stage_filled();
    await_handover(&handovers.keys_full[stage_of(round)], parity_of(round));
    panels_written();
    panels_begin();
    score_tile(scores, query_place, keys_at(round));
    panels_end();
    await_handover(&handovers.values_full[stage_of(round - 1)], parity_of(round - 1));
    panels_written();
    panels_begin();
    add_tile(running, weights, values_at(round - 1));
    panels_end();
    panels_wait<1>();
    hold_tiles(scores);
    if (lane_index() == 0) hand_over(&handovers.keys_empty[stage_of(round)]);
    mask_scores(scores, first, own_position);
    weigh_scores(scores, running, before);
    panels_wait<0>();
    hold_tiles(running.values);
    if (lane_index() == 0) hand_over(&handovers.values_empty[stage_of(round - 1)]);
    rescale_values(running, before);
    pack_weights(scores, weights);
    stage_used();
  }
  stage_filled();
  await_handover(&handovers.values_full[stage_of(count - 1)], parity_of(count - 1));
  panels_written();
  panels_begin();
  add_tile(running, weights, values_at(count - 1));
  panels_end();
  panels_wait<0>();
  hold_tiles(running.values);
  stage_used();
  // All four waves are done with their queries, whose place the results take.
  four_waves_barrier(team);
  end_totals(a, head, running);
  write_results(a, work.first_token, own_head < GROUP ? work.tokens : 0, head * VALUE_WIDTH, running,
                reinterpret_cast<float*>(queries) + wave_index() % 4 * kResultFloats);
}

KERNEL(attention_flash, AttentionTiledArguments, kThreads) {
  DYNAMIC_SHARED(memory);
  SHARED Handovers handovers;
  dependency_release();
  const int tile_index = a.step->tiles - 1 - block_y();
  if (tile_index < 0) return;
  u8* const shared = panels_start(memory);
  if (thread_index() == 0) {
#pragma unroll
    for (int stage = 0; stage < STAGES; stage++) {
      begin_handover(&handovers.keys_full[stage], kTeamThreads);
      begin_handover(&handovers.values_full[stage], kTeamThreads);
      begin_handover(&handovers.keys_empty[stage], kHeads * 4);
      begin_handover(&handovers.values_empty[stage], kHeads * 4);
    }
    handovers_begun();
  }
  barrier();
  Work work;
  work.first_token = a.tiles[tile_index * 3];
  work.tokens = a.tiles[tile_index * 3 + 1];
  work.table = a.tables + a.table_starts[a.tiles[tile_index * 3 + 2]];
  work.kv_head = block_x() / kHeadPairs;
  work.first_position = a.positions[work.first_token];
  work.last_position = work.first_position + work.tokens - 1;
  work.begin = first_visible(work.first_position) / kTilePositions;
  work.end = work.last_position / kTilePositions + 1;
  dependency_wait();
  const int team = thread_index() / kTeamThreads;
  if (team == kHeads) {
    if (kKeptRegisters > 0) keep_registers<kKeptRegisters>();
    bring_tiles(a, work, shared, handovers);
  } else {
    if (kTakenRegisters > 0) take_registers<kTakenRegisters>();
    attend(a, work, team, block_x() % kHeadPairs * kHeads + team, shared, handovers);
  }
}
