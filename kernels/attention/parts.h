// The arithmetic of split attention, from staged queries and fetched rows to results: scores as powers of two, weights,
// weighted values. The order of every sum is fixed by the split alone; how many heads a block takes, and how many
// rounds of rows it can leave out because they are past the end, does not show in the bits.
#pragma once
#include "attention/rows.h"
#include "attention/output.h"
#include "device/fold.h"
#include "device/quad.h"

constexpr int kChunkQuads = kChunkColumns / 4;
/**
 * Whether rounds past the end are left out one by one; if heads come in several chunks, there are no registers for it.
 */
constexpr bool kSkipsRounds = kHeadChunks == 1;
constexpr int kQueryQuads = kPaddedHeads * KeyRow::kColumns / 4;
constexpr int kPartQuads = (kWaves * kHeadsAtOnce * ValueRow::kColumns + 3) / 4;
constexpr int kScoreQuads = kSplitPositions * kPaddedHeads / 4;

/** Shared memory of a block, aligned to 16 bytes. */
struct SplitMemory {
  /** Queries, then each wave's share of the values' sums. */
  Quad pool[kQueryQuads > kPartQuads ? kQueryQuads : kPartQuads];
  /** [position][head] */
  Quad scores[kScoreQuads];
  /** Each wave's highest score of each head. */
  float highest[kWaves][kPaddedHeads];
  /** Highest score and sum of weights of each head. */
  float bounds[kPaddedHeads][2];
};

/** Where a column of a staged query lies: lanes with neighbouring chunks read neighbouring quads. */
DEVICE int query_place(int head, int column) {
  const int chunk = column / kChunkColumns, quad = column % kChunkColumns / 4;
  return ((head * kChunkQuads + quad) * KeyRow::kChunks + chunk) * 4 + column % 4;
}

/** By the whole block, before a barrier: positions that no row is scored for weigh nothing. */
DEVICE void clear_scores(SplitMemory& memory) {
  for (int index = thread_index(); index < kScoreQuads; index += kThreads)
    memory.scores[index] = {{negative_infinity(), negative_infinity(), negative_infinity(), negative_infinity()}};
}

#if !ATTENTION_MATRIX
/** Adds up the lanes' sums of the first Rounds rounds; scores to the board, and the highest of them all. */
template <int Rounds>
DEVICE void give_scores(const Source& source, int batch, int head, float (*sums)[Keys::kBatch], SplitMemory& memory) {
  typedef Fold<Rounds, Keys::kLanes / 2, 1> Lanes;
  float own[kHeadsAtOnce];
  int position = 0;
#pragma unroll
  for (int h = 0; h < kHeadsAtOnce; h++) {
    position = Keys::place(batch, Lanes::sum(sums[h]));
    own[h] = is_visible(source, source.first + position) ? capped_score(sums[h][0]) : negative_infinity();
  }
  if ((lane_index() & Lanes::kSpare) == 0) {
    float* const scores = reinterpret_cast<float*>(memory.scores) + position * kPaddedHeads + head;
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
    for (int h = 0; h < kHeadsAtOnce; h++) own[h] = max(own[h], wave_xor(own[h], mask));
  }
  if (lane_index() == 0) {
#pragma unroll
    for (int h = 0; h < kHeadsAtOnce; h++) {
      float& highest = memory.highest[wave_index()][head + h];
      highest = batch == 0 ? own[h] : max(highest, own[h]);
    }
  }
}

/** Scores of one batch of keys and the heads from `head` on; `rounds` of it have rows. */
DEVICE void score_keys(const Source& source, int batch, int head, int rounds, const CacheChunk* keys,
                       SplitMemory& memory) {
  float sums[kHeadsAtOnce][Keys::kBatch];
#pragma unroll
  for (int index = 0; index < Keys::kLaneChunks; index++) {
    const int chunk = index * Keys::kLanes + thread_index() % Keys::kLanes;
    Quad query[kHeadsAtOnce][kChunkQuads];
#pragma unroll
    for (int h = 0; h < kHeadsAtOnce; h++) {
#pragma unroll
      for (int quad = 0; quad < kChunkQuads; quad++) {
        // A lane past the row's end has an empty chunk; any query does.
        const int at = chunk < KeyRow::kChunks ? chunk : 0;
        query[h][quad] = memory.pool[((head + h) * kChunkQuads + quad) * KeyRow::kChunks + at];
      }
    }
#pragma unroll
    for (int round = 0; round < Keys::kBatch; round++) {
      if (!kSkipsRounds || round < rounds) {
        const CacheChunk& chunk_of_key = keys[round * Keys::kLaneChunks + index];
        float columns[kChunkColumns];
        widen(chunk_of_key.words, columns);
        const float scale = KV_TYPE == 2 ? half_to_float(chunk_of_key.scale) : 1.0f;
#pragma unroll
        for (int h = 0; h < kHeadsAtOnce; h++) {
          const float before = index == 0 ? 0.0f : sums[h][round];
          float sum = KV_TYPE == 2 ? 0.0f : before;
#pragma unroll
          for (int column = 0; column < kChunkColumns; column++)
            sum = fma(query[h][column / 4].at[column % 4], columns[column], sum);
          sums[h][round] = KV_TYPE == 2 ? fma(sum, scale, before) : sum;
        }
      } else {
#pragma unroll
        for (int h = 0; h < kHeadsAtOnce; h++) sums[h][round] = 0.0f;
      }
    }
  }
  if (kSkipsRounds && Keys::kBatch > 1 && rounds <= 1) {
    give_scores<1>(source, batch, head, sums, memory);
  } else {
    give_scores<Keys::kBatch>(source, batch, head, sums, memory);
  }
}

