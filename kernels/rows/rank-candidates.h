// The k best logits of a row, sorted in shared memory: they are in the k best chunks, whose largest logits are known.
#pragma once
#include "rows/choose-shared.h"

/** Chunks that the block looks through at a time, and the keys that they can add. */
constexpr int kTeams = kChooseThreads / kChunkLanes;
constexpr int kTeamKeys = kTeams * kChunkColumns;
/** Chunks of each team whose logits are on their way while it looks at one. */
constexpr int kPrefetched = 4;

static_assert(kKeys - kTeamKeys >= kMaxCandidates, "a full buffer sheds all but the candidates");

/** The best `count` keys of those that `keys` holds, in order, and how many that leaves. */
DEVICE int keep_best(u64* keys, int filled, int count) {
  sort_falling<kChooseThreads>(keys, filled);
  return min(filled, count);
}

/** `chunk_key` is the best key of a chunk, `logit_at` a column's logit from the one in memory. Returns how many. */
template <typename ChunkKey, typename Logit>
DEVICE int rank_candidates(ChooseShared& shared, const ChoiceRow& choice, int wanted, const ChunkKey& chunk_key,
                           const Logit& logit_at) {
  // More chunks than there are keys (half a million columns) are looked through one and all.
  const int chunks = choice.chunks;
  const bool ranked = chunks <= kKeys;
  const int looked = ranked ? min(wanted, chunks) : chunks;
  u64 least = 0;
  if (ranked) {
    for (int chunk = thread_index(); chunk < chunks; chunk += kChooseThreads) shared.keys[chunk] = chunk_key(chunk);
    sort_falling<kChooseThreads>(shared.keys, chunks);
    if (chunks >= wanted) least = shared.keys[wanted - 1];
    for (int rank = thread_index(); rank < looked; rank += kChooseThreads) {
      shared.chunks[rank] = column_of_key(shared.keys[rank]) / kChunkColumns;
    }
  }
  if (thread_index() == 0) shared.count = 0;
  barrier();

  const bool may_overflow = looked * kChunkColumns > kKeys;
  const int team = thread_index() / kChunkLanes;
  const int lane = thread_index() % kChunkLanes;
  const auto quad_of_rank = [&](int rank) {
    return rank < looked ? (ranked ? shared.chunks[rank] : rank) * kChunkLanes + lane : quads_of(choice.row.width);
  };
  Quad prefetched[kPrefetched];
#pragma unroll
  for (int i = 0; i < kPrefetched; i++) prefetched[i] = read_quad(choice.row, quad_of_rank(i * kTeams + team));
  for (int rank = team; rank < looked + team; rank += kTeams) {
    const Quad logits = prefetched[0];
#pragma unroll
    for (int i = 0; i + 1 < kPrefetched; i++) prefetched[i] = prefetched[i + 1];
    prefetched[kPrefetched - 1] = read_quad(choice.row, quad_of_rank(rank + kPrefetched * kTeams));
    const int first = quad_of_rank(rank) * 4;
#pragma unroll
    for (int i = 0; i < 4; i++) {
      if (first + i >= choice.row.width) continue;
      const u64 key = key_of(order_of(logit_at(first + i, logits.at[i])), first + i);
      if (key >= least) shared.keys[atomic_add(&shared.count, 1)] = key;
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
  return keep_best(shared.keys, int(shared.count), wanted);
}
