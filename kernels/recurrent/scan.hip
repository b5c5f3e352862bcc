// The scan of Mamba-2: for each head with B and C of its group, S the state's matrix [state column × head column],
//   Δ = softplus(step + bias),   S ← exp(Δ × decay) × S + B ⊗ Δx,   out = SᵀC + skip × x
// A block has columns of S for all tokens of a sequence (recurrent/columns.h).
// STATE_WIDTH, HEAD_WIDTH, HEADS, GROUPS. SLICE: recurrent/columns.h. CHUNK, ALIGNED: recurrent/run.h.
// Grid: HEADS × slices of columns, × one for each sequence there may be.
//
// v1  Not measured yet.
#define LINES STATE_WIDTH
#define COLUMNS HEAD_WIDTH
#include "device/softplus.h"
#include "recurrent/run.h"

struct SsmScanArguments {
  const StepHead* step;
  const StateRun* runs;
  const int* state_writes;
  u64 state_offset;
  u64 slot_stride;
  const float* input;
  const float* left;
  const float* right;
  const float* decay;
  const float* bias;
  const float* skip;
  float* out;
  int input_stride;
  int left_stride;
  int right_stride;
  int out_stride;
};

struct SsmScan {
  static constexpr bool kPrepares = false;

  DEVICE Gates gates(const SsmScanArguments& a, int head, float step, float) {
    const float delta = softplus(step + a.bias[head]);
    return {decay_factor(delta * a.decay[head]), delta, 0};
  }

  DEVICE void prepare(const SsmScanArguments&, Chunk&, int) {}

  DEVICE void apply(const SsmScanArguments& a, int head, HeldColumns& held, const Chunk& chunk, int token,
                    float (&out)[kLaneColumns]) {
    const HeldLines b = held_lines(chunk.first[token]), c = held_lines(chunk.second[token]);
    const Gates gates = chunk.gates[token];
    float added[kLaneColumns], read[kLaneColumns] = {};
#pragma unroll
    for (int column = 0; column < kLaneColumns; column++)
      added[column] = gates.rate * chunk.values[token][first_column() + column];
    update_columns(held, gates.kept, b, added);
    add_dots(held, c, read);
#pragma unroll
    for (int column = 0; column < kLaneColumns; column++)
      out[column] =
          fma(a.skip[head], chunk.values[token][first_column() + column], wave_sum<kColumnLanes>(read[column]));
  }
};

KERNEL(ssm_scan, SsmScanArguments, kThreads) {
  dependency_release();
  const int sequence = block_y(), head = block_x() / kSlices, slice = block_x() % kSlices;
  if (sequence >= a.step->sequences) return;
  const StateRun run = a.runs[sequence];
  const float* const matrix = run.read < 0 ? nullptr : state_in(a, run.read) + head * (kMatrixLines * kMatrixColumns);
  HeldColumns held = load_columns(matrix, slice);
  const int group = head / (HEADS / GROUPS);
  const float* const groups = a.input + HEADS * HEAD_WIDTH + group * STATE_WIDTH;
  const HeadPlaces places = {groups, groups + GROUPS * STATE_WIDTH, a.input + head * HEAD_WIDTH + slice * kBlockColumns,
                             head};
  dependency_wait();
  run_tokens<SsmScan>(a, run, places, held);
}
