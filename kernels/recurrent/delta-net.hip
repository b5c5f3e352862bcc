// Gated delta net: for each value head with its key head, S the state's matrix [key column × value column],
//   S ← exp(g) × S,   d = σ(beta) × (v − Sᵀk),   S ← S + k ⊗ d,   out = Sᵀq ÷ √HEAD_WIDTH
// with k and q divided by max(‖·‖, epsilon) and g = decay × softplus(alpha + bias). A block has columns of S for all tokens
// of a sequence (recurrent/columns.h). Both products are with the S before the token, so that they are added up together:
// Sᵀq after it is exp(g) × Sᵀq before it + (k · q) × d.
// HEAD_WIDTH, KEY_HEADS, VALUE_HEADS. GROUPED 1: neighbouring value heads share a key head; 0: value head h has key head
// h mod KEY_HEADS. SLICE: recurrent/columns.h. CHUNK, ALIGNED: recurrent/run.h.
// Grid: VALUE_HEADS × slices of columns, × one for each sequence there may be.
//
// v1  one column of 128 in 16 lanes was not tried; two columns in 8 lanes halve the reads of k and q from shared memory.
//     Not measured yet.
#define LINES HEAD_WIDTH
#define COLUMNS HEAD_WIDTH
#include "device/softplus.h"
#include "recurrent/run.h"

struct DeltaNetArguments {
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
  float* out;
  int input_stride;
  int left_stride;
  int right_stride;
  int out_stride;
  float epsilon;
  float scale;
};

/** 1 ÷ max(norm, epsilon). */
DEVICE float inverse_norm(float squares, float epsilon) {
  return squares > epsilon * epsilon ? reciprocal_root(squares) : 1.0f / epsilon;
}

struct DeltaNet {
  static constexpr bool kPrepares = true;

  DEVICE Gates gates(const DeltaNetArguments& a, int head, float alpha, float beta) {
    return {decay_factor(a.decay[head] * softplus(alpha + a.bias[head])), sigmoid(beta), 0};
  }

  /** Norms the query and the key of a token; −1: the lanes of no token come along. */
  DEVICE void prepare(const DeltaNetArguments& a, Chunk& chunk, int token) {
    constexpr int Held = (kPaddedLines + kTokenLanes - 1) / kTokenLanes;
    const int lane = thread_index() % kTokenLanes;
    float query[Held], key[Held];
    float query_squares = 0, key_squares = 0, overlap = 0;
#pragma unroll
    for (int i = 0; i < Held; i++) {
      const int line = i * kTokenLanes + lane;
      const bool inside = token >= 0 && line < kPaddedLines;
      query[i] = inside ? chunk.first[token][line] : 0.0f;
      key[i] = inside ? chunk.second[token][line] : 0.0f;
      query_squares = fma(query[i], query[i], query_squares);
      key_squares = fma(key[i], key[i], key_squares);
    }
    const float query_inverse = inverse_norm(wave_sum<kTokenLanes>(query_squares), a.epsilon);
    const float key_inverse = inverse_norm(wave_sum<kTokenLanes>(key_squares), a.epsilon);
#pragma unroll
    for (int i = 0; i < Held; i++) {
      query[i] *= query_inverse;
      key[i] *= key_inverse;
      overlap = fma(query[i], key[i], overlap);
    }
    overlap = wave_sum<kTokenLanes>(overlap);
    if (token < 0) return;
#pragma unroll
    for (int i = 0; i < Held; i++) {
      const int line = i * kTokenLanes + lane;
      if (line >= kPaddedLines) continue;
      chunk.first[token][line] = query[i];
      chunk.second[token][line] = key[i];
    }
    if (lane == 0) chunk.gates[token].overlap = overlap;
  }

  DEVICE void apply(const DeltaNetArguments& a, int, HeldColumns& held, const Chunk& chunk, int token,
                    float (&out)[kLaneColumns]) {
    const HeldLines query = held_lines(chunk.first[token]), key = held_lines(chunk.second[token]);
    const Gates gates = chunk.gates[token];
    float recalled[kLaneColumns] = {}, read[kLaneColumns] = {}, difference[kLaneColumns];
    add_dots(held, key, recalled);
    add_dots(held, query, read);
#pragma unroll
    for (int c = 0; c < kLaneColumns; c++) {
      recalled[c] = wave_sum<kColumnLanes>(recalled[c]);
      read[c] = wave_sum<kColumnLanes>(read[c]);
      difference[c] = gates.rate * fma(-gates.kept, recalled[c], chunk.values[token][first_column() + c]);
      out[c] = fma(gates.overlap, difference[c], gates.kept * read[c]) * a.scale;
    }
    update_columns(held, gates.kept, key, difference);
  }
};

KERNEL(delta_net, DeltaNetArguments, kThreads) {
  dependency_release();
  const int sequence = block_y(), head = block_x() / kSlices, slice = block_x() % kSlices;
  if (sequence >= a.step->sequences) return;
  const StateRun run = a.runs[sequence];
  const float* const matrix = run.read < 0 ? nullptr : state_in(a, run.read) + head * (kMatrixLines * kMatrixColumns);
  HeldColumns held = load_columns(matrix, slice);
  const int key_head = GROUPED ? head / (VALUE_HEADS / KEY_HEADS) : head % KEY_HEADS;
  const HeadPlaces places = {a.input + key_head * HEAD_WIDTH, a.input + (KEY_HEADS + key_head) * HEAD_WIDTH,
                             a.input + (2 * KEY_HEADS + head) * HEAD_WIDTH + slice * kBlockColumns, head};
  dependency_wait();
  run_tokens<DeltaNet>(a, run, places, held);
}
