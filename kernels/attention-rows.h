// The inner parts of split attention: how a block of kThreads reads the rows of a split into registers, scores keys for a
// few heads at once, weighs, and adds up values. GROUP is the number of query heads that share a kv head.
#pragma once
#include "portable.h"
#include "step.h"
#include "cache.h"
#include "fold.h"
#include "quad.h"

constexpr int kThreads = 256;
constexpr int kWaves = kThreads / WAVE;
constexpr int kBlockHeads = GROUP < 16 ? GROUP : 16;
constexpr int kHeadBlocks = (GROUP + kBlockHeads - 1) / kBlockHeads;
/** Heads whose queries or sums are in registers together. */
constexpr int kHeadsAtOnce = kBlockHeads < 4 ? kBlockHeads : 4;
constexpr int kChunks = (kBlockHeads + kHeadsAtOnce - 1) / kHeadsAtOnce;
constexpr int kPaddedHeads = kChunks * kHeadsAtOnce;
constexpr int kPieceColumns = KeyRow::kPieceColumns;

/** How the threads of a block share the rows of a split: neighbouring lanes a row, 16 bytes each. */
template <typename HeadRow>
struct Reading {
  static constexpr int kLanes = HeadRow::kPieces <= 2 ? 2 : HeadRow::kPieces <= 4 ? 4 : HeadRow::kPieces <= 8 ? 8 : HeadRow::kPieces <= 16 ? 16 : 32;
  static constexpr int kLanePieces = (HeadRow::kPieces + kLanes - 1) / kLanes;
  static constexpr int kRowsAtOnce = kThreads / kLanes;
  static constexpr int kRounds = kSplitPositions / kRowsAtOnce;
  /** Rounds whose rows are in registers together. */
  static constexpr int kMostRounds = kLanePieces == 1 ? 8 : kLanePieces == 2 ? 4 : 2;
  static constexpr int kBatch = kRounds < kMostRounds ? kRounds : kMostRounds;
  static constexpr int kBatches = kRounds / kBatch;
  static constexpr int kBatchPieces = kBatch * kLanePieces;
};

typedef Reading<KeyRow> Keys;
typedef Reading<ValueRow> Values;

/** Where a block finds its keys and values. */
struct Source {
  CacheLayer layer;
  const int* table;
  int kv_head;
  int kv_heads;
  /** The split's first position, and the one after its last. */
  int first;
  int end;
};

/** Where in the split this thread's row of a round is. */
template <typename HeadRow>
DEVICE int place_of_round(int batch, int round) {
  typedef Reading<HeadRow> Shape;
  return (batch * Shape::kBatch + round) * Shape::kRowsAtOnce + thread_index() / Shape::kLanes;
}

template <typename HeadRow>
DEVICE void fetch_pieces(const CachePlane& plane, int row, bool wanted, CachePiece* pieces) {
  typedef Reading<HeadRow> Shape;
#pragma unroll
  for (int index = 0; index < Shape::kLanePieces; index++) {
    const int piece = index * Shape::kLanes + thread_index() % Shape::kLanes;
    if (wanted && piece < HeadRow::kPieces) pieces[index] = fetch_piece<HeadRow>(plane, u64(row), piece);
  }
}

/** The rows of one batch at positions before `end`, which lies in the split; the others are empty. */
template <typename HeadRow>
DEVICE void fetch_rows(const Source& source, const CachePlane& plane, int batch, int end, CachePiece* pieces) {
  typedef Reading<HeadRow> Shape;
  int blocks[Shape::kBatch];
#pragma unroll
  for (int round = 0; round < Shape::kBatch; round++) {
    const int position = source.first + place_of_round<HeadRow>(batch, round);
    blocks[round] = source.table[smaller(position, source.end - 1) / BLOCK_TOKENS];
  }
#pragma unroll
  for (int index = 0; index < Shape::kBatchPieces; index++) pieces[index] = empty_piece();
#pragma unroll
  for (int round = 0; round < Shape::kBatch; round++) {
    const int position = source.first + place_of_round<HeadRow>(batch, round);
    const int row = int(cache_row(blocks[round], position % BLOCK_TOKENS, source.kv_head, source.kv_heads));
    fetch_pieces<HeadRow>(plane, row, position < end, pieces + round * Shape::kLanePieces);
  }
}

/** The one row at `position`, where it is in the first batch. */
template <typename HeadRow>
DEVICE void fetch_row(const Source& source, const CachePlane& plane, int position, CachePiece* pieces) {
  typedef Reading<HeadRow> Shape;
  const int row = int(cache_row(source.table[position / BLOCK_TOKENS], position % BLOCK_TOKENS, source.kv_head, source.kv_heads));
#pragma unroll
  for (int round = 0; round < Shape::kBatch; round++) {
    fetch_pieces<HeadRow>(plane, row, source.first + place_of_round<HeadRow>(0, round) == position, pieces + round * Shape::kLanePieces);
  }
}

