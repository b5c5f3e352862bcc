// The arithmetic of split attention, from staged queries and fetched rows to results: scores as powers of two, weights,
// weighted values. The order of every sum is fixed by the split alone; how many heads a block takes, and how many rounds
// of rows it can leave out because they are past the end, does not show in the bits.
#pragma once
#include "attention/rows.h"
#include "attention/output.h"
#include "device/fold.h"
#include "device/quad.h"

constexpr int kPieceQuads = kPieceColumns / 4;
/** Whether rounds past the end are left out one by one; where heads come in several turns, there are no registers for it. */
constexpr bool kSkipsRounds = kChunks == 1;
constexpr int kQueryQuads = kPaddedHeads * KeyRow::kColumns / 4;
constexpr int kPartQuads = (kWaves * kHeadsAtOnce * ValueRow::kColumns + 3) / 4;
constexpr int kScoreQuads = kSplitPositions * kPaddedHeads / 4;

/** Shared memory of a block, aligned to 16 bytes. */
struct Board {
  /** Queries, then each wave's share of the values' sums. */
  Quad pool[kQueryQuads > kPartQuads ? kQueryQuads : kPartQuads];
  /** [position][head] */
  Quad scores[kScoreQuads];
  /** Each wave's highest score of each head. */
  float highest[kWaves][kPaddedHeads];
  /** Highest score and sum of weights of each head. */
  float bounds[kPaddedHeads][2];
};

DEVICE float lowest() { return float_of(0xff800000u); }

/** Where a column of a staged query lies: lanes with neighbouring pieces read neighbouring quads. */
DEVICE int query_place(int head, int column) {
  const int piece = column / kPieceColumns, quad = column % kPieceColumns / 4;
  return ((head * kPieceQuads + quad) * KeyRow::kPieces + piece) * 4 + column % 4;
}

/** By the whole block, before a barrier: positions that no row is scored for weigh nothing. */
DEVICE void clear_scores(Board& board) {
  for (int index = thread_index(); index < kScoreQuads; index += kThreads)
    board.scores[index] = {{lowest(), lowest(), lowest(), lowest()}};
}

#if !ATTENTION_MATRIX
/** Adds up the lanes' sums of the first Rounds rounds; scores to the board, and the highest of them all. */
template <int Rounds>
DEVICE void give_scores(const Source& source, int batch, int head, float (*sums)[Keys::kBatch], Board& board) {
  typedef Fold<Rounds, Keys::kLanes / 2, 1> Lanes;
  float own[kHeadsAtOnce];
  int position = 0;
#pragma unroll
  for (int h = 0; h < kHeadsAtOnce; h++) {
    position = Keys::place(batch, Lanes::sum(sums[h]));
    own[h] = is_visible(source, source.first + position) ? capped_score(sums[h][0]) : lowest();
  }
  if ((lane_index() & Lanes::kSpare) == 0) {
    float* const scores = reinterpret_cast<float*>(board.scores) + position * kPaddedHeads + head;
    if (kHeadsAtOnce == 4) {
      *reinterpret_cast<Quad*>(scores) = {
          {own[0], own[1 % kHeadsAtOnce], own[2 % kHeadsAtOnce], own[3 % kHeadsAtOnce]}};
    } else {
#pragma unroll
      for (int h = 0; h < kHeadsAtOnce; h++) scores[h] = own[h];
    }
  }
#pragma unroll
  for (int mask = WAVE / 2; mask > 0; mask /= 2) {
    if ((mask & Lanes::kSpare) != 0) continue;
#pragma unroll
    for (int h = 0; h < kHeadsAtOnce; h++) own[h] = larger(own[h], wave_xor(own[h], mask));
  }
  if (lane_index() == 0) {
#pragma unroll
    for (int h = 0; h < kHeadsAtOnce; h++) {
      float& highest = board.highest[wave_index()][head + h];
      highest = batch == 0 ? own[h] : larger(highest, own[h]);
    }
  }
}

