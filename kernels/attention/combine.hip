// Merges what attention_split left for each head: teams of threads take every n-th split, all at once in registers, and
// the teams' sums are merged in order, so the result depends on the token's position and nothing else.
// Grid: x query head × blocks of columns (kColumnBlocks below, also in src/backends/gpu/memory/kv-layout.ts), y token.
// Defines: VALUE_WIDTH, COMBINED_COLUMNS (a block's; the fewer, the more splits it reads at once: sums of many splits then
// run in another order), OUTPUT (see attention/output.h), WINDOW, CHUNK and SINKS (see attention/attributes.h).
//
// v1  one head a block of 512, a thread a column of every n-th split, 8 splits in flight a thread; not measured.
#include "device/portable.h"
#include "device/step.h"
#include "attention/attributes.h"
#include "attention/output.h"

constexpr int kThreads = 512;
#ifndef COMBINED_COLUMNS
#define COMBINED_COLUMNS (VALUE_WIDTH <= 256 ? VALUE_WIDTH : 128)
#endif

constexpr int kBlockColumns = COMBINED_COLUMNS;
constexpr int kColumnBlocks = (VALUE_WIDTH + kBlockColumns - 1) / kBlockColumns;
constexpr int kTeamThreads = kBlockColumns <= 32 ? 32 : kBlockColumns <= 64 ? 64 : kBlockColumns <= 128 ? 128 : 256;
constexpr int kTeams = kThreads / kTeamThreads;
constexpr int kSplitsAtOnce = 8;

struct AttentionCombineArguments {
  const StepHead* step;
  const int* positions;
  const float* partial_values;
  const float* partial_weights;
  float* out;
  i8* quantized;
  float* scales;
  float* sums;
  u16* halves;
  float* row_scales;
  int out_stride;
  int half_stride;
  int heads;
  /** Splits that the partial results have room for. */
  int splits;
  /** One logit for each query head, if SINKS is 1. */
  const float* sinks;
};

/** Where there was no score but −∞ nothing weighs anything, and nothing is NaN. */
DEVICE float base_of(float highest) { return highest == negative_infinity() ? 0.0f : highest; }

KERNEL(attention_combine, AttentionCombineArguments, kThreads) {
  SHARED float parts[kThreads];
  SHARED float highests[kTeams];
  SHARED float totals[kTeams];
  dependency_release();
  const int token = block_y(), head = block_x() / kColumnBlocks;
  const int first_column = block_x() % kColumnBlocks * kBlockColumns;
  if (token >= a.step->tokens) return;
  const int position = a.positions[token];
  const int count = min(splits_of(position), a.splits);
  const int team = thread_index() / kTeamThreads, own = thread_index() % kTeamThreads;
  const int column = first_column + own;
  const bool has_column = own < kBlockColumns && column < VALUE_WIDTH;
  const u64 place = (u64(token) * u64(a.heads) + u64(head)) * u64(a.splits);
  dependency_wait();

  float highest = negative_infinity(), total = 0.0f, sum = 0.0f;
  for (int first = team; first < count; first += kTeams * kSplitsAtOnce) {
    float tops[kSplitsAtOnce], weights[kSplitsAtOnce], values[kSplitsAtOnce];
#pragma unroll
    for (int index = 0; index < kSplitsAtOnce; index++) {
      const int split = first + index * kTeams;
      const bool present = split < count;
      const u64 at = place + u64(present ? split : 0);
      tops[index] = present ? a.partial_weights[at * 2] : negative_infinity();
      weights[index] = present ? a.partial_weights[at * 2 + 1] : 0.0f;
      values[index] = present && has_column ? a.partial_values[at * VALUE_WIDTH + u64(column)] : 0.0f;
    }
    float top = highest;
#pragma unroll
    for (int index = 0; index < kSplitsAtOnce; index++) top = max(top, tops[index]);
    const float base = base_of(top);
    const float before = exponential2(highest - base);
    total *= before;
    sum *= before;
#pragma unroll
    for (int index = 0; index < kSplitsAtOnce; index++) {
      const float factor = exponential2(tops[index] - base);
      total = fma(factor, weights[index], total);
      sum = fma(factor, values[index], sum);
    }
    highest = top;
  }
  parts[thread_index()] = sum;
  if (own == 0) {
    highests[team] = highest;
    totals[team] = total;
  }
  barrier();
  if (wave_index() * WAVE >= kTeamThreads) return;

  float top = highests[0];
#pragma unroll
  for (int other = 1; other < kTeams; other++) top = max(top, highests[other]);
  const float base = base_of(top);
  total = 0.0f;
  sum = 0.0f;
#pragma unroll
  for (int other = 0; other < kTeams; other++) {
    const float factor = exponential2(highests[other] - base);
    total = fma(factor, totals[other], total);
    sum = fma(factor, parts[other * kTeamThreads + own], sum);
  }
  write_column(a, token, head * VALUE_WIDTH + column, has_column && thread_index() < kTeamThreads,
               sum / with_sink(a, head, base, total));
}