/** Scores of one batch of keys and the heads from `head` on, as powers of two, to scores[position][head]. */
DEVICE void score_keys(const Source& source, int batch, int head, const CachePiece* keys, const Quad* queries, float* scores) {
  float sums[kHeadsAtOnce][Keys::kBatch] = {};
#pragma unroll
  for (int index = 0; index < Keys::kLanePieces; index++) {
    const int piece = index * Keys::kLanes + thread_index() % Keys::kLanes;
    Quad query[kHeadsAtOnce][kPieceColumns / 4];
#pragma unroll
    for (int h = 0; h < kHeadsAtOnce; h++) {
#pragma unroll
      for (int quad = 0; quad < kPieceColumns / 4; quad++) {
        // A lane past the row's end has an empty piece; any query does.
        const int at = piece < KeyRow::kPieces ? piece : 0;
        query[h][quad] = queries[((head + h) * KeyRow::kPieces + at) * (kPieceColumns / 4) + quad];
      }
    }
#pragma unroll
    for (int round = 0; round < Keys::kBatch; round++) {
      const CachePiece& piece_of_key = keys[round * Keys::kLanePieces + index];
      float columns[kPieceColumns];
      widen(piece_of_key.words, columns);
      const float scale = KV_TYPE == 2 ? half_to_float(piece_of_key.scale) : 1.0f;
#pragma unroll
      for (int h = 0; h < kHeadsAtOnce; h++) {
        float sum = KV_TYPE == 2 ? 0.0f : sums[h][round];
#pragma unroll
        for (int column = 0; column < kPieceColumns; column++) sum = fused(query[h][column / 4].at[column % 4], columns[column], sum);
        sums[h][round] = KV_TYPE == 2 ? fused(sum, scale, sums[h][round]) : sum;
      }
    }
  }
  typedef Fold<Keys::kBatch, Keys::kLanes / 2, 1> Lanes;
#pragma unroll
  for (int h = 0; h < kHeadsAtOnce; h++) {
    const int position = place_of_round<KeyRow>(batch, Lanes::sum(sums[h]));
    if ((lane_index() & Lanes::kSpare) == 0) {
      scores[position * kPaddedHeads + head + h] = source.first + position < source.end ? sums[h][0] : float_of(0xff800000u);
    }
  }
}

/** Scores become weights; each head's by one wave. Highest score and sum go to bounds[head]. */
DEVICE void weigh_scores(int heads, float* scores, float (*bounds)[2]) {
  constexpr int Each = kSplitPositions / WAVE;
  for (int head = wave_index(); head < heads; head += kWaves) {
    float own[Each];
    float highest = float_of(0xff800000u);
#pragma unroll
    for (int index = 0; index < Each; index++) {
      own[index] = scores[(index * WAVE + lane_index()) * kPaddedHeads + head];
      highest = larger(highest, own[index]);
    }
    highest = wave_max(highest);
    // Where every score is −∞ every weight is 0, not NaN: other splits may know better.
    const float base = highest == float_of(0xff800000u) ? 0.0f : highest;
    float sum = 0.0f;
#pragma unroll
    for (int index = 0; index < Each; index++) {
      own[index] = exponential2(own[index] - base);
      sum += own[index];
      scores[(index * WAVE + lane_index()) * kPaddedHeads + head] = own[index];
    }
    sum = wave_sum(sum);
    if (lane_index() == 0) {
      bounds[head][0] = highest;
      bounds[head][1] = sum;
    }
  }
}

/** Adds one batch of values, each times its weight for the heads from `head` on. `weights` is aligned to 16 bytes. */
DEVICE void add_values(int batch, int head, const CachePiece* values, const float* weights, float (*sums)[Values::kLanePieces * kPieceColumns]) {
#pragma unroll
  for (int round = 0; round < Values::kBatch; round++) {
    const int position = place_of_round<ValueRow>(batch, round);
    float weight[kHeadsAtOnce];
    if (kHeadsAtOnce == 4) {
      const Quad together = *reinterpret_cast<const Quad*>(weights + position * kPaddedHeads + head);
#pragma unroll
      for (int h = 0; h < kHeadsAtOnce; h++) weight[h] = together.at[h];
    } else {
#pragma unroll
      for (int h = 0; h < kHeadsAtOnce; h++) weight[h] = weights[position * kPaddedHeads + head + h];
    }
#pragma unroll
    for (int index = 0; index < Values::kLanePieces; index++) {
      const CachePiece& piece = values[round * Values::kLanePieces + index];
      float columns[kPieceColumns];
      widen(piece.words, columns);
      const float scale = KV_TYPE == 2 ? half_to_float(piece.scale) : 1.0f;
#pragma unroll
      for (int h = 0; h < kHeadsAtOnce; h++) {
        const float factor = KV_TYPE == 2 ? weight[h] * scale : weight[h];
#pragma unroll
        for (int column = 0; column < kPieceColumns; column++) {
          float& sum = sums[h][index * kPieceColumns + column];
          sum = fused(factor, columns[column], sum);
        }
      }
    }
  }
}

/** This wave's share of the sums to part[head][column]. */
DEVICE void fold_values(float (*sums)[Values::kLanePieces * kPieceColumns], float* part) {
  typedef Fold<Values::kLanePieces * kPieceColumns, WAVE / 2, Values::kLanes> Lanes;
#pragma unroll
  for (int h = 0; h < kHeadsAtOnce; h++) {
    const int first = Lanes::sum(sums[h]);
    const int piece = first / kPieceColumns * Values::kLanes + thread_index() % Values::kLanes;
    static_assert(Lanes::kLeft <= kPieceColumns || Values::kLanes == WAVE, "what a lane is left with lies in one piece");
#pragma unroll
    for (int index = 0; index < Lanes::kLeft; index++) {
      const int at = piece + index / kPieceColumns * Values::kLanes;
      if ((lane_index() & Lanes::kSpare) == 0 && at < ValueRow::kPieces) {
        part[h * ValueRow::kColumns + at * kPieceColumns + (first + index) % kPieceColumns] = sums[h][index];
      }
    }
  }
}
