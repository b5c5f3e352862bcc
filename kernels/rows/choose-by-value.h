// Chooses a token from a whole vocabulary that stages truncate by probability: typical, top-p and min-p, then the draw
// from the most likely down. Nothing is sorted but the few tokens around the place that a selection looks for: one pass
// over the row adds up weights in bins of 1/64 nat, the next collects the bin's tokens. A bin with too many of them, as
// equal logits make it, is divided again, by the bits of logits and then by id.
#pragma once
#include "rows/choose-shared.h"

constexpr int kBins = 2048;
constexpr float kBinsPerNat = 64.0f;
static_assert(kBins <= kKeys, "bins take the place of keys");
/** Chunks of each team of lanes whose logits are on their way together. */
constexpr int kVisited = 4;
constexpr int kVisitTeams = kChooseThreads / kChunkLanes;

/** Calls `visit` with each column and its logit, save chunks whose largest logit comes before `least_order`. */
template <typename Visit>
DEVICE void visit_row(const ChoiceRow& choice, u32 least_order, const Visit& visit) {
  const int lane = thread_index() % kChunkLanes;
  for (int first = thread_index() / kChunkLanes; first < choice.chunks; first += kVisitTeams * kVisited) {
    Quad logits[kVisited];
    u32 orders[kVisited];
#pragma unroll
    for (int i = 0; i < kVisited; i++) {
      const int chunk = first + i * kVisitTeams;
      const bool inside = chunk < choice.chunks;
      orders[i] = inside ? choice.scores[chunk].choice_order : 0;
      logits[i] = read_quad(choice.row, inside ? chunk * kChunkLanes + lane : quads_of(choice.row.width));
    }
#pragma unroll
    for (int i = 0; i < kVisited; i++) {
      if (orders[i] < least_order) continue;
      const int column = ((first + i * kVisitTeams) * kChunkLanes + lane) * 4;
#pragma unroll
      for (int j = 0; j < 4; j++) {
        if (column + j < choice.row.width) visit(column + j, logits[i].at[j]);
      }
    }
  }
}

/** The tokens that earlier stages have left. */
struct Members {
  /** Least key by logit. */
  u64 least;
  /** Least key by closeness to `centre`; 0 if any will do. */
  u64 least_typical;
  double centre;
};

DEVICE u64 typical_key(float logit, int column, double centre) {
  return key_of(order_of(closeness(logit, centre)), column);
}

DEVICE bool is_member(const Members& members, float logit, int column) {
  return key_of(order_of(logit), column) >= members.least &&
         (members.least_typical == 0 || typical_key(logit, column, members.centre) >= members.least_typical);
}

/** Adds to a sum of 64 bits by parts of 32. */
DEVICE void add_weight(u64* bin, u64 weight) {
  u32* const parts = reinterpret_cast<u32*>(bin);
  const u32 low = u32(weight);
  u32 high = u32(weight >> 32);
  const u32 before = atomic_add(parts, low);
  if (before + low < before) high++;
  if (high != 0) atomic_add(parts + 1, high);
}

/** How a selection ranks tokens and weighs them. */
struct Selection {
  /** By closeness to the members' centre, and not by logit. */
  bool typical;
  /** It looks for the token that passes the share of all weight, and not for the one that reaches it. */
  bool passing;
  double share;
  /** The value that comes first: 0, or the members' largest logit. */
  float first;
  float origin;
  Scale scale;
};

DEVICE u64 goal_of(const Selection& by, u64 total) {
  return by.passing ? goal_passing(by.share, total) : goal_reaching(by.share, total);
}

constexpr int kAllBins = -1;

/** The part of the ranking that a selection has narrowed down to. */
struct KeyRange {
  int bin;
  u64 low;
  u64 high;
};

DEVICE int bin_of(float first, float value) {
  const float bin = (first - value) * kBinsPerNat;
  return bin < float(kBins - 1) ? int(bin) : kBins - 1;
}

/** Keys that the tokens of a bin may have, and some more. */
DEVICE KeyRange range_of_bin(float first, int bin) {
  const float slack = (magnitude(first) + 33.0f) * 1e-6f;
  const float top = first - float(bin) / kBinsPerNat + slack;
  const float bottom = first - float(bin + 1) / kBinsPerNat - slack;
  return {bin, bin == kBins - 1 ? 0 : key_of(order_of(bottom), kNoColumn), key_of(order_of(top), 0)};
}

/** Sums weights by bin: of all members, or of those in a range by their distance from its end. */
DEVICE void sum_bins(ChooseShared& shared, const ChoiceRow& choice, const Members& members, const Selection& by,
                     const KeyRange& range, int shift) {
  for (int bin = thread_index(); bin < kBins; bin += kChooseThreads) shared.keys[bin] = 0;
  barrier();
  visit_row(choice, order_of_key(members.least), [&](int column, float logit) {
    if (!is_member(members, logit, column)) return;
    const float value = by.typical ? closeness(logit, members.centre) : logit;
    int bin = bin_of(by.first, value);
    if (range.bin != kAllBins) {
      const u64 key = key_of(order_of(value), column);
      if (bin != range.bin || key < range.low || key > range.high) return;
      bin = int((range.high - key) >> shift);
    }
    add_weight(shared.keys + bin, token_weight(logit, by.origin, by.scale));
  });
  barrier();
}

