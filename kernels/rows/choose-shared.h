// What the block that chooses a row's outputs has in common: its shared memory, the row it looks at, and the search for
// the place at which a running sum of weights reaches a goal.
#pragma once
#include "device/quad.h"
#include "device/sort.h"
#include "rows/output-request.h"
#include "rows/token-weights.h"

constexpr int kChooseThreads = 512;
constexpr int kChooseWaves = kChooseThreads / WAVE;
constexpr int kKeys = 4096;

struct ChooseShared {
  /** Or sums of weights, a bin each. */
  u64 keys[kKeys];
  u64 scratch[kChooseWaves];
  int not_finite[kChooseWaves];
  float sums[kChooseWaves];
  int chunks[kMaxCandidates];
  u64 before;
  int found;
  u32 count;
};

/** The row that a block chooses from: its logits after penalties, and what is known of its chunks. */
struct ChoiceRow {
  Row row;
  const ScoreChunk* scores;
  int chunks;
};

/** Where a running sum reaches its goal: at `index`, after `before`. */
struct Located {
  int index;
  u64 before;
  u64 total;
};

/** Of `count` weights in a row, `goal_of` their total; the first if all are zero. For the whole block. */
template <typename Weight, typename Goal>
DEVICE Located locate(ChooseShared& shared, int count, const Weight& weight_at, const Goal& goal_of) {
  const int share = (count + kChooseThreads - 1) / kChooseThreads;
  const int first = thread_index() * share;
  const int end = min(first + share, count);
  u64 sum = 0;
  for (int index = first; index < end; index++) sum += weight_at(index);
  u64 total;
  u64 before = block_prefix<kChooseThreads>(sum, shared.scratch, total);
  const u64 goal = goal_of(total);
  if (thread_index() == 0) {
    shared.found = 0;
    shared.before = 0;
  }
  barrier();
  if (before < goal && goal <= before + sum) {
    int index = first;
    for (u64 weight = weight_at(index); before + weight < goal; weight = weight_at(++index)) before += weight;
    shared.found = index;
    shared.before = before;
  }
  barrier();
  const Located result = {shared.found, shared.before, total};
  barrier();
  return result;
}

DEVICE int max_of(int left, int right) { return left > right ? left : right; }
DEVICE float logit_of_key(u64 key) { return float_of_order(order_of_key(key)); }

/** How near a logit is to `centre`: 0 at best. */
DEVICE float closeness(float logit, double centre) {
  const double distance = double(logit) - centre;
  return -float(distance < 0 ? -distance : distance);
}

/** The place of a column among the penalised ones, or −1. */
DEVICE int penalty_of(const u32* ids, int count, int column) {
  int first = 0, end = count;
  while (first < end) {
    const int middle = (first + end) / 2;
    if (int(ids[middle]) < column) {
      first = middle + 1;
    } else {
      end = middle;
    }
  }
  return first < count && int(ids[first]) == column ? first : -1;
}

/** A logit before penalties. */
DEVICE float unpenalised(const u32* requests, const OutputRequest& request, int column, float logit) {
  if (request.penalty_count == 0) return logit;
  const u32* const ids = requests + request.penalty_start;
  const int place = penalty_of(ids, request.penalty_count, column);
  return place < 0 ? logit : float_of(ids[3 * request.penalty_count + place]);
}
