// Depthwise causal convolution along each sequence, with the inputs before the step from its state: the last TAPS − 1
// inputs, the oldest first. A thread has VECTOR neighbouring columns of TILE tokens. The thread with a run's first
// token computes all tokens that need the state and alone overwrites the slot that the run reads, after it has read it. Tiles
// inside of a run, which is most of a prompt, read all their inputs at once; what is computed is the same to the bit.
// TAPS; WEIGHT_TYPE and BIAS_TYPE 0 (F32), 1 (F16), 30 (BF16), BIAS_TYPE -1: no bias; SILU 1: SiLU of the result. VECTOR 1,
// or 4 if rows and places of columns are aligned to 16 bytes. TILE.
// Grid: ⌈columns ÷ (256 × VECTOR)⌉ × ⌈tokens there may be ÷ TILE⌉.
//
// v1  a column of one token a thread. H200, 8,192 columns of 4 taps × 4,096 tokens: 223 µs.
// v2  for long runs four columns of 8 tokens: 11 loads of 16 bytes are on their way at once, and the weights are read once for
//     8 results. 60 µs by bandwidth, 80 expected, 83 found.
#include "device/activation.h"
#include "device/quad.h"
#include "recurrent/state.h"

#ifndef VECTOR
#define VECTOR 1
#endif
#ifndef TILE
#define TILE 1
#endif

constexpr int kThreads = 256;
constexpr int kTaps = TAPS;
/** Inputs that the state holds. */
constexpr int kKept = TAPS - 1;
constexpr int kVector = VECTOR;
constexpr int kTile = TILE;

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

/** The neighbouring columns of a thread. */
struct alignas(4 * kVector) Columns {
  float at[kVector];
};

/** The inputs up to a token's, the oldest first. */
struct History {
  Columns at[kTaps];
};

/** The weights of a thread's columns. */
struct Filter {
  Columns at[kTaps];
  Columns bias;
};

DEVICE Filter filter_of(const CausalConvArguments& a, int column) {
  Filter result = {};
  float weights[kVector * kTaps];
#if WEIGHT_TYPE == 0 && VECTOR == 4
#pragma unroll
  for (int i = 0; i < kTaps; i++) {
    const Quad quad = reinterpret_cast<const Quad*>(a.weight)[column / 4 * kTaps + i];
#pragma unroll
    for (int j = 0; j < 4; j++) weights[i * 4 + j] = quad.at[j];
  }
#else
#pragma unroll
  for (int i = 0; i < kVector * kTaps; i++) weights[i] = element_of<WEIGHT_TYPE>(a.weight, column * kTaps + i);
#endif
#pragma unroll
  for (int tap = 0; tap < kTaps; tap++) {
#pragma unroll
    for (int i = 0; i < kVector; i++) result.at[tap].at[i] = weights[i * kTaps + tap];
  }
#if BIAS_TYPE >= 0
#pragma unroll
  for (int i = 0; i < kVector; i++) result.bias.at[i] = element_of<BIAS_TYPE>(a.bias, column + i);
#endif
  return result;
}

DEVICE Columns input_at(const CausalConvArguments& a, int row, int column) {
  return *reinterpret_cast<const Columns*>(a.input + u64(row) * u64(a.input_stride) + u64(column));
}

/** Of a token that has TAPS − 1 tokens of its run before it. */
DEVICE History history_at(const CausalConvArguments& a, int row, int column) {
  History result;
#pragma unroll
  for (int tap = 0; tap < kTaps; tap++) result.at[tap] = input_at(a, row - kKept + tap, column);
  return result;
}

DEVICE void push_input(History& history, const Columns& input) {
#pragma unroll
  for (int tap = 0; tap < kKept; tap++) history.at[tap] = history.at[tap + 1];
  history.at[kKept] = input;
}

