// One slot of a grouped matmul: which matrix of the stack it takes and what its results are weighed with.
// ROUTED 0: matrix s for slot s; 1: as a row of the operation `route-experts` says; 2: chosen here from the router's
// logits (rows/expert-choice.h), by every block anew, which spares a launch.
#pragma once
#include "matmul/row-stream.h"

#ifndef ROUTED
#define ROUTED 1
#endif
#if ROUTED == 2
#include "rows/expert-choice.h"
#endif

struct ExpertSlot {
  int matrix;
  float weight;
};

/** Where a slot is looked up: a row of routing (ROUTED 1) or of logits, with the selection bias of experts (ROUTED 2). */
struct SlotSource {
  const float* row;
  const float* bias;
  int slots;
  bool weighted;
};

/** Called by all threads of a block. Waits for the launches before this one unless the matrix does not depend on them. */
DEVICE ExpertSlot find_slot(const SlotSource& source, int slot) {
#if ROUTED == 0
  return {slot, 1.0f};
#elif ROUTED == 1
  dependency_wait();
  return {int(source.row[slot]), source.weighted ? source.row[source.slots + slot] : 1.0f};
#else
  SHARED ExpertChoice choice;
  // Only now may the next launch start: it reads the logits before it waits for this one.
  dependency_wait();
  dependency_release();
  if (source.weighted) {
    choose_experts<THREADS, true>(source.row, source.bias, choice);
    return {choice.experts[slot], choice.weights[slot]};
  }
  choose_experts<THREADS, false>(source.row, source.bias, choice);
  return {choice.experts[slot], 1.0f};
#endif
}

/** The rows of one matrix of a stack, from `first` on, as a matmul of one token that writes to `out`. */
DEVICE Matmul slot_matmul(const u8* weights, const u8* bias, const float* factors, const ExpertSlot& slot, float* out,
                          u64 row_bytes, int matrix_rows, int first, int rows) {
  const u64 row = u64(slot.matrix) * u64(matrix_rows) + u64(first);
  return {weights + row * row_bytes,
          out,
          bias == nullptr ? nullptr : bias + row * Plain<BIAS_TYPE>::element_bytes,
          factors == nullptr ? nullptr : factors + slot.matrix,
          nullptr,
          rows,
          0,
          0};
}
