// What a step returns of its logits: bias and mask, the log-sum's parts, the first column that is not finite, and the
// most likely tokens. Two launches: score_pieces looks at every logit once and leaves one Piece for each 128 columns;
// choose_candidates, one block a row, finds the k best pieces: the k best logits are in them. Sums run in an order that
// depends on the vocabulary alone.
// v1 pieces of 128, ranked by a sort in shared memory; greedy rows need no sort. Not measured yet.
#include "device/quad.h"
#include "device/sort.h"
#include "device/order.h"

/** src/backends/gpu/lowering/output-rows.ts has the same numbers. */
constexpr int kPieceColumns = 128;
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
struct alignas(16) Piece {
  /** Of its largest logit, and the first column that has it. */
  u32 order;
  int column;
  /** Of exp(logit − largest). */
  float sum;
  /** First column that was not finite before bias and mask, or kNoColumn. */
  int stray;
};

constexpr int kPieceLanes = kPieceColumns / 4;

/** Entries of one id are added in their order by one thread. */
DEVICE void add_biases(float* logits, const u32* ids, const u32* values, int count, int first, int end) {
  for (int entry = thread_index(); entry < count; entry += kScoreThreads) {
    const int id = int(ids[entry]);
    if (id < first || id >= end || (entry > 0 && int(ids[entry - 1]) == id)) continue;
    float logit = logits[id];
    for (int next = entry; next < count && int(ids[next]) == id; next++) logit += float_of(values[next]);
    // Several huge ones can come to infinity minus infinity; a ban wins.
    logits[id] = logit == logit ? logit : never();
  }
}

/** Grid: ⌈vocabulary ÷ 1024⌉ × one for each scored row there may be. `pieces` has 8 for each block, row after row. */
struct ScorePiecesArguments {
  float* logits;
  const u32* requests;
  const int* row_count;
  u8* pieces;
  int vocabulary;
  int stride;
};

KERNEL(score_pieces, ScorePiecesArguments, kScoreThreads) {
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

  int stray = kNoColumn;
#pragma unroll
  for (int i = 3; i >= 0; i--) {
    if (!is_finite(logits.at[i])) stray = column + i;
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
      if (((allowed >> i) & 1) == 0) logits.at[i] = never();
    }
    write_quad(row, quad, logits);
  }

  u32 orders[4];
  u32 order = 0;
#pragma unroll
  for (int i = 0; i < 4; i++) {
    orders[i] = column + i < a.vocabulary ? order_of(logits.at[i]) : 0;
    order = larger(order, orders[i]);
  }
  order = wave_largest<kPieceLanes>(order);
  const float largest = float_of_order(order);
  int best_column = kNoColumn;
  float sum = 0;
#pragma unroll
  for (int i = 3; i >= 0; i--) {
    if (orders[i] == order) best_column = column + i;
    if (orders[i] != 0 && largest > never()) sum += exponential(logits.at[i] - largest);
  }
  best_column = wave_smallest<kPieceLanes>(best_column);
  sum = wave_sum<kPieceLanes>(sum);
  stray = wave_smallest<kPieceLanes>(stray);
  if (thread_index() % kPieceLanes == 0) {
    const int blocks = (a.vocabulary + kScoreColumns - 1) / kScoreColumns;
    Piece* const pieces = reinterpret_cast<Piece*>(a.pieces) + u64(index) * u64(blocks * (kScoreThreads / kPieceLanes));
    pieces[column / kPieceColumns] = {order, order == 0 ? -1 : best_column, sum, stray};
  }
}

constexpr int kChooseThreads = 512;
constexpr int kChooseWaves = kChooseThreads / WAVE;
/** Pieces that a thread keeps in registers: enough for 128k columns. */
constexpr int kHeldPieces = 2;
constexpr int kKeys = 4096;
/** Pieces that the block looks through at a time, and the keys that they can add. */
constexpr int kTeams = kChooseThreads / kPieceLanes;
constexpr int kTeamKeys = kTeams * kPieceColumns;
/** Pieces of each team whose logits are on their way while it looks at one. */
constexpr int kAhead = 4;

static_assert(kKeys - kTeamKeys >= kMaxCandidates, "a full buffer sheds all but the candidates");

struct ChooseShared {
  u64 keys[kKeys];
  u64 best[kChooseWaves];
  int stray[kChooseWaves];
  float sums[kChooseWaves];
  int pieces[kMaxCandidates];
  u32 count;
};

/** Grid: one for each scored row there may be. `results` may be memory of the host that the device writes to. */
struct ChooseCandidatesArguments {
  const float* logits;
  const u32* requests;
  const int* row_count;
  const u8* pieces;
  u32* results;
  int vocabulary;
  int stride;
};

DEVICE u64 key_of_piece(const Piece& piece) { return key_of(piece.order, piece.column); }

DEVICE void write_candidate(u32* pairs, int rank, u64 key) {
  pairs[2 * rank] = u32(column_of_key(key));
  pairs[2 * rank + 1] = bits_of(float_of_order(order_of_key(key)));
}

