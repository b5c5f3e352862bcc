// Depthwise causal convolution along each sequence, with the inputs before the step from its state: the last TAPS − 1
// inputs, the oldest first. One thread a column. The block of a run's first token computes all tokens that need the state
// and alone overwrites the slot that the run reads, after it has read it; the others have a token each.
// TAPS; WEIGHT_TYPE and BIAS_TYPE 0 (F32), 1 (F16), 30 (BF16), BIAS_TYPE -1: no bias; SILU 1: SiLU of the result.
// Grid: ⌈columns ÷ 256⌉ × one for each token there may be.
//
// v1  Not measured yet.
#include "device/activation.h"
#include "recurrent/state.h"

constexpr int kThreads = 256;
constexpr int kTaps = TAPS;
/** Inputs that the state holds. */
constexpr int kKept = TAPS - 1;

struct CausalConvArguments {
  const StepHead* step;
  const StateRun* runs;
  const int* state_writes;
  u64 state_offset;
  u64 slot_stride;
  const int* sequences;
  const float* input;
  const u8* weight;
  const u8* bias;
  float* out;
  int width;
  int input_stride;
  int out_stride;
};

/** The inputs of one column up to a token's, the oldest first. */
struct Window {
  float at[kTaps];
};

/** The weights of one column. */
struct Filter {
  float at[kTaps];
  float bias;
};

DEVICE Filter filter_of(const CausalConvArguments& a, int column) {
  Filter result = {};
#pragma unroll
  for (int tap = 0; tap < kTaps; tap++) result.at[tap] = element_of<WEIGHT_TYPE>(a.weight, column * kTaps + tap);
#if BIAS_TYPE >= 0
  result.bias = element_of<BIAS_TYPE>(a.bias, column);
#endif
  return result;
}

DEVICE float input_at(const CausalConvArguments& a, int row, int column) {
  return a.input[u64(row) * u64(a.input_stride) + u64(column)];
}

/** Of a token that has TAPS − 1 tokens of its run before it. */
DEVICE Window window_at(const CausalConvArguments& a, int row, int column) {
  Window result;
#pragma unroll
  for (int tap = 0; tap < kTaps; tap++) result.at[tap] = input_at(a, row - kKept + tap, column);
  return result;
}

DEVICE void push_input(Window& window, float input) {
#pragma unroll
  for (int tap = 0; tap < kKept; tap++) window.at[tap] = window.at[tap + 1];
  window.at[kKept] = input;
}

DEVICE void convolve(const CausalConvArguments& a, const Filter& filter, const Window& window, int row, int column) {
  float sum = filter.bias;
#pragma unroll
  for (int tap = 0; tap < kTaps; tap++) sum = fma(filter.at[tap], window.at[tap], sum);
  a.out[u64(row) * u64(a.out_stride) + u64(column)] = SILU ? sum * sigmoid(sum) : sum;
}

/** The state after a token, if it is wanted. */
DEVICE void keep_inputs(const CausalConvArguments& a, const Window& window, int row, int column) {
  const int slot = a.state_writes[row];
  if (slot < 0) return;
  float* const state = state_in(a, slot) + column;
#pragma unroll
  for (int place = 0; place < kKept; place++) state[place * a.width] = window.at[place + 1];
}

KERNEL(causal_conv, CausalConvArguments, kThreads) {
  dependency_release();
  const int row = block_y(), column = block_x() * kThreads + thread_index();
  if (row >= a.step->tokens || column >= a.width) return;
  const StateRun run = a.runs[a.sequences[row]];
  const int index = row - run.first;
  if (index > 0 && index < kKept) return;
  const Filter filter = filter_of(a, column);
  if (index > 0) {
    dependency_wait();
    const Window window = window_at(a, row, column);
    convolve(a, filter, window, row, column);
    if (row != run.rewriting) keep_inputs(a, window, row, column);
    return;
  }
  Window window = {};
  if (run.read >= 0) {
    const float* const state = state_in(a, run.read) + column;
#pragma unroll
    for (int place = 0; place < kKept; place++) window.at[place + 1] = state[place * a.width];
  }
  dependency_wait();
  const int end = row + (kKept < 1 ? 1 : min(kKept, run.count));
  for (int token = row; token < end; token++) {
    push_input(window, input_at(a, token, column));
    convolve(a, filter, window, token, column);
    keep_inputs(a, window, token, column);
  }
  if (run.rewriting >= end) keep_inputs(a, window_at(a, run.rewriting, column), run.rewriting, column);
}
