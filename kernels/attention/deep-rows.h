// The rows of one wave's tiles of positions on their way from an f16 cache to shared memory. With STAGES of 2 and more
// the copies of the next STAGES − 1 tiles run in the background; with 1 the next tile waits in registers while one is used.
// A file that includes this has kWaves, kTile, kStages, kKeyStride and kValueStride (halves from one row of a
// tile to the next).
#pragma once
#include "attention/attributes.h"
#include "attention/kv-cache.h"
#include "device/async-copy.h"

constexpr int kTileHalves = kTile * (kKeyStride + kValueStride);

/** Which rows of the cache a block reads. */
struct DeepSource {
  CacheLayer layer;
  const int* table;
  int kv_head;
  int kv_heads;
  /** First visible position of the token: tables need not name blocks before it. */
  int begin;
  /** The block's last position. */
  int last;
  /** Positions before it lie in the cache; the token's own key and value are not there yet. */
  int stored;
};

/** Where the row of this lane's place in a tile is, in any plane of the layer. */
DEVICE int find_row(const DeepSource& source, int first) {
  const int wanted = min(first + lane_index() % kTile, source.last);
  const int position = kLimited && wanted < source.begin ? source.begin : wanted;
  return int(
      cache_row(source.table[position / BLOCK_TOKENS], position % BLOCK_TOKENS, source.kv_head, source.kv_heads));
}

/** Chunks of 16 bytes of a tile's keys or values that one lane has. */
template <typename HeadRow>
struct TileChunks {
  static constexpr int kAll = kTile * HeadRow::kChunks;
  static constexpr int kEach = (kAll + WAVE - 1) / WAVE;
};

/** Calls take(index, place in the tile, chunk, address, wanted) for each; `rows` is this lane's find_row. */
template <typename HeadRow, typename Take>
DEVICE void each_chunk(const DeepSource& source, const CachePlane& plane, int first, int rows, Take take) {
  typedef TileChunks<HeadRow> Chunks;
#pragma unroll
  for (int index = 0; index < Chunks::kEach; index++) {
    const int at = index * WAVE + lane_index();
    const int place = at / HeadRow::kChunks % kTile, chunk = at % HeadRow::kChunks;
    const u8* const address = plane.rows + u64(wave_from(rows, place)) * HeadRow::kBytes + chunk * 16;
    if (Chunks::kAll % WAVE != 0 && at >= Chunks::kAll) continue;
    take(index, place, chunk, address, first + place < source.stored && (!kLimited || first + place >= source.begin));
  }
}

#if STAGES > 1
/** A tile to shared memory, as one group of copies. */
DEVICE void bring_tile(const DeepSource& source, int first, int rows, u16* tile) {
  const SharedPlace keys = shared_place(tile), values = keys + kTile * kKeyStride * 2;
  each_chunk<KeyRow>(source, source.layer.keys, first, rows,
                     [&](int, int place, int chunk, const u8* address, bool wanted) {
                       copy_to_place(keys + (place * kKeyStride + chunk * 8) * 2, address, wanted);
                     });
  each_chunk<ValueRow>(source, source.layer.values, first, rows,
                       [&](int, int place, int chunk, const u8* address, bool wanted) {
                         copy_to_place(values + (place * kValueStride + chunk * 8) * 2, address, wanted);
                       });
}
#else
/** A tile in registers. */
struct HeldTile {
  Words4 keys[TileChunks<KeyRow>::kEach];
  Words4 values[TileChunks<ValueRow>::kEach];
};

DEVICE void hold_tile(const DeepSource& source, int first, int rows, HeldTile& held) {
  each_chunk<KeyRow>(source, source.layer.keys, first, rows, [&](int index, int, int, const u8* address, bool wanted) {
    held.keys[index] = wanted ? load_once(address) : Words4{0, 0, 0, 0};
  });
  each_chunk<ValueRow>(source, source.layer.values, first, rows,
                       [&](int index, int, int, const u8* address, bool wanted) {
                         held.values[index] = wanted ? load_once(address) : Words4{0, 0, 0, 0};
                       });
}