/** The best `count` keys of those that `keys` holds, in order, and how many that leaves. */
DEVICE int shed(u64* keys, int filled, int count) {
  sort_falling<kChooseThreads>(keys, filled);
  return smaller(filled, count);
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
  const int pieces = (a.vocabulary + kPieceColumns - 1) / kPieceColumns;
  const Piece* const own =
      reinterpret_cast<const Piece*>(a.pieces) + u64(index) * u64(blocks * (kScoreThreads / kPieceLanes));

  Piece held[kHeldPieces];
  u64 best = 0;
  int stray = kNoColumn;
#pragma unroll
  for (int i = 0; i < kHeldPieces; i++) {
    const int piece = i * kChooseThreads + thread_index();
    held[i] = {0, -1, 0, kNoColumn};
    if (piece < pieces) held[i] = own[piece];
  }
#pragma unroll
  for (int i = 0; i < kHeldPieces; i++) {
    const int piece = i * kChooseThreads + thread_index();
    best = larger(best, key_of_piece(held[i]));
    stray = smaller(stray, held[i].stray);
    if (piece < kKeys) shared.keys[piece] = key_of_piece(held[i]);
  }
  for (int piece = kHeldPieces * kChooseThreads + thread_index(); piece < pieces; piece += kChooseThreads) {
    best = larger(best, key_of_piece(own[piece]));
    stray = smaller(stray, own[piece].stray);
    if (piece < kKeys) shared.keys[piece] = key_of_piece(own[piece]);
  }
  best = wave_largest_key(best);
  stray = wave_smallest(stray);
  if (lane_index() == 0) {
    shared.best[wave_index()] = best;
    shared.stray[wave_index()] = stray;
  }
  barrier();
  const int other = lane_index() % kChooseWaves;
  best = wave_largest_key<kChooseWaves>(shared.best[other]);
  stray = wave_smallest<kChooseWaves>(shared.stray[other]);

  const float maximum = float_of_order(order_of_key(best));
  const bool possible = maximum > never();
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kHeldPieces; i++) {
    if (possible && held[i].order != 0) sum += held[i].sum * exponential(float_of_order(held[i].order) - maximum);
  }
  for (int piece = kHeldPieces * kChooseThreads + thread_index(); piece < pieces; piece += kChooseThreads) {
    if (possible) sum += own[piece].sum * exponential(float_of_order(own[piece].order) - maximum);
  }
  sum = wave_sum(sum);
  if (lane_index() == 0) shared.sums[wave_index()] = sum;
  barrier();
  sum = wave_sum<kChooseWaves>(shared.sums[other]);

  u32* const result = a.results + request.result_start;
  if (thread_index() == 0) {
    result[0] = bits_of(maximum);
    result[1] = bits_of(sum);
    result[2] = u32(stray == kNoColumn ? -1 : stray);
    result[3] = 0;
    if (request.candidates == 1) write_candidate(result + 4, 0, best);
  }
  const int wanted = smaller(request.candidates, smaller(kMaxCandidates, a.vocabulary));
  if (wanted <= 1 || stray != kNoColumn) return;

  // More pieces than there are keys (half a million columns) are looked through one and all.
  const bool ranked = pieces <= kKeys;
  const int looked = ranked ? smaller(wanted, pieces) : pieces;
  u64 least = 0;
  if (ranked) {
    sort_falling<kChooseThreads>(shared.keys, pieces);
    if (pieces >= wanted) least = shared.keys[wanted - 1];
    for (int rank = thread_index(); rank < looked; rank += kChooseThreads) {
      shared.pieces[rank] = column_of_key(shared.keys[rank]) / kPieceColumns;
    }
  }
  if (thread_index() == 0) shared.count = 0;
  barrier();

  const Row row = row_of(a.logits, index, a.stride, a.vocabulary);
  const bool may_overflow = looked * kPieceColumns > kKeys;
  const int team = thread_index() / kPieceLanes;
  const int lane = thread_index() % kPieceLanes;
  const auto quad_of_rank = [&](int rank) {
    return rank < looked ? (ranked ? shared.pieces[rank] : rank) * kPieceLanes + lane : quads_of(a.vocabulary);
  };
  Quad ahead[kAhead];
#pragma unroll
  for (int i = 0; i < kAhead; i++) ahead[i] = read_quad(row, quad_of_rank(i * kTeams + team));
  for (int rank = team; rank < looked + team; rank += kTeams) {
    const Quad logits = ahead[0];
#pragma unroll
    for (int i = 0; i + 1 < kAhead; i++) ahead[i] = ahead[i + 1];
    ahead[kAhead - 1] = read_quad(row, quad_of_rank(rank + kAhead * kTeams));
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
    const int kept = shed(shared.keys, filled, wanted);
    if (kept == wanted) least = shared.keys[wanted - 1];
    if (thread_index() == 0) shared.count = u32(kept);
    barrier();
  }
  barrier();
  const int kept = shed(shared.keys, int(shared.count), wanted);
  for (int rank = thread_index(); rank < kept; rank += kChooseThreads)
    write_candidate(result + 4, rank, shared.keys[rank]);
}
