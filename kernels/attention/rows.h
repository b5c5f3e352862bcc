// How a block of split attention reads the rows of its split: every row by a few neighbouring lanes, 16 bytes each, all
// of a batch in flight at once, in registers. GROUP is the number of query heads that share a kv head, BLOCK_HEADS how
// many of them one block takes.
#pragma once
#include "device/portable.h"
#include "device/step.h"
#include "attention/attributes.h"
#include "attention/kv-cache.h"
/** Wider heads leave memory for fewer of them. */
#define WIDE_HEADS (KEY_WIDTH > 256 || VALUE_WIDTH > 256)
#define MOST_BLOCK_HEADS (WIDE_HEADS ? 8 : 16)
#ifndef BLOCK_HEADS
#define BLOCK_HEADS (GROUP < MOST_BLOCK_HEADS ? GROUP : MOST_BLOCK_HEADS)
#endif

constexpr int kThreads = 256;
constexpr int kWaves = kThreads / WAVE;
constexpr int kBlockHeads = BLOCK_HEADS;
constexpr int kHeadBlocks = (GROUP + kBlockHeads - 1) / kBlockHeads;
/** Heads whose queries or sums are in registers together. */
constexpr int kMostAtOnce = WIDE_HEADS ? 2 : 4;
constexpr int kHeadsAtOnce = kBlockHeads < kMostAtOnce ? kBlockHeads : kMostAtOnce;
constexpr int kHeadChunks = (kBlockHeads + kHeadsAtOnce - 1) / kHeadsAtOnce;
constexpr int kPaddedHeads = kHeadChunks * kHeadsAtOnce;
constexpr int kChunkColumns = KeyRow::kChunkColumns;

/** Whether the matrix units take the rows as they lie in registers: attention/matrix.h, on NVIDIA from sm_80 on. */
#if !defined(ROCMFORGE_EMULATOR) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800 && KV_TYPE == 1 && \
    !VALUES_IN_KEYS && (KEY_WIDTH == 64 || KEY_WIDTH == 128 || KEY_WIDTH == 256) &&                   \
    (VALUE_WIDTH == 64 || VALUE_WIDTH == 128 || VALUE_WIDTH == 256)
#define ATTENTION_MATRIX 1
#else
#define ATTENTION_MATRIX 0
#endif

/**
 * How the threads of a block share the rows of a split: a few lanes a row, 16 bytes each. Rows of a round are
 * kRowsAtOnce; the matrix units want four neighbouring lanes on a key, and on a value every fourth lane, of four
 * neighbouring rows each.
 */
template <typename HeadRow, bool Key>
struct Reading {
  typedef HeadRow Row;
  static constexpr int kLanes = ATTENTION_MATRIX         ? (Key ? 4 : 8)
                                : HeadRow::kChunks <= 2  ? 2
                                : HeadRow::kChunks <= 4  ? 4
                                : HeadRow::kChunks <= 8  ? 8
                                : HeadRow::kChunks <= 16 ? 16
                                                         : 32;
  static constexpr int kLaneChunks = (HeadRow::kChunks + kLanes - 1) / kLanes;
  static constexpr int kRowsAtOnce = kThreads / kLanes;
  static constexpr int kRounds = kSplitPositions / kRowsAtOnce;
  /** Rounds whose rows are in registers together. */
  static constexpr int kMostRounds = ATTENTION_MATRIX || kLaneChunks == 1 ? 8 : kLaneChunks == 2 ? 4 : 2;
  static constexpr int kBatch = kRounds < kMostRounds ? kRounds : kMostRounds;
  static constexpr int kBatches = kRounds / kBatch;
  static constexpr int kBatchChunks = kBatch * kLaneChunks;
  static constexpr bool kFours = ATTENTION_MATRIX && !Key;

  /** Where in the split this thread's row of a round is. */
  DEVICE int place(int batch, int round) {
    if (kFours) return wave_index() * (4 * kRounds) + lane_index() % 4 * kRounds + round;
    return (batch * kBatch + round) * kRowsAtOnce + thread_index() / kLanes;
  }
  DEVICE int chunk(int index) { return index * kLanes + (kFours ? lane_index() / 4 : thread_index() % kLanes); }
  /** The wave that has a place, and its round of all. */
  DEVICE int wave_of(int place) { return kFours ? place / (4 * kRounds) : place % kRowsAtOnce * kLanes / WAVE; }
  DEVICE int round_of(int place) { return kFours ? place % kRounds : place / kRowsAtOnce; }
};

typedef Reading<KeyRow, true> Keys;
typedef Reading<ValueRow, false> Values;

