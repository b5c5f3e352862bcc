// What an output row asks for, as the host packs it (src/backends/gpu/lowering/token-request.ts has the same words), and
// what score_chunks leaves of a row for choose_outputs.
#pragma once
#include "device/portable.h"

/** src/backends/gpu/lowering/output-rows.ts has the same numbers. */
constexpr int kChunkColumns = 128;
constexpr int kScoreThreads = 256;
constexpr int kMaxCandidates = 1024;
constexpr int kScoreColumns = kScoreThreads * 4;
constexpr int kChunkLanes = kChunkColumns / 4;

/** How a row's token is chosen, if it is: from the whole distribution by id, from the best few, or by value. */
constexpr int kNoToken = 0;
constexpr int kDrawFromAll = 1;
constexpr int kChooseRanked = 2;
constexpr int kChooseByValue = 3;

/** One for each scored row. Places are words from the first request on. */
struct alignas(16) OutputRequest {
  /** At most kMaxCandidates; 0 where the host takes the whole row, or none but the token. */
  int candidates;
  /** Rising ids, then as many values; an id may come several times. */
  int bias_count;
  int bias_start;
  /** Bit i of word i / 32 allows column i; negative allows all. */
  int mask_start;
  /** In words of the results: { maximum, sum of exp(logit − maximum), first column not finite or −1, 0 }, then pairs of
   *  id and logit: the chosen token where there is one, then the candidates. */
  int result_start;
  /** One of the four above. */
  int choice;
  /** Of kChooseRanked: at most kMaxCandidates. */
  int top_k;
  int min_keep;
  /** Rising ids, each once, then as many factors, decreases, and places for the logits before them. */
  int penalty_count;
  int penalty_start;
  /** log2(e) ÷ temperature, in two parts; 0 chooses the most likely token. */
  float scale_high;
  float scale_low;
  /** In [0, 1). */
  double draw;
  /** 1 is off. */
  double typical_p;
  /** 1 is off. */
  double top_p;
  /** −∞ is off. */
  double log_min_p;
  /** Negative is off. */
  double xtc_threshold;
  double unused;
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
  /** The same three after penalties, and of exp((logit − largest) ÷ temperature). */
  u32 choice_order;
  int choice_column;
  float choice_sum;
  int unused;
};
