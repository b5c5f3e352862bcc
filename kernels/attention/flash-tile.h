// One tile of positions of attention/flash.hip and attention/wide-flash.hip: the queries of four waves against its keys, the
// softmax so far, and the weighted values, 16 rows of queries a wave. Defines: those of attention/flash.hip, and VALUE_PARTS
// if teams of four waves divide the columns of the values among them.
#pragma once
#include "attention/attributes.h"
#include "device/wide-panels.h"
#ifndef VALUE_PARTS
#define VALUE_PARTS 1
#endif

/** Four waves. */
constexpr int kTeamThreads = 128;
constexpr int kTileTokens = 64;
constexpr int kTilePositions = TILE_POSITIONS;
constexpr int kPositionTiles = kTilePositions / 16;
/**
 * By how much scores, which are exponents of two, may pass what a row's scores are lowered by before sums so far are
 * multiplied: f16 has room for larger weights, and where sums are many that is rarely worth it.
 */
constexpr float kHeadroom = VALUE_PARTS > 1 ? 8.0f : 0.0f;
/** Columns of the values that a team sums up. */
constexpr int kTeamColumns = VALUE_WIDTH / VALUE_PARTS;
constexpr int kValueTiles = kTeamColumns / 16;
constexpr int kQueryPanelBytes = kTileTokens * kPanelRowBytes;
constexpr int kQueryBytes = KEY_WIDTH / 64 * kQueryPanelBytes;
constexpr int kPanelBytes = kTilePositions * kPanelRowBytes;
constexpr int kKeyBytes = KEY_WIDTH / 64 * kPanelBytes;
constexpr int kValueBytes = VALUE_WIDTH / 64 * kPanelBytes;

struct Running {
  /** What scores are lowered by: the highest so far, or less by at most kHeadroom. */
  float highest[2];
  /** This lane's part. */
  float total[2];
  Tile values[kValueTiles];
};

/** Numbers of a lane's two rows, or of neighbouring columns. */
struct alignas(8) FloatPair {
  float of[2];
};

DEVICE int slot_of(int element) { return (element >> 1) & 1; }

/** The soft-cap; then scores of positions that a row does not attend to become minus infinity. */
DEVICE void mask_scores(Tile (&scores)[kPositionTiles], int first, int own_position) {
  if (kSoftCap > 0.0f) {
#pragma unroll
    for (int tile = 0; tile < kPositionTiles; tile++) {
#pragma unroll
      for (int element = 0; element < kTileElements; element++)
        scores[tile].values[element] = capped_score(scores[tile].values[element]);
    }
  }
  if (kLimited && first < first_visible(own_position + 15)) {
#pragma unroll
    for (int slot = 0; slot < 2; slot++) {
      const int begin = first_visible(own_position + tile_row(slot * 2)) - first - 2 * (lane_index() % 4);
#pragma unroll
      for (int tile = 0; tile < kPositionTiles; tile++) {
#pragma unroll
        for (int element = 0; element < kTileElements; element++) {
          if (slot_of(element) == slot && tile * 16 + (element & 1) + 2 * (element & 4) < begin)
            scores[tile].values[element] = negative_infinity();
        }
      }
    }
  }
  if (first + kTilePositions - 1 > own_position) {
#pragma unroll
    for (int slot = 0; slot < 2; slot++) {
      const int last = own_position + tile_row(slot * 2) - first - 2 * (lane_index() % 4);
#pragma unroll
      for (int tile = 0; tile < kPositionTiles; tile++) {
#pragma unroll
        for (int element = 0; element < kTileElements; element++) {
          if (slot_of(element) == slot && tile * 16 + (element & 1) + 2 * (element & 4) > last)
            scores[tile].values[element] = negative_infinity();
        }
      }
    }
  }
}

/**
 * The running highest score of a row from now on; `before` is what everything summed up so far has to be multiplied by. Returns
 * what scores are lowered by.
 */
DEVICE float raise_highest(Running& running, int slot, float highest, float& before) {
  const float base = highest == negative_infinity() ? 0.0f : highest;
  before = exponential2(running.highest[slot] - base);
  running.highest[slot] = highest;
  running.total[slot] *= before;
  return base;
}