/** Where a block finds its keys and values. */
struct Source {
  CacheLayer layer;
  const int* table;
  int kv_head;
  int kv_heads;
  /** The split's first position, and the one after the last that the token attends to. */
  int first;
  int end;
  /** The first position that the token attends to, in this split or before it. */
  int begin;
};

/** Whether the token attends to a position of the split. */
DEVICE bool is_visible(const Source& source, int position) {
  return position < source.end && (!kLimited || position >= source.begin);
}

/** Which heads of which token a block computes. */
struct Share {
  int token;
  int split;
  int kv_head;
  int first_head;
  int heads;
};

/** Of a grid of x splits, y kv heads × blocks of query heads, z tokens. */
DEVICE Share share_of_block() {
  const int head_in_group = block_y() % kHeadBlocks * kBlockHeads;
  const int kv_head = block_y() / kHeadBlocks;
  return {block_z(), block_x(), kv_head, kv_head * GROUP + head_in_group, min(kBlockHeads, GROUP - head_in_group)};
}

/** Rounds of a batch with any row before the end: the same for every thread, none or fewer where it is not positive. */
template <typename Shape>
DEVICE int rounds_of_batch(const Source& source, int batch) {
  return (source.end - source.first + Shape::kRowsAtOnce - 1) / Shape::kRowsAtOnce - batch * Shape::kBatch;
}

DEVICE int row_at(const Source& source, int block, int position) {
  return int(cache_row(block, position % BLOCK_TOKENS, source.kv_head, source.kv_heads));
}

template <typename Shape>
DEVICE void fetch_chunks(const CachePlane& plane, int row, bool wanted, CacheChunk* chunks) {
#pragma unroll
  for (int index = 0; index < Shape::kLaneChunks; index++) {
    const int chunk = Shape::chunk(index);
    if (wanted && chunk < Shape::Row::kChunks) chunks[index] = fetch_chunk<typename Shape::Row>(plane, u64(row), chunk);
  }
}

/** Where this thread's rows of a batch are, in any plane of the layer; past the end, where the last one's block is. */
template <typename Shape>
DEVICE void find_rows(const Source& source, int batch, int* rows) {
#pragma unroll
  for (int round = 0; round < Shape::kBatch; round++) {
    const int position = source.first + Shape::place(batch, round);
    rows[round] = row_at(source, source.table[min(position, source.end - 1) / BLOCK_TOKENS], position);
  }
}

/** Those of them at visible positions before `end`, which lies in the split; the others are empty. */
template <typename Shape>
DEVICE void fetch_found(const Source& source, const CachePlane& plane, int batch, int end, const int* rows,
                        CacheChunk* chunks) {
#pragma unroll
  for (int index = 0; index < Shape::kBatchChunks; index++) chunks[index] = empty_chunk();
#pragma unroll
  for (int round = 0; round < Shape::kBatch; round++) {
    const int position = source.first + Shape::place(batch, round);
    fetch_chunks<Shape>(plane, rows[round], position < end && (!kLimited || position >= source.begin),
                        chunks + round * Shape::kLaneChunks);
  }
}

template <typename Shape>
DEVICE void fetch_rows(const Source& source, const CachePlane& plane, int batch, int end, CacheChunk* chunks) {
  int rows[Shape::kBatch];
  find_rows<Shape>(source, batch, rows);
  fetch_found<Shape>(source, plane, batch, end, rows, chunks);
}

template <typename Left, typename Right>
struct IsSame {
  static constexpr bool kIs = false;
};

template <typename One>
struct IsSame<One, One> {
  static constexpr bool kIs = true;
};

/** The first batch of both. Rows of one width are shared alike, and looked up once. */
DEVICE void fetch_both(const Source& source, int end, CacheChunk* keys, CacheChunk* values) {
  int rows[Keys::kBatch];
  find_rows<Keys>(source, 0, rows);
  fetch_found<Keys>(source, source.layer.keys, 0, end, rows, keys);
  int value_rows[Values::kBatch];
  if (!ATTENTION_MATRIX && IsSame<KeyRow, ValueRow>::kIs) {
#pragma unroll
    for (int round = 0; round < Values::kBatch; round++) value_rows[round] = rows[round % Keys::kBatch];
  } else {
    find_rows<Values>(source, 0, value_rows);
  }
  fetch_found<Values>(source, source.layer.values, 0, end, value_rows, values);
}

/** The one row at `position`, where it is in the first batch. */
template <typename Shape>
DEVICE void fetch_row(const Source& source, const CachePlane& plane, int position, CacheChunk* chunks) {
  const int row = row_at(source, source.table[position / BLOCK_TOKENS], position);
#pragma unroll
  for (int round = 0; round < Shape::kBatch; round++) {
    fetch_chunks<Shape>(plane, row, source.first + Shape::place(0, round) == position,
                        chunks + round * Shape::kLaneChunks);
  }
}
