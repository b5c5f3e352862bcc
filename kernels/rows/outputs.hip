// What a step returns of its logits: bias and mask, the log-sum's parts, the first column that is not finite, the most
// likely tokens, and the token that sampling chooses. Two launches: score_chunks looks at every logit once, changes the
// penalised ones and leaves one ScoreChunk for each 128 columns; choose_outputs, one block a row, finds what the request
// asks for with the help of the chunks. Sums run in an order that depends on the vocabulary alone, or are whole numbers.
// v1 chunks of 128, ranked by a sort in shared memory; greedy rows need no sort.
// v2 chooses tokens: whole distributions by the chunks' sums, the best few by their sorted keys, others by bins.
#include "rows/choose-all.h"
#include "rows/choose-by-value.h"
#include "rows/choose-ranked.h"
#include "rows/rank-candidates.h"

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

/** Keeps each penalised logit behind its penalty before it changes it. */
DEVICE void penalise(float* logits, u32* ids, int count, int first, int end) {
  for (int entry = thread_index(); entry < count; entry += kScoreThreads) {
    const int id = int(ids[entry]);
    if (id < first || id >= end) continue;
    const float logit = logits[id];
    const double factor = float_of(ids[count + entry]);
    const double repeated = logit > 0 ? double(logit) / factor : double(logit) * factor;
    ids[3 * count + entry] = bits_of(logit);
    logits[id] = float(repeated - double(float_of(ids[2 * count + entry])));
  }
}

struct ChunkScore {
  u32 order;
  int column;
  float sum;
};

/** Of the 128 columns that a team of lanes holds. */
DEVICE ChunkScore score_chunk(const Quad& logits, int column, int vocabulary, const Scale& scale) {
  u32 orders[4];
  u32 order = 0;
#pragma unroll
  for (int i = 0; i < 4; i++) {
    orders[i] = column + i < vocabulary ? order_of(logits.at[i]) : 0;
    order = max(order, orders[i]);
  }
  order = wave_max<kChunkLanes>(order);
  const float largest = float_of_order(order);
  int best_column = kNoColumn;
  float sum = 0;
#pragma unroll
  for (int i = 3; i >= 0; i--) {
    if (orders[i] == order) best_column = column + i;
    if (orders[i] != 0 && largest > negative_infinity()) sum += scaled_exponential(logits.at[i] - largest, scale);
  }
  best_column = wave_min<kChunkLanes>(best_column);
  sum = wave_sum<kChunkLanes>(sum);
  return {order, order == 0 ? -1 : best_column, sum};
}

/** Grid: ⌈vocabulary ÷ 1024⌉ × one for each scored row there may be. `chunks` has 8 for each block, row after row. */
struct ScoreChunksArguments {
  float* logits;
  u32* requests;
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
    memory_barrier();
    add_biases(const_cast<float*>(row.floats), ids, ids + request.bias_count, request.bias_count, first,
               first + kScoreColumns);
    memory_barrier();
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

  const ChunkScore score = score_chunk(logits, column, a.vocabulary, plain_scale());
  not_finite = wave_min<kChunkLanes>(not_finite);
  ChunkScore choice = score;
  const Scale scale = {request.scale_high, request.scale_low};
  const bool penalised = request.choice != kNoToken && request.penalty_count > 0;
  if (penalised) {
    memory_barrier();
    penalise(const_cast<float*>(row.floats), a.requests + request.penalty_start, request.penalty_count, first,
             first + kScoreColumns);
    memory_barrier();
    logits = read_quad(row, quad);
  }
  // Other choices look for the largest alone.
  if (penalised || (request.choice == kDrawFromAll && !is_plain(scale)))
    choice = score_chunk(logits, column, a.vocabulary, request.choice == kDrawFromAll ? scale : plain_scale());
  if (thread_index() % kChunkLanes == 0) {
    const int blocks = (a.vocabulary + kScoreColumns - 1) / kScoreColumns;
    ScoreChunk* const chunks =
        reinterpret_cast<ScoreChunk*>(a.chunks) + u64(index) * u64(blocks * (kScoreThreads / kChunkLanes));
    chunks[column / kChunkColumns] = {score.order,  score.column,  score.sum,  not_finite,
                                      choice.order, choice.column, choice.sum, 0};
  }
}

/** Chunks that a thread keeps in registers: enough for 128k columns. */
constexpr int kHeldChunks = 2;

/** Grid: one for each scored row there may be. `results` may be memory of the host that the device writes to. */
struct ChooseOutputsArguments {
  const float* logits;
  const u32* requests;
  const int* row_count;
  const u8* chunks;
  u32* results;
  int vocabulary;
  int stride;
};

DEVICE void write_pair(u32* pair, int column, float logit) {
  pair[0] = u32(column);
  pair[1] = bits_of(logit);
}

