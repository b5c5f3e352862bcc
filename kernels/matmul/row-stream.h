// Matmuls of a few tokens with weights that are read once: how a block streams rows of weights through its waves.
// A team of SPLIT waves works on ROWS rows at a time; its lanes take every (SPLIT × WAVE)th weight block. DEPTH weight
// blocks of each row are on their way to a lane while it works on earlier ones, also across the border from one pass of
// rows to the next, and the first are asked for before the inputs are there.
//
// A row's sum depends on its weight blocks, SPLIT and WAVE alone: a lane adds its weight blocks in order, lanes are
// added pairwise from the farthest to the nearest, teams in the order of their waves. So it is the same to the bit for
// every number of tokens, and every multiplication that is followed by an addition is written as one fma.
//
// What is streamed is a Source: Raw fetch(row, weight_blocks, weight_block), Decoded decode(raw, weight_block), Operand
// load(inputs, token, weight_block, inside) and float dot(decoded, operand, sum); weight_blocks(width) (blocks of 32
// weights, or whatever it loads at a time), row_bytes(width), most_depth, past which its registers would cost more than they
// hide, and loads_inputs: whether load() reads memory off the chip.
#pragma once
#include "device/activation.h"
#include "rows/prepared-row.h"
#include "weights/weights.h"

#ifndef THREADS
#define THREADS 128
#endif
/** Rows that a team streams together: their inputs are read once. */
#ifndef ROWS
#define ROWS 2
#endif
/** Waves that share a row, where rows are few. */
#ifndef SPLIT
#define SPLIT 1
#endif
/** Weight blocks of a row that are on their way to a lane, at most. */
#ifndef DEPTH
#define DEPTH 4
#endif
/**
 * Columns of every row, where the kernel is for one width: then no address depends on a run-time number but the row's.
 */
#ifndef WIDTH
#define WIDTH 0
#endif
/** Type of the biases: 0 (F32), 1 (F16) or 30 (BF16). */
#ifndef BIAS_TYPE
#define BIAS_TYPE 0
#endif

// On AMD, loads arrive in the order in which they were asked for, so a wait for the inputs is a wait for all weights that
// were asked for before: inputs come first there, which is possible because no launch begins before the one before it has
// ended. And its compilers copy a slot of the ring to another register for the next turn of a loop, which waits for it in
// the turn that asked for it: where the width is known, the turns are written out. A test may choose the other order.
#ifndef INPUTS_FIRST
#if defined(__CUDA_ARCH__)
#define INPUTS_FIRST 0
#else
#define INPUTS_FIRST 1
#endif
#endif

/** Where loads keep their order, one slot would be asked for and waited for in turns. */
constexpr int kDepth = INPUTS_FIRST && DEPTH < 2 ? 2 : DEPTH;
constexpr int kRingUnroll = INPUTS_FIRST ? 8 : 1;
constexpr int kRowUnroll = WIDTH > 0 ? kRingUnroll : 1;

constexpr int kStreamWaves = THREADS / WAVE;
constexpr int kTeamWaves = SPLIT < kStreamWaves ? SPLIT : kStreamWaves;
constexpr int kTeams = kStreamWaves / kTeamWaves;
/** Rows of one pass of a block: a block makes passes × kPassRows rows. */
constexpr int kPassRows = kTeams * ROWS;
constexpr int kSweepBlocks = kTeamWaves * WAVE;
/** Rows of out whose quantized form one block writes. */
constexpr int kQuantizedRows = 32;

DEVICE constexpr int least(int left, int right) { return left < right ? left : right; }

#include "matmul/row-results.h"

template <typename Source, int Depth>
struct Flight {
  typename Source::Raw raw[Depth][ROWS];
  const u8* rows[ROWS];
};

/** Rows past the last read the last: what comes of them is not written. */
template <typename Source, int Depth>
DEVICE void aim(Flight<Source, Depth>& flight, const Matmul& matmul, u64 row_bytes, int row) {
#pragma unroll
  for (int r = 0; r < ROWS; r++) flight.rows[r] = matmul.weights + u64(min(row + r, matmul.rows - 1)) * row_bytes;
}

/** Whether the last sweep of a row is as full as the others, as far as the compiler can tell. */
template <typename Source>
DEVICE constexpr bool sweeps_whole() {
  return WIDTH > 0 && Source::weight_blocks(WIDTH) % kSweepBlocks == 0;
}

/** Whether it is a whole number of turns of Depth sweeps. */
template <typename Source, int Depth>
DEVICE constexpr bool rounds_whole() {
  return sweeps_whole<Source>() && Source::weight_blocks(WIDTH) / kSweepBlocks % Depth == 0;
}

template <typename Source>
DEVICE int inside_row(int weight_block, int weight_blocks) {
  return sweeps_whole<Source>() ? weight_block : min(weight_block, weight_blocks - 1);
}