template <typename HeadRow>
DEVICE void put_chunks(const Words4* held, u16* rows, int stride) {
  typedef TileChunks<HeadRow> Chunks;
#pragma unroll
  for (int index = 0; index < Chunks::kEach; index++) {
    const int at = index * WAVE + lane_index();
    if (Chunks::kAll % WAVE != 0 && at >= Chunks::kAll) continue;
    *reinterpret_cast<Words4*>(rows + at / HeadRow::kChunks * stride + at % HeadRow::kChunks * 8) = held[index];
  }
}

DEVICE void put_tile(const HeldTile& held, u16* tile) {
  put_chunks<KeyRow>(held.keys, tile, kKeyStride);
  put_chunks<ValueRow>(held.values, tile + kTile * kKeyStride, kValueStride);
}
#endif

/** From one of a wave's tiles to the next, in positions. */
constexpr int kWalkStep = kWaves * kTile;

/** A wave's walk over its tiles. */
struct DeepWalk {
  /** Position of its first tile. */
  int first;
  /** STAGES tiles of shared memory that this wave alone uses. */
  u16* stages;
  /** find_row of the next tile to ask for. */
  int rows;
#if STAGES == 1
  HeldTile held;
#endif
};

/** Asks for the first tiles. */
DEVICE void begin_walk(const DeepSource& source, DeepWalk& walk) {
#if STAGES > 1
  int early[kStages];
#pragma unroll
  for (int stage = 0; stage < kStages; stage++) early[stage] = find_row(source, walk.first + stage * kWalkStep);
  int rows = early[0];
  // One code for all stages: written out for each, it takes 25 registers more and a percent of a step of 64 sequences.
#pragma unroll 1
  for (int stage = 0; stage + 1 < kStages; stage++) {
    const int first = walk.first + stage * kWalkStep;
    if (first <= source.last) bring_tile(source, first, rows, walk.stages + stage * kTileHalves);
    end_copy_group();
#pragma unroll
    for (int later = 1; later + 1 < kStages; later++) rows = stage + 1 == later ? early[later] : rows;
  }
  walk.rows = early[kStages - 1];
#else
  const int rows = find_row(source, walk.first);
  walk.rows = find_row(source, walk.first + kWalkStep);
  hold_tile(source, walk.first, rows, walk.held);
#endif
}

/** Calls each(tile, position of its first row) for one tile after the other, by every lane of the wave. */
template <typename Each>
DEVICE void walk_tiles(const DeepSource& source, DeepWalk& walk, Each each) {
#if STAGES > 1
  int stage = 0, free = kStages - 1;
#pragma unroll 1
  for (int first = walk.first; first <= source.last; first += kWalkStep) {
    wait_for_copy_groups<kStages - 2>();
    wave_barrier();
    const int upcoming = first + (kStages - 1) * kWalkStep;
    if (upcoming <= source.last) bring_tile(source, upcoming, walk.rows, walk.stages + free * kTileHalves);
    end_copy_group();
    walk.rows = find_row(source, upcoming + kWalkStep);
    each(walk.stages + stage * kTileHalves, first);
    stage = stage + 1 == kStages ? 0 : stage + 1;
    free = free + 1 == kStages ? 0 : free + 1;
  }
  wait_for_copies();
#else
#pragma unroll 1
  for (int first = walk.first; first <= source.last; first += kWalkStep) {
    wave_barrier();
    put_tile(walk.held, walk.stages);
    wave_barrier();
    if (first + kWalkStep <= source.last) hold_tile(source, first + kWalkStep, walk.rows, walk.held);
    walk.rows = find_row(source, first + 2 * kWalkStep);
    each(walk.stages, first);
  }
#endif
}