/** Scores of one batch of keys and the heads from `head` on; `rounds` of it have rows. */
DEVICE void score_keys(const Source& source, int batch, int head, int rounds, const CachePiece* keys, Board& board) {
  float sums[kHeadsAtOnce][Keys::kBatch];
#pragma unroll
  for (int index = 0; index < Keys::kLanePieces; index++) {
    const int piece = index * Keys::kLanes + thread_index() % Keys::kLanes;
    Quad query[kHeadsAtOnce][kPieceQuads];
#pragma unroll
    for (int h = 0; h < kHeadsAtOnce; h++) {
#pragma unroll
      for (int quad = 0; quad < kPieceQuads; quad++) {
        // A lane past the row's end has an empty piece; any query does.
        const int at = piece < KeyRow::kPieces ? piece : 0;
        query[h][quad] = board.pool[((head + h) * kPieceQuads + quad) * KeyRow::kPieces + at];
      }
    }
#pragma unroll
    for (int round = 0; round < Keys::kBatch; round++) {
      if (!kSkipsRounds || round < rounds) {
        const CachePiece& piece_of_key = keys[round * Keys::kLanePieces + index];
        float columns[kPieceColumns];
        widen(piece_of_key.words, columns);
        const float scale = KV_TYPE == 2 ? half_to_float(piece_of_key.scale) : 1.0f;
#pragma unroll
        for (int h = 0; h < kHeadsAtOnce; h++) {
          const float before = index == 0 ? 0.0f : sums[h][round];
          float sum = KV_TYPE == 2 ? 0.0f : before;
#pragma unroll
          for (int column = 0; column < kPieceColumns; column++)
            sum = fused(query[h][column / 4].at[column % 4], columns[column], sum);
          sums[h][round] = KV_TYPE == 2 ? fused(sum, scale, before) : sum;
        }
      } else {
#pragma unroll
        for (int h = 0; h < kHeadsAtOnce; h++) sums[h][round] = 0.0f;
      }
    }
  }
  if (kSkipsRounds && Keys::kBatch > 1 && rounds <= 1) {
    give_scores<1>(source, batch, head, sums, board);
  } else {
    give_scores<Keys::kBatch>(source, batch, head, sums, board);
  }
}

#endif

/** The highest score of a head over the whole split. */
DEVICE float highest_of(const Board& board, int head) {
  float highest = board.highest[0][head];
#pragma unroll
  for (int wave = 1; wave < kWaves; wave++) highest = larger(highest, board.highest[wave][head]);
  return highest;
}

/** Where every score is −∞ every weight is 0, not NaN: other splits may know better. */
DEVICE float base_of_weights(float highest) { return highest == lowest() ? 0.0f : highest; }

/** Each head's sum of weights by one wave (by several where there are fewer heads: nobody waits for a branch). */
DEVICE void sum_weights(Board& board) {
  constexpr int Each = kSplitPositions / WAVE;
  const float* const scores = reinterpret_cast<const float*>(board.scores);
#pragma unroll 1
  for (int first = 0; first < kPaddedHeads; first += kWaves) {
    const int head = (first + wave_index()) % kPaddedHeads;
    const float highest = highest_of(board, head);
    const float base = base_of_weights(highest);
    float sum = 0.0f;
#pragma unroll
    for (int index = 0; index < Each; index++)
      sum += exponential2(scores[(index * WAVE + lane_index()) * kPaddedHeads + head] - base);
    sum = wave_sum(sum);
    if (lane_index() == 0) {
      board.bounds[head][0] = highest;
      board.bounds[head][1] = sum;
    }
  }
}

