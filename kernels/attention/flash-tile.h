// One tile of positions of attention/flash.hip: the queries of four waves against its keys, the softmax so far, and the
// weighted values, 16 rows of queries a wave. Defines: those of attention/flash.hip.
#pragma once
#include "attention/attributes.h"
#include "device/wide-panels.h"

constexpr int kTileTokens = 64;
constexpr int kTilePositions = TILE_POSITIONS;
constexpr int kPositionTiles = kTilePositions / 16;
constexpr int kValueTiles = VALUE_WIDTH / 16;
constexpr int kQueryPanelBytes = kTileTokens * kPanelRowBytes;
constexpr int kQueryBytes = KEY_WIDTH / 64 * kQueryPanelBytes;
constexpr int kPanelBytes = kTilePositions * kPanelRowBytes;
constexpr int kKeyBytes = KEY_WIDTH / 64 * kPanelBytes;
constexpr int kValueBytes = VALUE_WIDTH / 64 * kPanelBytes;

struct Running {
  float highest[2];
  /** This lane's part. */
  float total[2];
  Tile values[kValueTiles];
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
    const float base = highest[slot] == negative_infinity() ? 0.0f : highest[slot];
    before[slot] = exponential2(running.highest[slot] - base);
    running.highest[slot] = highest[slot];
    running.total[slot] *= before[slot];
    highest[slot] = base;
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

/** Scores of a tile, under way. */
DEVICE void score_tile(Tile (&scores)[kPositionTiles], PanelPlace queries, PanelPlace keys) {
#pragma unroll
  for (int step = 0; step < KEY_WIDTH / 16; step++) {
    multiply_rows<kTilePositions>(scores, bytes_on(queries, step / 4 * kQueryPanelBytes + step % 4 * 32),
                                  bytes_on(keys, step / 4 * kPanelBytes + step % 4 * 32), step > 0);
  }
}

DEVICE void add_tile(Running& running, const Fragment (&weights)[kPositionTiles], PanelPlace values) {
#pragma unroll
  for (int tile = 0; tile < kPositionTiles; tile++) {
    if (VALUE_WIDTH == 64) multiply_columns<64>(running.values, weights[tile], bytes_on(values, tile * 2048));
    if (VALUE_WIDTH >= 128) multiply_columns<128>(running.values, weights[tile], bytes_on(values, tile * 2048));
    if (VALUE_WIDTH == 256)
      multiply_columns<128>(running.values + 8, weights[tile], bytes_on(values, 2 * kPanelBytes + tile * 2048));
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
