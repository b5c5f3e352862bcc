// Merges what attention/deep-decode.hip left for each head: a wave takes every n-th part, all of them on their way at
// once, and the waves' sums are merged in order, so the result depends on the token's position and nothing else.
// Grid: x query head × blocks of columns (kColumnBlocks below, also in src/backends/gpu/memory/deep-attention.ts), y token.
// Defines: VALUE_WIDTH (a multiple of 16), OUTPUT (see attention/output.h), WINDOW, CHUNK and SINKS (see
// attention/attributes.h).
//
// v1  adds 2.9 µs on an H200 to attention/deep-decode.hip for 65 parts of 32 heads of 128 columns.
#include "device/portable.h"
#include "device/step.h"
#include "device/quad.h"
#include "attention/deep-parts.h"
#include "attention/output.h"

constexpr int kThreads = 512;
/** Columns of a block: whole blocks of 32, so that quantized rows have their scales in one wave. */
constexpr int kBlockColumns = VALUE_WIDTH < 64 ? VALUE_WIDTH : 64;
constexpr int kColumnBlocks = (VALUE_WIDTH + kBlockColumns - 1) / kBlockColumns;
/** Threads that have the columns of one part, a quad each. */
constexpr int kTeamThreads = 16;
constexpr int kTeams = kThreads / kTeamThreads;
constexpr int kPartsAtOnce = 4;

struct DeepCombineArguments {
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
  /** Parts that the partial results have room for. */
  int splits;
  /** Parts that a token's positions are divided into, at most. */
  int most_parts;
  /** One logit for each query head, if SINKS is 1. */
  const float* sinks;
};

/** If there was no score but −∞ nothing weighs anything, and nothing is NaN. */
DEVICE float base_of(float highest) { return highest == negative_infinity() ? 0.0f : highest; }

KERNEL(attention_deep_combine, DeepCombineArguments, kThreads) {
  SHARED Quad sums[kTeams][kTeamThreads];
  SHARED float highests[kTeams];
  SHARED float totals[kTeams];
  dependency_release();
  const int token = block_y(), head = block_x() / kColumnBlocks;
  const int first_column = block_x() % kColumnBlocks * kBlockColumns;
  if (token >= a.step->tokens) return;
  const int count = deep_parts(a.positions[token], a.most_parts).count;
  const int team = thread_index() / kTeamThreads, own = thread_index() % kTeamThreads;
  const int column = first_column + own * 4;
  const bool has_columns = own * 4 < kBlockColumns && column < VALUE_WIDTH;
  const u64 place = (u64(token) * u64(a.heads) + u64(head)) * u64(a.splits);
  dependency_wait();

  float highest = negative_infinity(), total = 0.0f;
  Quad sum = {{0.0f, 0.0f, 0.0f, 0.0f}};
  for (int first = team; first < count; first += kTeams * kPartsAtOnce) {
    float tops[kPartsAtOnce], weights[kPartsAtOnce];
    Quad values[kPartsAtOnce];
#pragma unroll
    for (int index = 0; index < kPartsAtOnce; index++) {
      const int part = first + index * kTeams;
      const bool present = part < count;
      const u64 at = place + u64(present ? part : 0);
      tops[index] = present ? a.partial_weights[at * 2] : negative_infinity();
      weights[index] = present ? a.partial_weights[at * 2 + 1] : 0.0f;
      values[index] = {{0.0f, 0.0f, 0.0f, 0.0f}};
      if (present && has_columns)
        values[index] = *reinterpret_cast<const Quad*>(a.partial_values + at * VALUE_WIDTH + u64(column));
    }
    float top = highest;
#pragma unroll
    for (int index = 0; index < kPartsAtOnce; index++) top = max(top, tops[index]);
    const float base = base_of(top);
    const float before = exponential2(highest - base);
    total *= before;
#pragma unroll
    for (int one = 0; one < 4; one++) sum.at[one] *= before;
#pragma unroll
    for (int index = 0; index < kPartsAtOnce; index++) {
      const float factor = exponential2(tops[index] - base);
      total = fma(factor, weights[index], total);
#pragma unroll
      for (int one = 0; one < 4; one++) sum.at[one] = fma(factor, values[index].at[one], sum.at[one]);
    }
    highest = top;
  }
  sums[team][own] = sum;
  if (own == 0) {
    highests[team] = highest;
    totals[team] = total;
  }
  barrier();
  if (wave_index() * WAVE >= kBlockColumns) return;

  float top = highests[0];
#pragma unroll
  for (int other = 1; other < kTeams; other++) top = max(top, highests[other]);
  const float base = base_of(top);
  total = 0.0f;
  float result = 0.0f;
  const int within = min(thread_index(), kBlockColumns - 1);
#pragma unroll
  for (int other = 0; other < kTeams; other++) {
    const float factor = exponential2(highests[other] - base);
    total = fma(factor, totals[other], total);
    result = fma(factor, sums[other][within / 4].at[within % 4], result);
  }
  const int result_column = first_column + thread_index();
  write_column(a, token, head * VALUE_WIDTH + result_column,
               thread_index() < kBlockColumns && result_column < VALUE_WIDTH, result / with_sink(a, head, base, total));
}