#endif

/** The highest score of a head over the whole split. */
DEVICE float highest_of(const SplitMemory& memory, int head) {
  float highest = memory.highest[0][head];
#pragma unroll
  for (int wave = 1; wave < kWaves; wave++) highest = max(highest, memory.highest[wave][head]);
  return highest;
}

/** Where every score is −∞ every weight is 0, not NaN: other splits may know better. */
DEVICE float base_of_weights(float highest) { return highest == negative_infinity() ? 0.0f : highest; }

/** Each head's sum of weights by one wave (by several waves if there are fewer heads, which saves a branch). */
DEVICE void sum_weights(SplitMemory& memory) {
  constexpr int Each = kSplitPositions / WAVE;
  const float* const scores = reinterpret_cast<const float*>(memory.scores);
#pragma unroll 1
  for (int first = 0; first < kPaddedHeads; first += kWaves) {
    const int head = (first + wave_index()) % kPaddedHeads;
    const float highest = highest_of(memory, head);
    const float base = base_of_weights(highest);
    float sum = 0.0f;
#pragma unroll
    for (int index = 0; index < Each; index++)
      sum += exponential2(scores[(index * WAVE + lane_index()) * kPaddedHeads + head] - base);
    sum = wave_sum(sum);
    if (lane_index() == 0) {
      memory.bounds[head][0] = highest;
      memory.bounds[head][1] = sum;
    }
  }
}

#if ATTENTION_MATRIX
#include "attention/matrix.h"
#else
/** Adds one batch of values, each times its weight for the heads from `head` on. */
DEVICE void add_values(const SplitMemory& memory, int batch, int head, int rounds, const float* bases,
                       const CacheChunk* values, float (*sums)[Values::kLaneChunks * kChunkColumns]) {
#pragma unroll
  for (int round = 0; round < Values::kBatch; round++) {
    if (kSkipsRounds && round >= rounds) continue;
    const float* const scores =
        reinterpret_cast<const float*>(memory.scores) + Values::place(batch, round) * kPaddedHeads + head;
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
    for (int index = 0; index < Values::kLaneChunks; index++) {
      const CacheChunk& chunk = values[round * Values::kLaneChunks + index];
      float columns[kChunkColumns];
      widen(chunk.words, columns);
      const float scale = KV_TYPE == 2 ? half_to_float(chunk.scale) : 1.0f;
#pragma unroll
      for (int h = 0; h < kHeadsAtOnce; h++) {
        const float factor = KV_TYPE == 2 ? weight[h] * scale : weight[h];
#pragma unroll
        for (int column = 0; column < kChunkColumns; column++) {
          float& sum = sums[h][index * kChunkColumns + column];
          sum = fma(factor, columns[column], sum);
        }
      }
    }
  }
}

/** This wave's share of the sums to part[head][column]. */
DEVICE void fold_values(float (*sums)[Values::kLaneChunks * kChunkColumns], float* part) {
  typedef Fold<Values::kLaneChunks * kChunkColumns, WAVE / 2, Values::kLanes> Lanes;
#pragma unroll
  for (int h = 0; h < kHeadsAtOnce; h++) {
    const int first = Lanes::sum(sums[h]);
#pragma unroll
    for (int index = 0; index < Lanes::kLeft; index++) {
      const int at = (first + index) / kChunkColumns * Values::kLanes + thread_index() % Values::kLanes;
      if ((lane_index() & Lanes::kSpare) == 0 && at < ValueRow::kChunks) {
        part[h * ValueRow::kColumns + at * kChunkColumns + (first + index) % kChunkColumns] = sums[h][index];
      }
    }
  }
}

#endif

