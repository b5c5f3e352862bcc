// What a step returns of its logits: bias and mask, the log-sum's parts, the first column that is not finite, and the
// most likely tokens. Two launches: score_chunks looks at every logit once and leaves one ScoreChunk for each 128
// columns; choose_candidates, one block a row, finds the k best chunks: the k best logits are in them. Sums run in an
// order that depends on the vocabulary alone.
// v1 chunks of 128, ranked by a sort in shared memory; greedy rows need no sort. Not measured yet.
#include "device/quad.h"
#include "device/sort.h"
#include "device/order.h"

/** src/backends/gpu/lowering/output-rows.ts has the same numbers. */
constexpr int kChunkColumns = 128;
constexpr int kScoreThreads = 256;
constexpr int kScoreColumns = kScoreThreads * 4;
constexpr int kMaxCandidates = 1024;

/** One for each scored row. Places are words from the first request on. */
struct alignas(16) OutputRequest {
  /** At most kMaxCandidates; 0 where the host takes the whole row. */
  int candidates;
  /** Rising ids, then as many values; an id may come several times. */
  int bias_count;
  int bias_start;
  /** Bit i of word i / 32 allows column i; negative allows all. */
  int mask_start;
  /** In words of the results: { maximum, sum of exp(logit − maximum), first column not finite or −1, 0 }, then pairs of
   *  id and logit. */
  int result_start;
  int unused[3];
};

/** What is known of a stretch of columns after bias and mask; an empty one is the last of all. */
struct alignas(16) ScoreChunk {
  /** Of its largest logit, and the first column that has it. */
  u32 order;
  int column;
  /** Of exp(logit − largest). */
  float sum;
  /** First column that was not finite before bias and mask, or kNoColumn. */
  int not_finite;
};

constexpr int kChunkLanes = kChunkColumns / 4;

/** Entries of one id are added in their order by one thread. */
DEVICE void add_biases(float* logits, const u32* ids, const u32* values, int count, int first, int end) {
  for (int entry = thread_index(); entry < count; entry += kScoreThreads) {
    const int id = int(ids[entry]);
    if (id < first || id >= end || (entry > 0 && int(ids[entry - 1]) == id)) continue;
    float logit = logits[id];
    for (int next = entry; next < count && int(ids[next]) == id; next++) logit += float_of(values[next]);
    // Several huge ones can come to infinity minus infinity; a ban wins.
    logits[id] = logit == logit ? logit : negative_infinity();
  }
}

/** Grid: ⌈vocabulary ÷ 1024⌉ × one for each scored row there may be. `chunks` has 8 for each block, row after row. */
struct ScoreChunksArguments {
  float* logits;
  const u32* requests;
  const int* row_count;
  u8* chunks;
  int vocabulary;
  int stride;
};

KERNEL(score_chunks, ScoreChunksArguments, kScoreThreads) {
  dependency_release();
  // The host wrote these before any kernel of the step began.
  const int index = block_y();
  const int rows = *a.row_count;
  const OutputRequest request = reinterpret_cast<const OutputRequest*>(a.requests)[index];
  dependency_wait();
  if (index >= rows) return;
  const Row row = row_of(a.logits, index, a.stride, a.vocabulary);
  const int first = block_x() * kScoreColumns;
  const int quad = first / 4 + thread_index();
  const int column = quad * 4;
  Quad logits = read_quad(row, quad);

  int not_finite = kNoColumn;
#pragma unroll
  for (int i = 3; i >= 0; i--) {
    if (!is_finite(logits.at[i])) not_finite = column + i;
  }
  if (request.bias_count > 0) {
    const u32* const ids = a.requests + request.bias_start;
    barrier();
    add_biases(const_cast<float*>(row.floats), ids, ids + request.bias_count, request.bias_count, first,
               first + kScoreColumns);
    barrier();
    logits = read_quad(row, quad);
  }
  if (request.mask_start >= 0 && column < a.vocabulary) {
    const u32 allowed = a.requests[request.mask_start + column / 32] >> (column % 32);
#pragma unroll
    for (int i = 0; i < 4; i++) {
      if (((allowed >> i) & 1) == 0) logits.at[i] = negative_infinity();
    }
    write_quad(row, quad, logits);
  }

  u32 orders[4];
  u32 order = 0;
#pragma unroll
  for (int i = 0; i < 4; i++) {
    orders[i] = column + i < a.vocabulary ? order_of(logits.at[i]) : 0;
    order = max(order, orders[i]);
  }
  order = wave_max<kChunkLanes>(order);
  const float largest = float_of_order(order);
  int best_column = kNoColumn;
  float sum = 0;
#pragma unroll
  for (int i = 3; i >= 0; i--) {
    if (orders[i] == order) best_column = column + i;
    if (orders[i] != 0 && largest > negative_infinity()) sum += exponential(logits.at[i] - largest);
  }
  best_column = wave_min<kChunkLanes>(best_column);
  sum = wave_sum<kChunkLanes>(sum);
  not_finite = wave_min<kChunkLanes>(not_finite);
  if (thread_index() % kChunkLanes == 0) {
    const int blocks = (a.vocabulary + kScoreColumns - 1) / kScoreColumns;
    ScoreChunk* const chunks =
        reinterpret_cast<ScoreChunk*>(a.chunks) + u64(index) * u64(blocks * (kScoreThreads / kChunkLanes));
    chunks[column / kChunkColumns] = {order, order == 0 ? -1 : best_column, sum, not_finite};
  }
}