DEVICE void convolve(const CausalConvArguments& a, const Filter& filter, const History& history, int row, int column) {
  Columns sums = filter.bias;
#pragma unroll
  for (int tap = 0; tap < kTaps; tap++) {
#pragma unroll
    for (int i = 0; i < kVector; i++) sums.at[i] = fma(filter.at[tap].at[i], history.at[tap].at[i], sums.at[i]);
  }
#if SILU
#pragma unroll
  for (int i = 0; i < kVector; i++) sums.at[i] *= sigmoid(sums.at[i]);
#endif
  *reinterpret_cast<Columns*>(a.out + u64(row) * u64(a.out_stride) + u64(column)) = sums;
}

/** The state after a token in a slot, if one is named. Slots are aligned to no more than a float. */
DEVICE void keep_inputs(const CausalConvArguments& a, const History& history, int slot, int column) {
  if (slot < 0) return;
  float* const state = state_in(a, slot) + column;
#pragma unroll
  for (int place = 0; place < kKept; place++) {
#pragma unroll
    for (int i = 0; i < kVector; i++) state[place * a.width + i] = history.at[place + 1].at[i];
  }
}

/** The tokens of a run that need its state, and the slot that it reads. */
DEVICE void begin_run(const CausalConvArguments& a, const StateRun& run, const Filter& filter, int column) {
  History history = {};
  if (run.read >= 0) {
    const float* const state = state_in(a, run.read) + column;
#pragma unroll
    for (int place = 0; place < kKept; place++) {
#pragma unroll
      for (int i = 0; i < kVector; i++) history.at[place + 1].at[i] = state[place * a.width + i];
    }
  }
  dependency_wait();
  const int end = run.first + (kKept < 1 ? 1 : min(kKept, run.count));
  for (int token = run.first; token < end; token++) {
    push_input(history, input_at(a, token, column));
    convolve(a, filter, history, token, column);
    keep_inputs(a, history, a.state_writes[token], column);
  }
  if (run.rewriting >= end) keep_inputs(a, history_at(a, run.rewriting, column), a.state_writes[run.rewriting], column);
}

/** A token, with those after it if it is the first of its run, and without those that the first one has computed. */
DEVICE void convolve_token(const CausalConvArguments& a, const StateRun& run, int row, int column) {
  const int index = row - run.first;
  if (index > 0 && index < kKept) return;
  const Filter filter = filter_of(a, column);
  if (index == 0) return begin_run(a, run, filter, column);
  dependency_wait();
  const History history = history_at(a, row, column);
  convolve(a, filter, history, row, column);
  if (row != run.rewriting) keep_inputs(a, history, a.state_writes[row], column);
}

/** A whole tile of tokens that have TAPS − 1 tokens of their run before them. */
DEVICE void convolve_tile(const CausalConvArguments& a, const StateRun& run, int row, int column) {
  const Filter filter = filter_of(a, column);
  dependency_wait();
  Columns inputs[kTile + kKept];
  int slots[kTile];
#pragma unroll
  for (int token = 0; token < kTile; token++)
    slots[token] = row + token == run.rewriting ? -1 : a.state_writes[row + token];
#pragma unroll
  for (int i = 0; i < kTile + kKept; i++) inputs[i] = input_at(a, row - kKept + i, column);
#pragma unroll
  for (int token = 0; token < kTile; token++) {
    History history;
#pragma unroll
    for (int tap = 0; tap < kTaps; tap++) history.at[tap] = inputs[token + tap];
    convolve(a, filter, history, row + token, column);
    keep_inputs(a, history, slots[token], column);
  }
}

KERNEL(causal_conv, CausalConvArguments, kThreads) {
  dependency_release();
  const int first = block_y() * kTile, column = (block_x() * kThreads + thread_index()) * kVector;
  if (first >= a.step->tokens || column >= a.width) return;
  const StateRun run = a.runs[a.sequences[first]];
  if (kTile == 1) return convolve_token(a, run, first, column);
  if (first - run.first < kKept || first + kTile > run.first + run.count) {
    const int end = min(first + kTile, a.step->tokens);
    for (int row = first; row < end; row++) convolve_token(a, a.runs[a.sequences[row]], row, column);
    return;
  }
  convolve_tile(a, run, first, column);
}