/** Collects the keys of a range, as many as there is room for. Returns how many there are. */
DEVICE int collect_keys(ChooseShared& shared, const ChoiceRow& choice, const Members& members, const Selection& by,
                        const KeyRange& range) {
  if (thread_index() == 0) shared.count = 0;
  barrier();
  const u32 least = order_of_key(members.least);
  visit_row(choice, by.typical ? least : max(least, order_of_key(range.low)), [&](int column, float logit) {
    if (!is_member(members, logit, column)) return;
    const float value = by.typical ? closeness(logit, members.centre) : logit;
    const u64 key = key_of(order_of(value), column);
    if (bin_of(by.first, value) != range.bin || key < range.low || key > range.high) return;
    const u32 place = atomic_add(&shared.count, 1);
    if (place < u32(kKeys)) shared.keys[place] = key;
  });
  barrier();
  const int count = int(shared.count);
  barrier();
  return count;
}

/** The key, by the selection's ranking, at which the members' weights reach or pass a share of their total. */
DEVICE u64 select_key(ChooseShared& shared, const ChoiceRow& choice, const Members& members, const Selection& by) {
  u64 left = 0;
  int shift = 0;
  int count = 0;
  KeyRange range = {kAllBins, 0, 0};
  do {
    const bool whole = range.bin == kAllBins;
    if (!whole) {
      for (shift = 0; ((range.high - range.low) >> shift) >= u64(kBins);) shift++;
    }
    sum_bins(shared, choice, members, by, range, shift);
    const Located bin = locate(
        shared, kBins, [&](int index) { return shared.keys[index]; },
        [&](u64 total) { return whole ? left = goal_of(by, total) : left; });
    left -= bin.before;
    if (whole) {
      range = range_of_bin(by.first, bin.index);
    } else {
      range.high -= u64(bin.index) << shift;
      if (((range.high - range.low) >> shift) != 0) range.low = range.high - ((u64(1) << shift) - 1);
    }
    count = collect_keys(shared, choice, members, by, range);
  } while (count > kKeys);
  sort_falling<kChooseThreads>(shared.keys, count);
  const Located rank = locate(
      shared, count,
      [&](int place) {
        const u64 key = shared.keys[place];
        const float logit = by.typical ? choice.row.floats[column_of_key(key)] : logit_of_key(key);
        return token_weight(logit, by.origin, by.scale);
      },
      [&](u64) { return left; });
  const u64 key = shared.keys[rank.index];
  barrier();
  return key;
}

/** The logit whose surprise is the expected one. */
DEVICE double typical_centre(ChooseShared& shared, const ChoiceRow& choice, const Members& members, float highest) {
  double sum = 0, distances = 0;
  visit_row(choice, order_of_key(members.least), [&](int column, float logit) {
    if (!is_member(members, logit, column)) return;
    const double weight = scaled_exponential(logit - highest, plain_scale());
    sum += weight;
    distances += weight * (double(highest) - double(logit));
  });
  sum = block_sum_double<kChooseThreads>(sum, shared.scratch);
  distances = block_sum_double<kChooseThreads>(distances, shared.scratch);
  return double(highest) - distances / sum;
}

/** The largest logit of the members. */
DEVICE float highest_member(ChooseShared& shared, const ChoiceRow& choice, const Members& members) {
  u64 best = 0;
  visit_row(choice, order_of_key(members.least), [&](int column, float logit) {
    if (is_member(members, logit, column)) best = max(best, key_of(order_of(logit), column));
  });
  return logit_of_key(block_max_key<kChooseThreads>(best, shared.scratch));
}

/** The order of the smallest float that is not below a number. */
DEVICE u32 order_from(double number) {
  const float nearby = float(number);
  return order_of(nearby) + (double(nearby) < number ? 1 : 0);
}

/** The column of the token; `highest` is the largest logit, and possible. */
DEVICE int choose_by_value(ChooseShared& shared, const OutputRequest& request, const ChoiceRow& choice, float highest) {
  Members members = {u64(order_of(negative_infinity()) + 1) << 32, 0, 0};
  int token = -1;
  // Typical, top-p, draw: one copy of the code for all three.
#pragma unroll 1
  for (int stage = 0; stage < 3; stage++) {
    const bool draws = stage == 2;
    const double share = stage == 0 ? request.typical_p : stage == 1 ? request.top_p : request.draw;
    if (!draws && !(share < 1)) continue;
    if (stage == 0) members.centre = typical_centre(shared, choice, members, highest);
    if (draws && request.log_min_p > negative_infinity())
      members.least = max(members.least, u64(order_from(double(highest) + request.log_min_p)) << 32);
    const Scale scale = draws ? Scale{request.scale_high, request.scale_low} : plain_scale();
    const u64 key =
        select_key(shared, choice, members, {stage == 0, draws, share, stage == 0 ? 0 : highest, highest, scale});
    if (stage == 0) {
      members.least_typical = key;
      highest = highest_member(shared, choice, members);
    } else if (stage == 1) {
      members.least = key;
    } else {
      token = column_of_key(key);
    }
  }
  return token;
}