constexpr int kChooseThreads = 512;
constexpr int kChooseWaves = kChooseThreads / WAVE;
/** Chunks that a thread keeps in registers: enough for 128k columns. */
constexpr int kHeldChunks = 2;
constexpr int kKeys = 4096;
/** Chunks that the block looks through at a time, and the keys that they can add. */
constexpr int kTeams = kChooseThreads / kChunkLanes;
constexpr int kTeamKeys = kTeams * kChunkColumns;
/** Chunks of each team whose logits are on their way while it looks at one. */
constexpr int kPrefetched = 4;

static_assert(kKeys - kTeamKeys >= kMaxCandidates, "a full buffer sheds all but the candidates");

struct ChooseShared {
  u64 keys[kKeys];
  u64 best[kChooseWaves];
  int not_finite[kChooseWaves];
  float sums[kChooseWaves];
  int chunks[kMaxCandidates];
  u32 count;
};

/** Grid: one for each scored row there may be. `results` may be memory of the host that the device writes to. */
struct ChooseCandidatesArguments {
  const float* logits;
  const u32* requests;
  const int* row_count;
  const u8* chunks;
  u32* results;
  int vocabulary;
  int stride;
};

DEVICE u64 key_of_chunk(const ScoreChunk& chunk) { return key_of(chunk.order, chunk.column); }

DEVICE void write_candidate(u32* pairs, int rank, u64 key) {
  pairs[2 * rank] = u32(column_of_key(key));
  pairs[2 * rank + 1] = bits_of(float_of_order(order_of_key(key)));
}

/** The best `count` keys of those that `keys` holds, in order, and how many that leaves. */
DEVICE int keep_best(u64* keys, int filled, int count) {
  sort_falling<kChooseThreads>(keys, filled);
  return min(filled, count);
}

