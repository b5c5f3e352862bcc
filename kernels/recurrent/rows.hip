// A row that passes from one token of a sequence to the next, as the state of one row: the row of the token before each
// one, the first token's from the state; and the write of the state after the tokens that the step names.
// Grid: ⌈width ÷ 1024⌉ × one for each token there may be, a thread a quad.
//
// v1  Not measured yet.
#include "device/quad.h"
#include "recurrent/state.h"

constexpr int kThreads = 256;

/** `input` may be null: all tokens of a run get the state. */
struct PreviousRowsArguments {
  const StepHead* step;
  const StateRun* runs;
  const int* state_writes;
  u64 state_offset;
  u64 slot_stride;
  const int* sequences;
  const float* input;
  float* out;
  int width;
  int input_stride;
  int out_stride;
};

KERNEL(previous_rows, PreviousRowsArguments, kThreads) {
  dependency_release();
  const int row = block_y(), quad = block_x() * kThreads + thread_index();
  if (row >= a.step->tokens) return;
  const StateRun run = a.runs[a.sequences[row]];
  dependency_wait();
  Quad values = {{0, 0, 0, 0}};
  if (a.input != nullptr && row > run.first)
    values = read_quad(row_of(a.input, row - 1, a.input_stride, a.width), quad);
  else if (run.read >= 0)
    values = read_quad(row_of(state_in(a, run.read), a.width), quad);
  write_quad(row_of(a.out, row, a.out_stride, a.width), quad, values);
}

struct StateRowsArguments {
  const StepHead* step;
  const StateRun* runs;
  const int* state_writes;
  u64 state_offset;
  u64 slot_stride;
  const float* input;
  int width;
  int input_stride;
};

KERNEL(state_rows, StateRowsArguments, kThreads) {
  dependency_release();
  const int row = block_y(), quad = block_x() * kThreads + thread_index();
  dependency_wait();
  if (row >= a.step->tokens || a.state_writes[row] < 0) return;
  const Quad values = read_quad(row_of(a.input, row, a.input_stride, a.width), quad);
  write_quad(row_of(state_in(a, a.state_writes[row]), a.width), quad, values);
}
