// Chooses a token from the best few of a row, which lie sorted in shared memory: typical, top-p, min-p, XTC and the draw,
// in the order of src/sampler/token-choice.ts.
#pragma once
#include "rows/choose-shared.h"

/** How many of the first `count` keys satisfy a condition. For the whole block. */
template <typename Condition>
DEVICE int count_keys(ChooseShared& shared, int count, const Condition& holds) {
  if (thread_index() == 0) shared.count = 0;
  barrier();
  for (int rank = thread_index(); rank < count; rank += kChooseThreads) {
    if (holds(shared.keys[rank])) atomic_add(&shared.count, 1);
  }
  barrier();
  const int found = int(shared.count);
  barrier();
  return found;
}

/** Leaves the most typical of `count` keys, in order again. Returns how many that are. */
DEVICE int keep_typical(ChooseShared& shared, const OutputRequest& request, const Row& row, int count) {
  static_assert(kKeys >= 2 * kMaxCandidates, "the keys in another order beside them");
  u64* const typical = shared.keys + kMaxCandidates;
  const float origin = logit_of_key(shared.keys[0]);
  double sum = 0, distances = 0;
  for (int rank = thread_index(); rank < count; rank += kChooseThreads) {
    const float logit = logit_of_key(shared.keys[rank]);
    const double weight = scaled_exponential(logit - origin, plain_scale());
    sum += weight;
    distances += weight * (double(origin) - double(logit));
  }
  sum = block_sum_double<kChooseThreads>(sum, shared.scratch);
  distances = block_sum_double<kChooseThreads>(distances, shared.scratch);
  const double centre = double(origin) - distances / sum;
  const auto typical_key = [&](u64 key) {
    return key_of(order_of(closeness(logit_of_key(key), centre)), column_of_key(key));
  };
  for (int rank = thread_index(); rank < count; rank += kChooseThreads) typical[rank] = typical_key(shared.keys[rank]);
  sort_falling<kChooseThreads>(typical, count);
  const Located last = locate(
      shared, count,
      [&](int rank) { return token_weight(row.floats[column_of_key(typical[rank])], origin, plain_scale()); },
      [&](u64 total) { return goal_reaching(request.typical_p, total); });
  const int kept = max_of(last.index + 1, request.min_keep);
  const u64 least = typical[kept - 1];
  barrier();
  for (int rank = thread_index(); rank < count; rank += kChooseThreads) {
    if (typical_key(shared.keys[rank]) < least) shared.keys[rank] = 0;
  }
  sort_falling<kChooseThreads>(shared.keys, count);
  return kept;
}

/** The rank at which the weights from `first` on reach a share of all before `end`. */
template <typename Goal>
DEVICE int locate_rank(ChooseShared& shared, int first, int end, const Scale& scale, const Goal& goal_of) {
  const float origin = logit_of_key(shared.keys[first]);
  return first + locate(
                     shared, end - first,
                     [&](int rank) { return token_weight(logit_of_key(shared.keys[first + rank]), origin, scale); },
                     goal_of)
                     .index;
}

/** How many of the best XTC removes of `count` keys. */
DEVICE int excluded_ranks(ChooseShared& shared, const OutputRequest& request, int count) {
  const float origin = logit_of_key(shared.keys[0]);
  const auto weight = [&](u64 key) { return token_weight(logit_of_key(key), origin, plain_scale()); };
  u64 total = 0;
  locate(shared, count, [&](int rank) { return weight(shared.keys[rank]); }, [&](u64 sum) { return total = sum; });
  const double needed = request.xtc_threshold * double(total);
  const int likely = count_keys(shared, count, [&](u64 key) { return double(weight(key)) >= needed; });
  return likely > 1 && count - (likely - 1) >= request.min_keep ? likely - 1 : 0;
}

/** The column of the token, or −1 if none is possible. */
DEVICE int choose_ranked(ChooseShared& shared, const OutputRequest& request, const Row& row, int ranked) {
  const u32 impossible = order_of(negative_infinity());
  int count = count_keys(shared, ranked, [&](u64 key) { return order_of_key(key) > impossible; });
  if (count == 0) return -1;
  if (request.typical_p < 1 && count > request.min_keep) count = keep_typical(shared, request, row, count);
  if (request.top_p < 1 && count > request.min_keep) {
    const int last =
        locate_rank(shared, 0, count, plain_scale(), [&](u64 total) { return goal_reaching(request.top_p, total); });
    count = max_of(last + 1, request.min_keep);
  }
  if (request.log_min_p > negative_infinity() && count > request.min_keep) {
    const double floor = double(logit_of_key(shared.keys[0])) + request.log_min_p;
    const int likely = count_keys(shared, count, [&](u64 key) { return double(logit_of_key(key)) >= floor; });
    count = max_of(likely, request.min_keep);
  }
  const int first = request.xtc_threshold >= 0 ? excluded_ranks(shared, request, count) : 0;
  const int chosen = locate_rank(shared, first, count, {request.scale_high, request.scale_low},
                                 [&](u64 total) { return goal_passing(request.draw, total); });
  return column_of_key(shared.keys[chosen]);
}
