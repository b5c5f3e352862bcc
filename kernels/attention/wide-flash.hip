// Attention for prefill over latent heads by wide products of sm_90 (device/wide-panels.h): values are the first columns of the
// keys, so that a tile of keys in shared memory is all that a block brings. A block takes a tile of up to 64 neighbouring tokens of
// one sequence and one query head, and walks over TILE_POSITIONS positions at a time, from the first that a token of the
// tile attends to up to the tile's own. Two teams of four waves compute, four more waves bring keys.
//
//   scores    a team has those of every second tile, all columns of the keys
//   weights   it computes them and hands them over to the other team (attention/wide-exchange.h)
//   values    a team has half of the columns, of all tiles in order: 64 × 512 sums do not fit into the registers of one
//
// While one team computes weights, the products of the other run. A stage has one tile, in two parts that come and go by
// themselves: the columns whose values the team of its scores sums up, and the others. Rounds take turns; in one, a team
//
//   scores of part 0 of its tile | values of the tile before, with the other team's weights | scores of part 1 | weights | values
//
// Nothing waits in a circle: part 0 of a tile comes when this team is done with its own tile before, part 1 when the other
// team has the values of that tile, in the middle of the round before, for which nothing of this round is needed. Each
// handover is waited for once in each of its phases, and none can be two phases ahead of a wait.
//
// Keys, queries and weights are f16, sums and the softmax f32.
// Grid: x query head, y tile (the step's last, which are the longest, first). Shared bytes: kSharedBytes below, also in
// src/backends/gpu/memory/wide-flash-attention.ts. Defines: KV_TYPE 1, VALUES_IN_KEYS 1, KEY_WIDTH (a multiple of 64),
// VALUE_WIDTH (128, 256 or 512), BLOCK_TOKENS, GROUP, OUTPUT, TILE_POSITIONS 64, VALUE_PARTS 2, MATRIX_LAYOUT 80, those
// of attention/attributes.h.
//
// v1  On an H200, 20 query heads of 576 and 512, 4,096 tokens at depth 0: 683 µs (535 TFLOP/s; attention/wide-tiled.hip 2,628).
//     600 to 800 expected, counted for a tile: 2,176 cycles of the matrix units, about 2,370 of shared memory (every second
//     operand of the scores is read for 64 columns alone, and 74 KB are written).
#ifndef TILE_POSITIONS
#define TILE_POSITIONS 64
#endif
#ifndef VALUE_PARTS
#define VALUE_PARTS 2
#endif
#include "device/portable.h"
#include "device/step.h"
#include "attention/kv-cache.h"
#include "device/async-copy.h"
#include "device/handover.h"
#include "attention/wide-exchange.h"
#include "attention/wide-flash-keys.h"
#include "attention/wide-flash-results.h"

static_assert(KV_TYPE == 1 && VALUES_IN_KEYS == 1, "values are columns of keys of f16");
static_assert(KEY_WIDTH % 64 == 0 && VALUE_WIDTH % 128 == 0 && KEY_WIDTH >= VALUE_WIDTH, "halves of whole panels");
static_assert(VALUE_PARTS == 2, "two teams compute");

constexpr int kComputingThreads = 2 * kTeamThreads;
constexpr int kThreads = 3 * kTeamThreads;
/** Registers of threads that copy, and of those that compute. */
constexpr int kKeptRegisters = 40;
constexpr int kTakenRegisters = 232;
constexpr int kStages = 2;
/** Panels of half of the values, and those that have no values. */
constexpr int kHalfPanels = VALUE_WIDTH / 128;
constexpr int kRestPanels = KEY_WIDTH / 64 - 2 * kHalfPanels;

/** Parts of stages that are full and empty, [stage][part], and the weights that a team has handed over. */
struct Handovers {
  Handover keys_full[kStages][2];
  Handover keys_empty[kStages][2];
  Handover weights_full[2];
};

constexpr int kStagesOffset = kQueryBytes;
constexpr int kExchangeOffset = kStagesOffset + kStages * kKeyBytes;
constexpr int kHandoversOffset = kExchangeOffset + sizeof(Exchange);
/** And room to begin at a multiple of 1024. */
constexpr int kSharedBytes = kHandoversOffset + sizeof(Handovers) + 1024;
/** When all is computed, queries and keys make room for sums of weights, and after them for results. */
static_assert(sizeof(Totals) <= kQueryBytes, "the place of the queries");
static_assert(kComputingThreads / WAVE * kWaveResultFloats * 4 <= kExchangeOffset, "the place of queries and keys");