/** Scores become weights; `before` is what everything summed up so far has to be multiplied by. */
DEVICE void weigh_scores(Tile (&scores)[kPositionTiles], Running& running, float (&before)[2]) {
  float highest[2] = {running.highest[0], running.highest[1]};
#pragma unroll
  for (int tile = 0; tile < kPositionTiles; tile++) {
#pragma unroll
    for (int element = 0; element < kTileElements; element++)
      highest[slot_of(element)] = max_number(highest[slot_of(element)], scores[tile].values[element]);
  }
#pragma unroll
  for (int slot = 0; slot < 2; slot++) {
    highest[slot] = max_number(highest[slot], wave_xor(highest[slot], 1));
    highest[slot] = max_number(highest[slot], wave_xor(highest[slot], 2));
    if (kHeadroom > 0.0f && highest[slot] <= running.highest[slot] + kHeadroom) highest[slot] = running.highest[slot];
    highest[slot] = raise_highest(running, slot, highest[slot], before[slot]);
  }
#pragma unroll
  for (int tile = 0; tile < kPositionTiles; tile++) {
#pragma unroll
    for (int element = 0; element < kTileElements; element++) {
      const float weight = exponential2(scores[tile].values[element] - highest[slot_of(element)]);
      scores[tile].values[element] = weight;
      running.total[slot_of(element)] += weight;
    }
  }
}

DEVICE void rescale_values(Running& running, const float (&before)[2]) {
  if (!any_lane(before[0] != 1.0f || before[1] != 1.0f)) return;
#pragma unroll
  for (int tile = 0; tile < kValueTiles; tile++) {
#pragma unroll
    for (int element = 0; element < kTileElements; element++)
      running.values[tile].values[element] *= before[slot_of(element)];
  }
}

/** What some panels of queries and keys give to the scores of a tile, under way; `keep`: to what others have given. */
template <int Panels>
DEVICE void score_panels(Tile (&scores)[kPositionTiles], PanelPlace queries, PanelPlace keys, bool keep) {
#pragma unroll
  for (int step = 0; step < Panels * 4; step++) {
    multiply_rows<kTilePositions>(scores, bytes_on(queries, step / 4 * kQueryPanelBytes + step % 4 * 32),
                                  bytes_on(keys, step / 4 * kPanelBytes + step % 4 * 32), keep || step > 0);
  }
}

/** Scores of a tile, under way. */
DEVICE void score_tile(Tile (&scores)[kPositionTiles], PanelPlace queries, PanelPlace keys) {
  score_panels<KEY_WIDTH / 64>(scores, queries, keys, false);
}

DEVICE void add_tile(Running& running, const Fragment (&weights)[kPositionTiles], PanelPlace values) {
#pragma unroll
  for (int tile = 0; tile < kPositionTiles; tile++) {
    const PanelPlace place = bytes_on(values, tile * 2048);
    if (kTeamColumns == 64) multiply_columns<64>(running.values, weights[tile], place);
    if (kTeamColumns == 128) multiply_columns<128>(running.values, weights[tile], place);
    if (kTeamColumns == 256 && VALUE_PARTS == 1) {
      multiply_columns<128>(running.values, weights[tile], place);
      multiply_columns<128>(running.values + 8, weights[tile], bytes_on(place, 2 * kPanelBytes));
    }
    if (kTeamColumns == 256 && VALUE_PARTS > 1) multiply_columns<256>(running.values, weights[tile], place);
  }
}

/** Where a lane's results lie is where its part of an operand lies. */
DEVICE void pack_weights(const Tile (&scores)[kPositionTiles], Fragment (&weights)[kPositionTiles]) {
#pragma unroll
  for (int tile = 0; tile < kPositionTiles; tile++) {
    const float* const values = scores[tile].values;
#pragma unroll
    for (int word = 0; word < kFragmentWords; word++)
      weights[tile].words[word] = float2_to_half2(values[2 * word], values[2 * word + 1]);
  }
}
