// The operation `route-experts`: the chosen experts' numbers and then their weights, from a row of logits.
//   route_experts        one block a row; grid: one block for each row there may be
//   route_experts_waves  one wave a row, to the same bits, where rows/wave-choice.h allows; grid: ⌈rows ÷ 4⌉ blocks
// Defines: rows/expert-choice.h. ROW_WAVES 1: the second.
// v1 every expert counts those before it, which takes no sorting and few barriers. H200, 4,096 rows of 256: 73 µs.
// v2 a wave a row. 5 to 8 µs expected, 11 found.
#include "rows/expert-choice.h"

#ifndef ROW_WAVES
#define ROW_WAVES 0
#endif

struct RouteExpertsArguments {
  const float* logits;
  const float* bias;
  const int* row_count;
  float* out;
  int logits_stride;
  int out_stride;
};

#if ROW_WAVES
#include "rows/wave-choice.h"

constexpr int kBlockRows = 4;
constexpr int kRowThreads = kBlockRows * WAVE;

KERNEL(route_experts_waves, RouteExpertsArguments, kRowThreads) {
  SHARED float gated[kBlockRows][EXPERTS];
  dependency_release();
  const int rows = *a.row_count;
  dependency_wait();
  const int index = block_x() * kBlockRows + wave_index();
  if (index >= rows) return;
  const ChosenExpert chosen = choose_in_wave(a.logits + u64(index) * u64(a.logits_stride), a.bias, gated[wave_index()]);
  if (lane_index() >= USED) return;
  float* const out = a.out + u64(index) * u64(a.out_stride);
  out[lane_index()] = float(chosen.expert);
  out[USED + lane_index()] = chosen.weight;
}
#else
KERNEL(route_experts, RouteExpertsArguments, kChoiceThreads) {
  SHARED ExpertChoice choice;
  dependency_release();
  const int rows = *a.row_count;
  dependency_wait();
  const int index = block_x();
  if (index >= rows) return;
  choose_experts<kChoiceThreads, true>(a.logits + u64(index) * u64(a.logits_stride), a.bias, choice);
  if (thread_index() >= USED) return;
  float* const out = a.out + u64(index) * u64(a.out_stride);
  out[thread_index()] = float(choice.experts[thread_index()]);
  out[USED + thread_index()] = choice.weights[thread_index()];
}
#endif