KERNEL(choose_outputs, ChooseOutputsArguments, kChooseThreads) {
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
  u64 best_choice = 0;
  int not_finite = kNoColumn;
#pragma unroll
  for (int i = 0; i < kHeldChunks; i++) {
    const int chunk = i * kChooseThreads + thread_index();
    held[i] = {0, -1, 0, kNoColumn, 0, -1, 0, 0};
    if (chunk < chunks) held[i] = own[chunk];
  }
  const auto consider = [&](const ScoreChunk& chunk) {
    best = max(best, key_of(chunk.order, chunk.column));
    best_choice = max(best_choice, key_of(chunk.choice_order, chunk.choice_column));
    not_finite = min(not_finite, chunk.not_finite);
  };
#pragma unroll
  for (int i = 0; i < kHeldChunks; i++) consider(held[i]);
  for (int chunk = kHeldChunks * kChooseThreads + thread_index(); chunk < chunks; chunk += kChooseThreads)
    consider(own[chunk]);
  best = wave_max_key(best);
  best_choice = wave_max_key(best_choice);
  not_finite = wave_min(not_finite);
  if (lane_index() == 0) {
    shared.keys[wave_index()] = best;
    shared.scratch[wave_index()] = best_choice;
    shared.not_finite[wave_index()] = not_finite;
  }
  barrier();
  const int other = lane_index() % kChooseWaves;
  best = wave_max_key<kChooseWaves>(shared.keys[other]);
  best_choice = wave_max_key<kChooseWaves>(shared.scratch[other]);
  not_finite = wave_min<kChooseWaves>(shared.not_finite[other]);

  const float maximum = logit_of_key(best);
  const bool possible = maximum > negative_infinity();
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kHeldChunks; i++) {
    if (possible && held[i].order != 0)
      sum += held[i].sum * scaled_exponential(float_of_order(held[i].order) - maximum, plain_scale());
  }
  for (int chunk = kHeldChunks * kChooseThreads + thread_index(); chunk < chunks; chunk += kChooseThreads) {
    if (possible) sum += own[chunk].sum * scaled_exponential(float_of_order(own[chunk].order) - maximum, plain_scale());
  }
  sum = wave_sum(sum);
  if (lane_index() == 0) shared.sums[wave_index()] = sum;
  barrier();
  sum = wave_sum<kChooseWaves>(shared.sums[other]);

  u32* const result = a.results + request.result_start;
  const bool chooses = request.choice != kNoToken;
  u32* const pairs = result + (chooses ? 6 : 4);
  if (thread_index() == 0) {
    result[0] = bits_of(maximum);
    result[1] = bits_of(sum);
    result[2] = u32(not_finite == kNoColumn ? -1 : not_finite);
    result[3] = 0;
    if (request.candidates == 1) write_pair(pairs, column_of_key(best), maximum);
  }
  if (not_finite != kNoColumn) return;

  const ChoiceRow choice = {row_of(a.logits, index, a.stride, a.vocabulary), own, chunks};
  const bool greedy = request.scale_high == 0;
  const int most = min(kMaxCandidates, a.vocabulary);
  int token = -1;
  // Candidates before penalties, then those that a token is chosen from: one copy of the code for both.
#pragma unroll 1
  for (int round = 0; round < 2; round++) {
    const bool choosing = round == 1;
    const int count = choosing ? (request.choice == kChooseRanked && possible && !greedy ? request.top_k : 0)
                               : (request.candidates > 1 ? request.candidates : 0);
    if (count == 0) continue;
    barrier();
    const int ranked = rank_candidates(
        shared, choice, min(count, most),
        [&](int chunk) {
          return choosing ? key_of(own[chunk].choice_order, own[chunk].choice_column)
                          : key_of(own[chunk].order, own[chunk].column);
        },
        [&](int column, float logit) {
          return choosing || !chooses ? logit : unpenalised(a.requests, request, column, logit);
        });
    if (choosing) {
      token = choose_ranked(shared, request, choice.row, ranked);
    } else {
      for (int rank = thread_index(); rank < ranked; rank += kChooseThreads)
        write_pair(pairs + 2 * rank, column_of_key(shared.keys[rank]), logit_of_key(shared.keys[rank]));
      barrier();
    }
  }
  if (!chooses) return;
  if (possible) {
    const float highest = logit_of_key(best_choice);
    if (request.choice == kDrawFromAll)
      token = draw_from_all(shared, choice, highest, {request.scale_high, request.scale_low}, request.draw);
    else if (request.choice == kChooseByValue)
      token = choose_by_value(shared, request, choice, highest);
    else if (greedy)
      token = column_of_key(best_choice);
  }
  if (thread_index() == 0) {
    // Penalties that overflow leave nothing to choose from.
    if (token >= a.vocabulary) token = -1;
    const float logit = token < 0 ? negative_infinity() : choice.row.floats[token];
    write_pair(result + 4, token, token < 0 ? logit : unpenalised(a.requests, request, token, logit));
  }
}
