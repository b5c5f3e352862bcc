// The operation `route-experts`: the chosen experts' numbers and then their weights, from a row of logits.
// One block a row; grid: one block for each row there may be. Defines: rows/expert-choice.h.
// v1 every expert counts those before it, which takes no sorting and few barriers. Not measured yet.
#include "rows/expert-choice.h"

struct RouteExpertsArguments {
  const float* logits;
  const float* bias;
  const int* row_count;
  float* out;
  int logits_stride;
  int out_stride;
};

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