/** The sum of weights that the results of a head are divided by. */
template <typename Arguments>
DEVICE float weights_of_head(const Arguments& a, const Share& share, int head, const SplitMemory& memory) {
  return with_sink(a, share.first_head + head, base_of_weights(memory.bounds[head][0]), memory.bounds[head][1]);
}

/**
 * What the heads from chunk × kHeadsAtOnce on have come to, from the waves' shares: the result, or what
 * attention/combine.hip takes. `a` has partial_values, partial_weights, splits, and what write_column wants.
 */
template <bool Whole, typename Arguments>
DEVICE void give_values(const Arguments& a, const Share& share, int head_chunk, const SplitMemory& memory) {
  const float* const parts = reinterpret_cast<const float*>(memory.pool);
  constexpr int Columns = kHeadsAtOnce * VALUE_WIDTH;
#pragma unroll
  for (int start = 0; start < Columns; start += kThreads) {
    const int index = start + thread_index();
    if (Columns % kThreads != 0 && start + wave_index() * WAVE >= Columns) continue;
    const int h = index / VALUE_WIDTH, column = index % VALUE_WIDTH;
    const int head = head_chunk * kHeadsAtOnce + h;
    const bool present = index < Columns && head < share.heads;
    float sum = 0.0f;
    if (present) {
#pragma unroll
      for (int wave = 0; wave < kWaves; wave++) sum += parts[(wave * kHeadsAtOnce + h) * ValueRow::kColumns + column];
    }
    if (Whole) {
      write_column(a, share.token, (share.first_head + head) * VALUE_WIDTH + column, present,
                   present ? sum / weights_of_head(a, share, head, memory) : 0.0f);
    } else if (present) {
      const u64 place =
          (u64(share.token) * u64(a.heads) + u64(share.first_head + head)) * u64(a.splits) + u64(share.split);
      a.partial_values[place * VALUE_WIDTH + u64(column)] = sum;
      if (column == 0) {
        a.partial_weights[place * 2] = memory.bounds[head][0];
        a.partial_weights[place * 2 + 1] = memory.bounds[head][1];
      }
    }
  }
}

/**
 * The whole of it, after the barrier that follows the staging of queries. Both hold the first batch;
 * `refill_keys(batch)` and `refill_values(batch)` bring another one, where a split has more than one.
 */
template <bool Whole, typename Arguments, typename RefillKeys, typename RefillValues>
DEVICE void attend_rows(const Arguments& a, const Source& source, const Share& share, CacheChunk* keys,
                        CacheChunk* values, SplitMemory& memory, RefillKeys refill_keys, RefillValues refill_values) {
#if ATTENTION_MATRIX
#pragma unroll 1
  for (int head_chunk = 0; head_chunk < kHeadChunks; head_chunk++)
    score_by_matrix(source, head_chunk * kHeadsAtOnce, keys, memory);
#else
#pragma unroll 1
  for (int batch = 0; batch < Keys::kBatches; batch++) {
    const int rounds = rounds_of_batch<Keys>(source, batch);
    if (batch > 0 && rounds <= 0) break;
    if (batch > 0) refill_keys(batch);
#pragma unroll 1
    for (int head_chunk = 0; head_chunk < kHeadChunks; head_chunk++)
      score_keys(source, batch, head_chunk * kHeadsAtOnce, rounds, keys, memory);
  }
#endif
  barrier();
#pragma unroll 1
  for (int head_chunk = 0; head_chunk < kHeadChunks; head_chunk++) {
    float* const part = reinterpret_cast<float*>(memory.pool) + wave_index() * kHeadsAtOnce * ValueRow::kColumns;
#if ATTENTION_MATRIX
    if (head_chunk > 0) barrier();
    add_by_matrix(memory, head_chunk * kHeadsAtOnce, values, part);
    if (head_chunk == 0) sum_weights(memory);
#else
    float bases[kHeadsAtOnce];
#pragma unroll
    for (int h = 0; h < kHeadsAtOnce; h++)
      bases[h] = base_of_weights(highest_of(memory, head_chunk * kHeadsAtOnce + h));
    float sums[kHeadsAtOnce][Values::kLaneChunks * kChunkColumns] = {};
#pragma unroll 1
    for (int batch = 0; batch < Values::kBatches; batch++) {
      const int rounds = rounds_of_batch<Values>(source, batch);
      if (batch > 0 && rounds <= 0) break;
      if (Values::kBatches > 1 && (head_chunk > 0 || batch > 0)) refill_values(batch);
      add_values(memory, batch, head_chunk * kHeadsAtOnce, rounds, bases, values, sums);
    }
    if (head_chunk == 0) sum_weights(memory);
    if (head_chunk > 0) barrier();
    fold_values(sums, part);
#endif
    barrier();
    give_values<Whole>(a, share, head_chunk, memory);
  }
}
