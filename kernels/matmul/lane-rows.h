// Matmuls of one token in which a lane has one block of the input row for good: as many waves share a row of weights as the row
// has blocks for (SPLIT × WAVE lanes are enough for all of them), so that a lane's part of the input is read once, straight to
// registers, and nothing of it goes through shared memory. ROWS rows of weights are on their way to a lane; as soon as one
// of them is used, the same row of the next pass is asked for. One barrier for a block, before its results.
//
// A row's sum is that of matmul/row-stream.h with the same SPLIT: lanes pairwise, waves in order.
// LANES 1: of matmul/gemv.hip for one token. WIDTH is the input's; STAGED and NORMED are 0; SPLIT is ⌈WIDTH ÷ (32 × WAVE)⌉.
//   PASSES: of a block, which has kLaneRows rows in all.
//   PREPARED 1: the input is a row times the weights of its norm, and `squares` the sums of squares of its blocks of 32, all
//     left there by the launch before: the root mean square is a factor of the results.
//   HANDED 1: the results (with their residual) leave in the same way for the norm of the next matmul, besides as floats.
//     HANDED_TYPE: of that norm's weights, as BIAS_TYPE.
// v1 as above. A block's rows on their way fill its registers (about 110 KB a multiprocessor); with half of them gate and up take
// 25 instead of 17.9 µs on an H200. matmul/gemv.hip has the figures of steps.
#pragma once
#include "matmul/quantized-source.h"

#ifndef PASSES
#define PASSES 1
#endif
#ifndef PREPARED
#define PREPARED 0
#endif
#ifndef HANDED
#define HANDED 0
#endif
#ifndef HANDED_TYPE
#define HANDED_TYPE 0
#endif

constexpr int kLaneTeamRows = PASSES * ROWS;
constexpr int kLaneRows = kTeams * kLaneTeamRows;
static_assert(!LANES || (WIDTH > 0 && kTeamWaves * kTeams == kStreamWaves && kTeamWaves * WAVE * 32 >= WIDTH),
              "a lane for each block of a row, and whole teams");
static_assert(!LANES || kLaneRows <= THREADS, "a thread for each result");

template <typename Source>
DEVICE typename Source::Raw fetch_lane(const Matmul& matmul, int row, int weight_block) {
  const u8* const place = matmul.weights + u64(min(row, matmul.rows - 1)) * Source::row_bytes(WIDTH);
  return Source::fetch(place, Source::weight_blocks(WIDTH), weight_block);
}

/** A lane's part of 1 ÷ the root mean square: the sum of every WAVEth. */
DEVICE float lane_squares(const float* squares) {
  float sum = 0;
#pragma unroll
  for (int block = 0; block < WIDTH / 32; block += WAVE) {
    if (WIDTH / 32 % WAVE == 0 || block + lane_index() < WIDTH / 32) sum += squares[block + lane_index()];
  }
  return sum;
}

/** What the last threads of a block need beside its sums. */
struct LaneEnd {
  Epilogue first;
  Epilogue second;
  float handed_weight;
  float squares;
};

/** Rows `first_row` on, kLaneRows of them, of one matmul, or of gate (`a`) and up (`b`). All threads of the block come here. */
template <bool Gated, typename A, typename B, typename Arguments>
DEVICE void stream_lanes(const Arguments& arguments, const Matmul& a, const Matmul& b, int first_row,
                         const QuantizedInputs& inputs) {
  SHARED float partial[Gated ? 2 : 1][kStreamWaves][kLaneTeamRows];
  const int team_row = first_row + wave_index() / kTeamWaves * kLaneTeamRows;
  const int wanted = wave_index() % kTeamWaves * WAVE + lane_index();
  const int weight_block = inside_row<A>(wanted, A::weight_blocks(WIDTH));
  typename A::Raw a_raw[ROWS];
  typename B::Raw b_raw[Gated ? ROWS : 1];
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    a_raw[r] = fetch_lane<A>(a, team_row + r, weight_block);
    if (Gated) b_raw[r] = fetch_lane<B>(b, team_row + r, weight_block);
  }
  // The threads that make results of sums, whole waves.
  const bool ends = wave_index() * WAVE < kLaneRows;
  const int row = first_row + thread_index();
  const bool stores = thread_index() < kLaneRows && row < a.rows && *arguments.row_count > 0;
  LaneEnd end = {};
  if (HANDED && stores) end.handed_weight = Plain<HANDED_TYPE>::value(arguments.handed_norm, row);
  dependency_wait();

  const QuantizedOperand operand =
      A::load(inputs, 0, weight_block, sweeps_whole<A>() || wanted < A::weight_blocks(WIDTH));
  QuantizedOperand b_operand = operand;
  if (Gated && A::Weights::group_chunks != B::Weights::group_chunks)
    b_operand = B::load(inputs, 0, weight_block, sweeps_whole<B>() || wanted < B::weight_blocks(WIDTH));
  if (stores) {
    end.first = load_epilogue(a, 0, row);
    if (Gated) end.second = load_epilogue(b, 0, row);
  }
  if (PREPARED && ends) end.squares = lane_squares(arguments.squares);

#pragma unroll 1
  for (int pass = 0; pass < PASSES; pass++) {
    float a_sums[ROWS], b_sums[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
      a_sums[r] = A::dot(A::decode(a_raw[r], weight_block), operand, 0.0f);
      b_sums[r] = Gated ? B::dot(B::decode(b_raw[Gated ? r : 0], weight_block), b_operand, 0.0f) : 0.0f;
      if (pass + 1 < PASSES) {
        const int next = team_row + (pass + 1) * ROWS + r;
        a_raw[r] = fetch_lane<A>(a, next, weight_block);
        if (Gated) b_raw[Gated ? r : 0] = fetch_lane<B>(b, next, weight_block);
      }
    }
    const float a_sum = spread_sums(a_sums), b_sum = Gated ? spread_sums(b_sums) : 0.0f;
    if (lane_index() % (WAVE / ROWS) == 0) {
      const int place = pass * ROWS + lane_index() / (WAVE / ROWS);
      partial[0][wave_index()][place] = a_sum;
      if (Gated) partial[Gated][wave_index()][place] = b_sum;
    }
  }
  barrier();
  if (!ends) return;

  const int index = min(thread_index(), kLaneRows - 1);
  const int team = index / kLaneTeamRows, place = index % kLaneTeamRows;
  float a_sum = 0, b_sum = 0;
#pragma unroll
  for (int wave = 0; wave < kTeamWaves; wave++) {
    a_sum += partial[0][team * kTeamWaves + wave][place];
    if (Gated) b_sum += partial[Gated][team * kTeamWaves + wave][place];
  }
  if (PREPARED) {
    const float factor = reciprocal_root(wave_sum(end.squares) / float(WIDTH) + arguments.norm_epsilon);
    end.first.factor *= factor;
    end.second.factor *= factor;
  }
  float value = apply_epilogue(end.first, a_sum);
  if (Gated) value = gated_unit(value, apply_epilogue(end.second, b_sum));
  const bool quantizes = HANDED || (Gated && arguments.quantized_values != nullptr);
  if (stores && (HANDED || !quantizes)) a.out[row] = value;
  if (!quantizes) return;
  if (HANDED) {
    const float squares = wave_sum<32>(stores ? value * value : 0.0f);
    if (stores && row % 32 == 0) arguments.handed_squares[row / 32] = squares;
    value *= end.handed_weight;
  }
  const QuantizedPlace target =
      quantized_place(arguments.quantized_values, arguments.quantized_scales, arguments.quantized_sums, 0, a.rows);
  write_quantized_column(target, row, stores, value);
}