struct AttentionWideFlashArguments {
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

/** The team of a round's scores is that of its stage. */
DEVICE int stage_of(int round) { return round & 1; }
DEVICE int parity_of(int round) { return round >> 1 & 1; }
/** The first panel of a part of a stage; panels without values follow those of part 1 in time, but not in memory. */
DEVICE int panel_of_part(int stage, int part) { return (stage ^ part) * kHalfPanels; }
DEVICE u8* keys_of(u8* shared, int stage) { return shared + kStagesOffset + stage * kKeyBytes; }

/** A round of the other team, whose turn it is (device/handover.h). */
DEVICE void other_round() {
  stage_filled();
  stage_used();
}

DEVICE void bring_tiles(const AttentionWideFlashArguments& a, const Work& work, u8* shared, Handovers& handovers) {
  const CacheLayer layer = cache_layer(a, a.kv_heads);
  TileRows rows = find_rows(work, layer.keys, a.kv_heads, 0);
#pragma unroll 1
  for (int round = 0; round < work.count; round++) {
    const int stage = stage_of(round);
#pragma unroll
    for (int part = 0; part < 2; part++) {
      if (round >= kStages) await_handover(&handovers.keys_empty[stage][part], parity_of(round) ^ 1);
      bring_panels<kHalfPanels>(rows, keys_of(shared, stage), panel_of_part(stage, part));
      if (part == 1) bring_panels<kRestPanels>(rows, keys_of(shared, stage), 2 * kHalfPanels);
      hand_over_copies(&handovers.keys_full[stage][part]);
    }
    if (round + 1 < work.count) rows = find_rows(work, layer.keys, a.kv_heads, round + 1);
    other_round();
  }
  other_round();
}

/** What a computing team works with. */
struct ColumnTeam {
  /** That of the stage with the keys of its scores, and of the half of the values that it sums up. */
  int number;
  u8* shared;
  PanelPlace queries;
  int own_position;
};

/** What a part of a round's keys gives to the scores, under way. */
template <int Part>
DEVICE void begin_scores(const ColumnTeam& team, int round, Handovers& handovers, Tile (&scores)[kPositionTiles]) {
  const int first = panel_of_part(team.number, Part);
  const PanelPlace queries = place_anew(team.queries);
  const PanelPlace keys = place_anew(rows_place(keys_of(team.shared, team.number)));
  await_handover(&handovers.keys_full[team.number][Part], parity_of(round));
  panels_written();
  panels_begin();
  score_panels<kHalfPanels>(scores, bytes_on(queries, first * kQueryPanelBytes), bytes_on(keys, first * kPanelBytes),
                            Part > 0);
  if (Part == 1)
    score_panels<kRestPanels>(scores, bytes_on(queries, 2 * kHalfPanels * kQueryPanelBytes),
                              bytes_on(keys, 2 * kHalfPanels * kPanelBytes), true);
  panels_end();
}

/** The team's columns of a stage's values, under way. */
DEVICE void begin_values(const ColumnTeam& team, int stage, Running& running,
                         const Fragment (&weights)[kPositionTiles]) {
  panels_begin();
  add_tile(running, weights,
           columns_place(keys_of(team.shared, stage) + team.number * kHalfPanels * kPanelBytes, kPanelBytes));
  panels_end();
}

/** The team is done with its columns of a stage, when no more than `Groups` groups of products are under way. */
template <int Groups>
DEVICE void end_values(const ColumnTeam& team, int stage, Running& running, Handovers& handovers) {
  panels_wait<Groups>();
  hold_tiles(running.values);
  if (lane_index() == 0) hand_over(&handovers.keys_empty[stage][stage == team.number ? 0 : 1]);
}

/** The values of a round of the other team, under way. */
DEVICE void begin_other_values(const ColumnTeam& team, int round, Running& running, Exchange& exchange,
                               Handovers& handovers, Fragment (&weights)[kPositionTiles]) {
  float highest[2], before[2];
  await_handover(&handovers.weights_full[1 - team.number], parity_of(round));
  take_weights(exchange, weights, highest);
#pragma unroll
  for (int slot = 0; slot < 2; slot++) raise_highest(running, slot, highest[slot], before[slot]);
  rescale_values(running, before);
  await_handover(&handovers.keys_full[1 - team.number][1], parity_of(round));
  panels_written();
  begin_values(team, 1 - team.number, running, weights);
}

/** Finished scores of a round become weights, which the other team gets at once. */
DEVICE void pass_scores(const ColumnTeam& team, const Work& work, int round, Tile (&scores)[kPositionTiles],
                        Running& running, float (&before)[2], Fragment (&weights)[kPositionTiles], Exchange& exchange,
                        Handovers& handovers) {
  hold_tiles(scores);
  mask_scores(scores, (work.begin + round) * kTilePositions, team.own_position);
  weigh_scores(scores, running, before);
  pack_weights(scores, weights);
  pass_weights(exchange, weights, running.highest);
  wave_barrier();
  if (lane_index() == 0) hand_over(&handovers.weights_full[team.number]);
}

DEVICE void attend(const AttentionWideFlashArguments& a, const Work& work, u8* shared, Exchange& exchange,
                   Handovers& handovers) {
  // From one lane, so that the compiler knows that a wave has one team and puts places of operands into registers of waves.
  const ColumnTeam team = {wave_from(thread_index() / kTeamThreads, 0), shared, rows_place(shared),
                           work.first_position + wave_index() % 4 * 16};
  stage_queries<kComputingThreads>(a, work.first_token, work.tokens, work.head, work.first_position, shared);
  panels_written();
  users_barrier<kComputingThreads>();
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

  int round = 1;
  if (team.number == 0) {
    stage_filled();
    begin_scores<0>(team, 0, handovers, scores);
    begin_scores<1>(team, 0, handovers, scores);
    panels_wait<0>();
    pass_scores(team, work, 0, scores, running, before, weights, exchange, handovers);
    begin_values(team, team.number, running, weights);
    end_values<0>(team, team.number, running, handovers);
    stage_used();
    round = 2;
  }
  other_round();
#pragma unroll 1
  for (; round < work.count; round += 2) {
    stage_filled();
    // The values between the two parts of the scores: their stage is free again while the second part runs.
    begin_scores<0>(team, round, handovers, scores);
    begin_other_values(team, round - 1, running, exchange, handovers, weights);
    begin_scores<1>(team, round, handovers, scores);
    end_values<1>(team, 1 - team.number, running, handovers);
    panels_wait<0>();
    pass_scores(team, work, round, scores, running, before, weights, exchange, handovers);
    rescale_values(running, before);
    begin_values(team, team.number, running, weights);
    end_values<0>(team, team.number, running, handovers);
    stage_used();
    other_round();
  }
  if (round == work.count) {
    stage_filled();
    begin_other_values(team, round - 1, running, exchange, handovers, weights);
    end_values<0>(team, 1 - team.number, running, handovers);
    stage_used();
  }
  Totals& totals = *reinterpret_cast<Totals*>(shared);
  // All four waves are done with their queries, whose place the totals take.
  four_waves_barrier(team.number);
  pass_totals(totals, team.number, running.total);
  users_barrier<kComputingThreads>();
  add_totals(totals, 1 - team.number, running.total);
  users_barrier<kComputingThreads>();
  end_totals(a, work.head, running);
  write_wide_results(a, work.first_token, work.tokens, work.head * VALUE_WIDTH + team.number * kTeamColumns, running,
                     reinterpret_cast<float*>(shared) + wave_index() * kWaveResultFloats);
}

KERNEL(attention_wide_flash, AttentionWideFlashArguments, kThreads) {
  DYNAMIC_SHARED(memory);
  dependency_release();
  const int tile_index = a.step->tiles - 1 - block_y();
  if (tile_index < 0) return;
  u8* const shared = panels_start(memory);
  Exchange& exchange = *reinterpret_cast<Exchange*>(shared + kExchangeOffset);
  Handovers& handovers = *reinterpret_cast<Handovers*>(shared + kHandoversOffset);
  if (thread_index() == 0) {
#pragma unroll
    for (int index = 0; index < 2; index++) {
#pragma unroll
      for (int part = 0; part < 2; part++) {
        begin_handover(&handovers.keys_full[index][part], kTeamThreads);
        begin_handover(&handovers.keys_empty[index][part], 4);
      }
      begin_handover(&handovers.weights_full[index], 4);
    }
    handovers_begun();
  }
  barrier();
  Work work;
  work.first_token = a.tiles[tile_index * 3];
  work.tokens = a.tiles[tile_index * 3 + 1];
  work.table = a.tables + a.table_starts[a.tiles[tile_index * 3 + 2]];
  work.head = block_x();
  work.first_position = a.positions[work.first_token];
  work.last_position = work.first_position + work.tokens - 1;
  work.begin = first_visible(work.first_position) / kTilePositions;
  work.count = work.last_position / kTilePositions + 1 - work.begin;
  dependency_wait();
  if (thread_index() >= kComputingThreads) {
    keep_registers<kKeptRegisters>();
    fillers_join(1);
    bring_tiles(a, work, shared, handovers);
    fillers_join(2);
  } else {
    take_registers<kTakenRegisters>();
    attend(a, work, shared, exchange, handovers);
  }
}
