// The tile of tokens of a block of attention/wide-flash.hip, and how keys of its positions get into a stage of shared memory,
// panel by panel, by a team of four waves. Defines: those of attention/wide-flash.hip.
#pragma once
#include "attention/flash-tile.h"
#include "attention/kv-cache.h"
#include "device/async-copy.h"

struct Work {
  int first_token;
  int tokens;
  int head;
  int first_position;
  int last_position;
  /** Tiles of positions: the first, and how many. */
  int begin;
  int count;
  const int* table;
};

constexpr int kBlocksOfTile = kTilePositions <= BLOCK_TOKENS ? 1 : kTilePositions / BLOCK_TOKENS;
static_assert(kTilePositions % BLOCK_TOKENS == 0 || BLOCK_TOKENS % kTilePositions == 0, "tiles of whole blocks");
constexpr int kRowsAtOnce = kTeamThreads / 8;
constexpr int kRowRounds = kTilePositions / kRowsAtOnce;
static_assert(BLOCK_TOKENS % kRowsAtOnce == 0, "blocks of whole rounds");

/** Where this thread's chunks of a tile lie in the cache, in the first panel. */
struct TileRows {
  const u8* at[kRowRounds];
};

DEVICE TileRows find_rows(const Work& work, const CachePlane& keys, int kv_heads, int round) {
  const int first = (work.begin + round) * kTilePositions;
  const int lane = min(lane_index(), kBlocksOfTile - 1);
  const int own = work.table[min(first / BLOCK_TOKENS + lane, work.last_position / BLOCK_TOKENS)];
  const int thread = thread_index() % kTeamThreads;
  TileRows rows;
#pragma unroll
  for (int index = 0; index < kRowRounds; index++) {
    const int block = kBlocksOfTile == 1 ? own : wave_from(own, index * kRowsAtOnce / BLOCK_TOKENS);
    const int offset = (first + index * kRowsAtOnce) % BLOCK_TOKENS + thread / 8;
    rows.at[index] =
        keys.rows + cache_row(block, offset, work.head / GROUP, kv_heads) * KeyRow::kBytes + thread % 8 * 16;
  }
  return rows;
}

template <int Panels>
DEVICE void bring_panels(const TileRows& rows, u8* stage, int first) {
  const int thread = thread_index() % kTeamThreads;
  const SharedPlace place = shared_place(stage + first * kPanelBytes + panel_chunk(thread / 8, thread % 8));
#pragma unroll
  for (int index = 0; index < kRowRounds; index++) {
    const u8* const from = rows.at[index] + first * kPanelRowBytes;
#pragma unroll
    for (int panel = 0; panel < Panels; panel++)
      copy_to_place(place + (panel * kPanelBytes + index * kRowsAtOnce * kPanelRowBytes), from + panel * kPanelRowBytes,
                    true);
  }
}
