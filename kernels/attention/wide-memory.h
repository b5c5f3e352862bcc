// What a block of attention over wide heads (attention/wide.h) has in shared memory, which positions it walks over, and how
// the rows of a tile of positions get there.
#pragma once
#define MATRIX_WAVES (256 / WAVE)
#include "device/portable.h"
#include "device/step.h"
#include "attention/kv-cache.h"
#include "device/matrix-unit.h"
#include "attention/attributes.h"
#include "attention/output.h"
#include "attention/bring.h"
#if KV_TYPE == 0 || (PARTS == 2 && KV_TYPE != 1)
#error "rows that f16 does not have: attention/split.hip reads them"
#endif

constexpr int kThreads = 256;
constexpr int kWaves = kThreads / WAVE;
constexpr int kParts = PARTS;
constexpr int kRowTiles = ROW_TILES;
constexpr int kRows = kRowTiles * 16;
constexpr int kTilePositions = TILE_POSITIONS;
constexpr int kPositionTiles = kTilePositions / 16;
constexpr int kStages = STAGES;
constexpr int kKeySteps = (KEY_WIDTH + 15) / 16;
constexpr int kValueTiles = (VALUE_WIDTH + 15) / 16;
/** An even number, so that a wave has whole blocks of 32 columns. */
constexpr int kWaveTiles = ((kValueTiles + kWaves - 1) / kWaves + 1) / 2 * 2;
constexpr int kWaveColumns = kWaveTiles * 16;
/** Tiles of scores, and how many of them a wave computes one after the other. */
constexpr int kUnits = kRowTiles * kPositionTiles;
constexpr int kUnitRounds = (kUnits + kWaves - 1) / kWaves;
/** Weights are at most 1; f16 has most bits for numbers of this size, and less to lose for small ones. */
constexpr float kWeightScale = 16384.0f;

// In halves: eight more than the columns, so that neighbouring rows lie in different banks.
constexpr int kKeyStride = kKeySteps * 16 + 8;
constexpr int kValueStride = VALUES_IN_KEYS ? kKeyStride : kValueTiles * 16 + 8;
constexpr int kWeightStride = kTilePositions + 8;

// Shared memory, in bytes; also in src/backends/gpu/memory/wide-attention.ts. Results pass through queries and stages.
constexpr int kQueryBytes = kParts * kRows * kKeyStride * 2;
constexpr int kKeyBytes = kTilePositions * kKeyStride * 2;
constexpr int kStageBytes = kKeyBytes + (VALUES_IN_KEYS ? 0 : kTilePositions * kValueStride * 2);
constexpr int kInputBytes = kQueryBytes + kStages * kStageBytes;
constexpr int kResultBytes = kWaves * 16 * kWaveColumns * 4;
constexpr int kPoolBytes = kInputBytes > kResultBytes ? kInputBytes : kResultBytes;
constexpr int kWeightBytes = kParts * kRows * kWeightStride * 2;
constexpr int kSharedBytes = kPoolBytes + kWeightBytes + (2 * kPositionTiles + 5) * kRows * 4 + 2 * kTilePositions * 4;

struct WideMemory {
  /** [part][row][column] */
  u16* queries;
  /** Keys, then values unless they are columns of the keys. */
  u16* stages;
  /** [part][row][position] */
  u16* weights;
  /** [tile of positions][row]: highest score, sum of weights. */
  float* tops;
  float* sums;
  /** Of each row: highest score so far (that of the tile before, and this one's), factor of older sums, sum of weights. */
  float* highest;
  float* factors;
  float* totals;
  /** What the scores of a row are multiplied by, because its query was. */
  float* backs;
  /** Of two tiles: where rows of the cache are. */
  int* rows;
};

DEVICE WideMemory wide_memory(u8* memory) {
  float* const floats = reinterpret_cast<float*>(memory + kPoolBytes + kWeightBytes);
  float* const highest = floats + 2 * kPositionTiles * kRows;
  return {reinterpret_cast<u16*>(memory),
          reinterpret_cast<u16*>(memory + kQueryBytes),
          reinterpret_cast<u16*>(memory + kPoolBytes),
          floats,
          floats + kPositionTiles * kRows,
          highest,
          highest + 2 * kRows,
          highest + 3 * kRows,
          highest + 4 * kRows,
          reinterpret_cast<int*>(highest + 5 * kRows)};
}

/** Which positions a block walks over, and where they are. */
struct Walk {
  CacheLayer layer;
  const int* table;
  int kv_head;
  int kv_heads;
  /** The first tile, and the one after the last. */
  int first;
  int end;
  /** No row attends to anything past it; it stands in for what is past it. */
  int last_position;
};

DEVICE int wide_row(const Walk& walk, int index, int place) {
  const int position = min(index * kTilePositions + place, walk.last_position);
  return int(cache_row(walk.table[position / BLOCK_TOKENS], position % BLOCK_TOKENS, walk.kv_head, walk.kv_heads));
}

DEVICE void find_wide_rows(const Walk& walk, int index, const WideMemory& memory) {
  if (thread_index() < kTilePositions)
    memory.rows[(index & 1) * kTilePositions + thread_index()] = wide_row(walk, index, thread_index());
}

DEVICE u16* stage_of(const WideMemory& memory, int index) {
  return memory.stages + (kStages == 2 ? index & 1 : 0) * (kStageBytes / 2);
}

DEVICE void bring_tile(const Walk& walk, int index, const WideMemory& memory) {
  const int* const rows = memory.rows + (index & 1) * kTilePositions;
  u16* const stage = stage_of(memory, index);
  bring_rows<KeyRow, kTilePositions, kThreads, 2>(walk.layer.keys, rows, stage, kKeyStride);
  if (!VALUES_IN_KEYS)
    bring_rows<ValueRow, kTilePositions, kThreads, 2>(walk.layer.values, rows, stage + kKeyBytes / 2, kValueStride);
}

/** By the whole block, before the first tile arrives. */
DEVICE void prepare_wide(const WideMemory& memory) {
  for (int row = thread_index(); row < kRows; row += kThreads) {
    memory.highest[row] = negative_infinity();
    memory.highest[kRows + row] = negative_infinity();
    memory.totals[row] = 0.0f;
  }
  // Columns that no key and no value fills meet zeros, and must not be NaN.
  if (KeyRow::kColumns < kKeySteps * 16 || (!VALUES_IN_KEYS && ValueRow::kColumns < kValueTiles * 16)) {
    for (int index = thread_index(); index < kStages * kStageBytes / 2; index += kThreads) memory.stages[index] = 0;
  }
}