template <typename Source, int Depth>
DEVICE void fetch(Flight<Source, Depth>& flight, int slot, int weight_blocks, int weight_block) {
#pragma unroll
  for (int r = 0; r < ROWS; r++)
    flight.raw[slot][r] = Source::fetch(flight.rows[r], weight_blocks, inside_row<Source>(weight_block, weight_blocks));
}

// Each kind of inputs has its own. Named here so that nothing of the same name in a header, which a compiler may have
// put before this, is taken for them.
template <typename Inputs>
DEVICE void arrive(Inputs& inputs);
/** What is read of the inputs before the weights, where they come first; arrive(inputs, asked) makes the rest of it. */
struct NothingAsked {};
template <typename Inputs>
DEVICE NothingAsked ask(const Inputs&) {
  return {};
}
template <typename Inputs>
DEVICE void arrive(Inputs& inputs, const NothingAsked&) {
  arrive(inputs);
}
template <typename Inputs>
DEVICE float row_factor(const Inputs& inputs, int token);
/** A factor of a token's results with their biases: the weight of an expert. Inputs without one have none. */
template <typename Inputs>
DEVICE float result_factor(const Inputs&, int) {
  return 1.0f;
}
/** Where a token's results begin. */
template <typename Inputs>
DEVICE u64 result_place(const Inputs& inputs, int token, int stride) {
  return u64(inputs.first_token + token) * u64(stride);
}

/** Rows first_row on of one matmul, or of gate (`a`) and up (`b`). Inputs: live and first_token, arrive(inputs), which
 *  waits for the launches before this one, and then row_factor(inputs, token), a factor of that token's results. All
 *  threads of the block come here. */