#if ATTENTION_MATRIX
#include "attention/matrix.h"
#else
/** Adds one batch of values, each times its weight for the heads from `head` on. */
DEVICE void add_values(const Board& board, int batch, int head, int rounds, const float* bases,
                       const CachePiece* values, float (*sums)[Values::kLanePieces * kPieceColumns]) {
#pragma unroll
  for (int round = 0; round < Values::kBatch; round++) {
    if (kSkipsRounds && round >= rounds) continue;
    const float* const scores =
        reinterpret_cast<const float*>(board.scores) + Values::place(batch, round) * kPaddedHeads + head;
    float weight[kHeadsAtOnce];
    if (kHeadsAtOnce == 4) {
      const Quad together = *reinterpret_cast<const Quad*>(scores);
#pragma unroll
      for (int h = 0; h < kHeadsAtOnce; h++) weight[h] = exponential2(together.at[h] - bases[h]);
    } else {
#pragma unroll
      for (int h = 0; h < kHeadsAtOnce; h++) weight[h] = exponential2(scores[h] - bases[h]);
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
    static_assert(Lanes::kLeft <= kPieceColumns || Values::kLanes == WAVE,
                  "what a lane is left with lies in one piece");
#pragma unroll
    for (int index = 0; index < Lanes::kLeft; index++) {
      const int at = piece + index / kPieceColumns * Values::kLanes;
      if ((lane_index() & Lanes::kSpare) == 0 && at < ValueRow::kPieces) {
        part[h * ValueRow::kColumns + at * kPieceColumns + (first + index) % kPieceColumns] = sums[h][index];
      }
    }
  }
}

#endif

/** The sum of weights that the results of a head are divided by. */
template <typename Arguments>
DEVICE float weights_of_head(const Arguments& a, const Share& share, int head, const Board& board) {
  return with_sink(a, share.first_head + head, base_of_weights(board.bounds[head][0]), board.bounds[head][1]);
}

/**
 * What the heads from chunk × kHeadsAtOnce on have come to, from the waves' shares: the result, or what attention/combine.hip
 * takes. `a` has partial_values, partial_weights, splits, and what write_column wants.
 */
template <bool Whole, typename Arguments>
DEVICE void give_values(const Arguments& a, const Share& share, int chunk, const Board& board) {
  const float* const parts = reinterpret_cast<const float*>(board.pool);
  constexpr int Columns = kHeadsAtOnce * VALUE_WIDTH;
#pragma unroll
  for (int start = 0; start < Columns; start += kThreads) {
    const int index = start + thread_index();
    if (Columns % kThreads != 0 && start + wave_index() * WAVE >= Columns) continue;
    const int h = index / VALUE_WIDTH, column = index % VALUE_WIDTH;
    const int head = chunk * kHeadsAtOnce + h;
    const bool present = index < Columns && head < share.heads;
    float sum = 0.0f;
    if (present) {
#pragma unroll
      for (int wave = 0; wave < kWaves; wave++) sum += parts[(wave * kHeadsAtOnce + h) * ValueRow::kColumns + column];
    }
    if (Whole) {
      write_column(a, share.token, (share.first_head + head) * VALUE_WIDTH + column, present,
                   present ? sum / weights_of_head(a, share, head, board) : 0.0f);
    } else if (present) {
      const u64 place =
          (u64(share.token) * u64(a.heads) + u64(share.first_head + head)) * u64(a.splits) + u64(share.split);
      a.partial_values[place * VALUE_WIDTH + u64(column)] = sum;
      if (column == 0) {
        a.partial_weights[place * 2] = board.bounds[head][0];
        a.partial_weights[place * 2 + 1] = board.bounds[head][1];
      }
    }
  }
}

/**
 * The whole of it, after the barrier that follows the staging of queries. Both hold the first batch; `refill_keys(batch)`
 * and `refill_values(batch)` bring another one, where a split has more than one.
 */
template <bool Whole, typename Arguments, typename RefillKeys, typename RefillValues>
DEVICE void attend_rows(const Arguments& a, const Source& source, const Share& share, CachePiece* keys,
                        CachePiece* values, Board& board, RefillKeys refill_keys, RefillValues refill_values) {
#if ATTENTION_MATRIX
#pragma unroll 1
  for (int chunk = 0; chunk < kChunks; chunk++) score_by_matrix(source, chunk * kHeadsAtOnce, keys, board);
#else
#pragma unroll 1
  for (int batch = 0; batch < Keys::kBatches; batch++) {
    const int rounds = rounds_of_batch<Keys>(source, batch);
    if (batch > 0 && rounds <= 0) break;
    if (batch > 0) refill_keys(batch);
#pragma unroll 1
    for (int chunk = 0; chunk < kChunks; chunk++) score_keys(source, batch, chunk * kHeadsAtOnce, rounds, keys, board);
  }
#endif
  barrier();
#pragma unroll 1
  for (int chunk = 0; chunk < kChunks; chunk++) {
    float* const part = reinterpret_cast<float*>(board.pool) + wave_index() * kHeadsAtOnce * ValueRow::kColumns;
#if ATTENTION_MATRIX
    if (chunk > 0) barrier();
    add_by_matrix(board, chunk * kHeadsAtOnce, values, part);
    if (chunk == 0) sum_weights(board);
#else
    float bases[kHeadsAtOnce];
#pragma unroll
    for (int h = 0; h < kHeadsAtOnce; h++) bases[h] = base_of_weights(highest_of(board, chunk * kHeadsAtOnce + h));
    float sums[kHeadsAtOnce][Values::kLanePieces * kPieceColumns] = {};
#pragma unroll 1
    for (int batch = 0; batch < Values::kBatches; batch++) {
      const int rounds = rounds_of_batch<Values>(source, batch);
      if (batch > 0 && rounds <= 0) break;
      if (Values::kBatches > 1 && (chunk > 0 || batch > 0)) refill_values(batch);
      add_values(board, batch, chunk * kHeadsAtOnce, rounds, bases, values, sums);
    }
    if (chunk == 0) sum_weights(board);
    if (chunk > 0) barrier();
    fold_values(sums, part);
#endif
    barrier();
    give_values<Whole>(a, share, chunk, board);
  }
}