KERNEL(choose_candidates, ChooseCandidatesArguments, kChooseThreads) {
  SHARED ChooseShared shared;
  dependency_release();
  // The host wrote these before any kernel of the step began.
  const int index = block_x();
  const int rows = *a.row_count;
  const OutputRequest request = reinterpret_cast<const OutputRequest*>(a.requests)[index];
  dependency_wait();
  if (index >= rows) return;
  const int blocks = (a.vocabulary + kScoreColumns - 1) / kScoreColumns;
  const int chunks = (a.vocabulary + kChunkColumns - 1) / kChunkColumns;
  const ScoreChunk* const own =
      reinterpret_cast<const ScoreChunk*>(a.chunks) + u64(index) * u64(blocks * (kScoreThreads / kChunkLanes));

  ScoreChunk held[kHeldChunks];
  u64 best = 0;
  int not_finite = kNoColumn;
#pragma unroll
  for (int i = 0; i < kHeldChunks; i++) {
    const int chunk = i * kChooseThreads + thread_index();
    held[i] = {0, -1, 0, kNoColumn};
    if (chunk < chunks) held[i] = own[chunk];
  }
#pragma unroll
  for (int i = 0; i < kHeldChunks; i++) {
    const int chunk = i * kChooseThreads + thread_index();
    best = max(best, key_of_chunk(held[i]));
    not_finite = min(not_finite, held[i].not_finite);
    if (chunk < kKeys) shared.keys[chunk] = key_of_chunk(held[i]);
  }
  for (int chunk = kHeldChunks * kChooseThreads + thread_index(); chunk < chunks; chunk += kChooseThreads) {
    best = max(best, key_of_chunk(own[chunk]));
    not_finite = min(not_finite, own[chunk].not_finite);
    if (chunk < kKeys) shared.keys[chunk] = key_of_chunk(own[chunk]);
  }
  best = wave_max_key(best);
  not_finite = wave_min(not_finite);
  if (lane_index() == 0) {
    shared.best[wave_index()] = best;
    shared.not_finite[wave_index()] = not_finite;
  }
  barrier();
  const int other = lane_index() % kChooseWaves;
  best = wave_max_key<kChooseWaves>(shared.best[other]);
  not_finite = wave_min<kChooseWaves>(shared.not_finite[other]);

  const float maximum = float_of_order(order_of_key(best));
  const bool possible = maximum > negative_infinity();
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kHeldChunks; i++) {
    if (possible && held[i].order != 0) sum += held[i].sum * exponential(float_of_order(held[i].order) - maximum);
  }
  for (int chunk = kHeldChunks * kChooseThreads + thread_index(); chunk < chunks; chunk += kChooseThreads) {
    if (possible) sum += own[chunk].sum * exponential(float_of_order(own[chunk].order) - maximum);
  }
  sum = wave_sum(sum);
  if (lane_index() == 0) shared.sums[wave_index()] = sum;
  barrier();
  sum = wave_sum<kChooseWaves>(shared.sums[other]);

  u32* const result = a.results + request.result_start;
  if (thread_index() == 0) {
    result[0] = bits_of(maximum);
    result[1] = bits_of(sum);
    result[2] = u32(not_finite == kNoColumn ? -1 : not_finite);
    result[3] = 0;
    if (request.candidates == 1) write_candidate(result + 4, 0, best);
  }
  const int wanted = min(request.candidates, min(kMaxCandidates, a.vocabulary));
  if (wanted <= 1 || not_finite != kNoColumn) return;

  // More chunks than there are keys (half a million columns) are looked through one and all.
  const bool ranked = chunks <= kKeys;
  const int looked = ranked ? min(wanted, chunks) : chunks;
  u64 least = 0;
  if (ranked) {
    sort_falling<kChooseThreads>(shared.keys, chunks);
    if (chunks >= wanted) least = shared.keys[wanted - 1];
    for (int rank = thread_index(); rank < looked; rank += kChooseThreads) {
      shared.chunks[rank] = column_of_key(shared.keys[rank]) / kChunkColumns;
    }
  }
  if (thread_index() == 0) shared.count = 0;
  barrier();

  const Row row = row_of(a.logits, index, a.stride, a.vocabulary);
  const bool may_overflow = looked * kChunkColumns > kKeys;
  const int team = thread_index() / kChunkLanes;
  const int lane = thread_index() % kChunkLanes;
  const auto quad_of_rank = [&](int rank) {
    return rank < looked ? (ranked ? shared.chunks[rank] : rank) * kChunkLanes + lane : quads_of(a.vocabulary);
  };
  Quad prefetched[kPrefetched];
#pragma unroll
  for (int i = 0; i < kPrefetched; i++) prefetched[i] = read_quad(row, quad_of_rank(i * kTeams + team));
  for (int rank = team; rank < looked + team; rank += kTeams) {
    const Quad logits = prefetched[0];
#pragma unroll
    for (int i = 0; i + 1 < kPrefetched; i++) prefetched[i] = prefetched[i + 1];
    prefetched[kPrefetched - 1] = read_quad(row, quad_of_rank(rank + kPrefetched * kTeams));
    const int first = quad_of_rank(rank) * 4;
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const u64 key = key_of(order_of(logits.at[i]), first + i);
      if (first + i < a.vocabulary && key >= least) shared.keys[atomic_add(&shared.count, 1)] = key;
    }
    if (!may_overflow) continue;
    barrier();
    const int filled = int(shared.count);
    barrier();
    if (filled <= kKeys - kTeamKeys) continue;
    const int kept = keep_best(shared.keys, filled, wanted);
    if (kept == wanted) least = shared.keys[wanted - 1];
    if (thread_index() == 0) shared.count = u32(kept);
    barrier();
  }
  barrier();
  const int kept = keep_best(shared.keys, int(shared.count), wanted);
  for (int rank = thread_index(); rank < kept; rank += kChooseThreads)
    write_candidate(result + 4, rank, shared.keys[rank]);
}