template <int Tokens, bool Gated, typename A, typename B, typename Inputs>
DEVICE void stream_rows(const Matmul& a, const Matmul& b, int width, int first_row, int passes, Inputs& inputs,
                        const QuantizedTarget& quantized) {
  constexpr int Sums = ROWS * Tokens;
  constexpr int Depth = least(kDepth, least(A::most_depth, B::most_depth));
  SHARED float partial[2][Gated ? 2 : 1][kStreamWaves][Sums];
  SHARED float results[Gated ? Tokens * kQuantizedRows : 1];
  const int team = wave_index() / kTeamWaves;
  const int first_weight_block = wave_index() % kTeamWaves * WAVE + lane_index();
  const int weight_blocks = A::weight_blocks(width);
  const int sweeps = (weight_blocks + kSweepBlocks - 1) / kSweepBlocks;
  const u64 a_bytes = A::row_bytes(width), b_bytes = B::row_bytes(width);
  // The sum that this lane takes to its end.
  const int index = lane_index() * Sums / WAVE;
  const int token = index / ROWS, r = index % ROWS;
  const bool writes = lane_index() % (WAVE / Sums) == 0 && wave_index() % kTeamWaves == 0 && token < inputs.live;
  int row = first_row + team * ROWS;

#if INPUTS_FIRST
  const auto asked = ask(inputs);
  keep_load_order();
  if (A::loads_inputs && Tokens == 1) arrive(inputs, asked);
#endif
  // Inputs that come from memory for every weight block are asked for with it, or waiting for them would empty the ring.
  constexpr bool Prefetched = INPUTS_FIRST && A::loads_inputs && Tokens == 1;
  typename A::Operand prefetched[Prefetched ? Depth : 1];
  const auto ask_input = [&](int slot, int wanted) INLINE_LAMBDA {
    if (!Prefetched) return;
    prefetched[Prefetched ? slot : 0] =
        A::load(inputs, 0, inside_row<A>(wanted, weight_blocks), sweeps_whole<A>() || wanted < weight_blocks);
  };
  Flight<A, Depth> a_flight;
  Flight<B, Depth> b_flight;
  aim(a_flight, a, a_bytes, row);
  if (Gated) aim(b_flight, b, b_bytes, row);
#pragma unroll
  for (int slot = 0; slot < Depth; slot++) {
    if (slot >= sweeps) continue;
    ask_input(slot, slot * kSweepBlocks + first_weight_block);
    fetch(a_flight, slot, weight_blocks, slot * kSweepBlocks + first_weight_block);
    if (Gated) fetch(b_flight, slot, weight_blocks, slot * kSweepBlocks + first_weight_block);
  }
#if INPUTS_FIRST
  keep_load_order();
  if (!Prefetched) arrive(inputs, asked);
#else
  arrive(inputs);
#endif
  const float factor = writes ? row_factor(inputs, token) : 1.0f;

  /** `more_passes`: then asks for the first weights of the next pass. */
  const auto stream_pass = [&](int pass, bool more_passes) INLINE_LAMBDA {
    float a_sums[Sums], b_sums[Sums];
#pragma unroll
    for (int i = 0; i < Sums; i++) a_sums[i] = b_sums[i] = 0;
    const bool stores = writes && row + r < a.rows;
    Epilogue a_epilogue = {}, b_epilogue = {};
    if (stores) {
      a_epilogue = load_epilogue(a, inputs.first_token + token, row + r);
      a_epilogue.factor *= factor;
      a_epilogue.bias *= result_factor(inputs, token);
      if (Gated) b_epilogue = load_epilogue(b, inputs.first_token + token, row + r);
      if (Gated) b_epilogue.factor *= factor;
      if (Gated) b_epilogue.bias *= result_factor(inputs, token);
    }
    const int asked_block = anew(first_weight_block);
#pragma unroll(kRowUnroll)
    for (int sweep = 0; sweep < sweeps; sweep += Depth) {
      const bool last = sweep + Depth >= sweeps;
      const bool more = !last || more_passes;
      if (last && more) {
        aim(a_flight, a, a_bytes, row + kPassRows);
        if (Gated) aim(b_flight, b, b_bytes, row + kPassRows);
      }
      const int next = last ? 0 : sweep + Depth;
#pragma unroll
      for (int slot = 0; slot < Depth; slot++) {
        if (rounds_whole<A, Depth>() || sweep + slot < sweeps) {
          const int wanted = (sweep + slot) * kSweepBlocks + first_weight_block;
          const int weight_block = inside_row<A>(wanted, weight_blocks);
          const bool inside = sweeps_whole<A>() || wanted < weight_blocks;
          typename A::Decoded a_values[ROWS];
          typename B::Decoded b_values[ROWS];
#pragma unroll
          for (int i = 0; i < ROWS; i++) {
            // A decoder looks at the weight block's place among eight only, which is a lane's own in every sweep.
            a_values[i] = A::decode(a_flight.raw[slot][i], first_weight_block);
            if (Gated) b_values[i] = B::decode(b_flight.raw[slot][i], first_weight_block);
          }
#pragma unroll
          for (int t = 0; t < Tokens; t++) {
            const typename A::Operand operand =
                Prefetched ? prefetched[Prefetched ? slot : 0] : A::load(inputs, t, weight_block, inside);
#pragma unroll
            for (int i = 0; i < ROWS; i++) a_sums[t * ROWS + i] = A::dot(a_values[i], operand, a_sums[t * ROWS + i]);
            if (!Gated) continue;
            const typename B::Operand b_operand = Prefetched ? operand : B::load(inputs, t, weight_block, inside);
#pragma unroll
            for (int i = 0; i < ROWS; i++) b_sums[t * ROWS + i] = B::dot(b_values[i], b_operand, b_sums[t * ROWS + i]);
          }
        }
#pragma unroll
        for (int i = 0; i < Sums; i++) {
          settle(a_sums[i]);
          if (Gated) settle(b_sums[i]);
        }
        keep_load_order();
        if (more && (rounds_whole<A, Depth>() || next + slot < sweeps)) {
          ask_input(slot, (next + slot) * kSweepBlocks + asked_block);
          fetch(a_flight, slot, weight_blocks, (next + slot) * kSweepBlocks + asked_block);
          if (Gated) fetch(b_flight, slot, weight_blocks, (next + slot) * kSweepBlocks + asked_block);
        }
        keep_load_order();
      }
    }
    float a_sum = spread_sums(a_sums), b_sum = 0;
    if (Gated) b_sum = spread_sums(b_sums);
    if (kTeamWaves > 1) {
      // Two buffers in turn: a wave that is a pass further does not write what others still read.
      float (*const shared)[kStreamWaves][Sums] = partial[pass & 1];
      shared[0][wave_index()][index] = a_sum;
      if (Gated) shared[1][wave_index()][index] = b_sum;
      barrier();
      a_sum = b_sum = 0;
#pragma unroll
      for (int wave = 0; wave < kTeamWaves; wave++) {
        a_sum += shared[0][team * kTeamWaves + wave][index];
        if (Gated) b_sum += shared[1][team * kTeamWaves + wave][index];
      }
    }
    if (!stores) return;
    float value = apply_epilogue(a_epilogue, a_sum);
    if (Gated) value = gated_unit(value, apply_epilogue(b_epilogue, b_sum));
    if (Gated && quantized.values != nullptr) {
      results[token * kQuantizedRows + (row + r - first_row) % kQuantizedRows] = value;
    } else {
      a.out[result_place(inputs, token, a.stride) + u64(row + r)] = value;
    }
  };
#if INPUTS_FIRST
  // The last pass for itself: where ways meet of which only one asks for more, waits are for the shorter one.
  for (int pass = 0; pass + 1 < passes; pass++, row += kPassRows) stream_pass(pass, true);
  stream_pass(passes - 1, false);
#else
  for (int pass = 0; pass < passes; pass++, row += kPassRows) stream_pass(pass, pass + 1 < passes);
#endif
  if (!Gated || quantized.values == nullptr) return;
  barrier();
  write_quantized_columns<Tokens>(results, quantized, inputs.first_token, inputs.live, first_row);
}
