// Matmuls of 1 to 8 tokens with quantised weights: out = quantized rows · weightsᵀ, by int8 dot products
// (matmul/row-stream.h says how). product_rows_N makes N tokens a block; more go along the grid's y axis, to the same
// bits.
// Defines: MATMULS 1 to 4 matrices of one input, TYPE0 … their ggml types; or GATED 1: TYPE0 is the gate, TYPE1 up, and
//   out0 = activation(gate) × up, written as quantized rows instead where quantized_values is given (passes × kPassRows
//   is 32 then).
//   ROWS, SPLIT, DEPTH, THREADS, WIDTH, BIAS_TYPE: matmul/row-stream.h. ACTIVATION, SOFT_CAP: device/activation.h.
//   TOKENS: only the kernel of that many.
//   STAGED 1: the inputs are first copied to shared memory: dynamic, staged_bytes(tokens a block, width).
//   NORMED n: they are normed and quantized there instead, by every block, from f32 rows (matmul/normed-row.h); STAGED is
//   1 then.
//   LANES 1: one token, a lane has its block of the input for good (matmul/lane-rows.h).
// Grid: x = blocks0 + … of ⌈rows ÷ (passes × kPassRows)⌉ each, y = ⌈tokens ÷ N⌉. out0 may be the residual.
// v1 weights in registers four blocks deep across the wait, inputs staged without bank conflicts: 26 µs for 8B's gate
// and up on an H200.
// v2 a kernel for each width, so that addresses are constants: 19.7 µs, 3.4 TB/s in a chain of launches.
// v3 NORMED: norm and quantization inside, for single tokens, where a launch of its own is latency and little else.
// v4 four tokens in at most 128 registers, so that a multiprocessor has four blocks instead of three: a step of four tokens
// of 8B takes 2.8 instead of 3.1 ms, 1.36 to 1.41 times one token instead of 1.51 to 1.55, measured with four blocks for
// Q6_K too, which spills then and now keeps three. With five blocks 3.7 ms.
// v5 LANES on sm_90, with rows that come ready for their norm: all matmuls of a step in one graph with a stand-in for
// attention take 1.50 instead of 1.77 ms (8B Q4_K_M), 2.09 instead of 2.23 (Q8_0), 0.38 instead of 0.535 (1B), 0.36 instead
// of 0.46 (0.5B Q8_0). Gate and up in a chain of launches 17.9 instead of 21.8 µs, down 9.8 instead of 12.0, Q/K/V 4.6
// instead of 7.3.

#ifndef LANES
#define LANES 0
#endif
#define ORDERED_LOADS LANES
#ifndef MATMULS
#define MATMULS 1
#endif
#ifndef GATED
#define GATED 0
#endif
#ifndef TYPE1
#define TYPE1 TYPE0
#endif
#ifndef TYPE2
#define TYPE2 TYPE1
#endif
#ifndef TYPE3
#define TYPE3 TYPE2
#endif

// What a row takes on its way to shared memory must not cost a multiprocessor the fourth block of 128 threads, nor must the
// sums of four tokens; Q5_K (13) and four rows of Q6_K (14) would leave registers for neither.
#define HAS_TYPE(type) (TYPE0 == type || TYPE1 == type || TYPE2 == type || TYPE3 == type)
#if !defined(RESIDENT_BLOCKS) && (LANES || (defined(NORMED) && NORMED) || \
                                  (defined(TOKENS) && TOKENS == 4 && !HAS_TYPE(13) && (GATED || !HAS_TYPE(14))))
#define RESIDENT_BLOCKS (512 / THREADS)
#endif
#include "matmul/lane-rows.h"

struct GemvArguments {
  const i8* values;
  const float* scales;
  const float* sums;
  const float* normed_rows;
  const u8* norm_weight;
  const int* row_count;
  const u8* weights0;
  const u8* weights1;
  const u8* weights2;
  const u8* weights3;
  float* out0;
  float* out1;
  float* out2;
  float* out3;
  const u8* bias0;
  const u8* bias1;
  const u8* bias2;
  const u8* bias3;
  const float* factor0;
  const float* factor1;
  const float* factor2;
  const float* factor3;
  const float* residual;
  i8* quantized_values;
  float* quantized_scales;
  float* quantized_sums;
  const float* squares;
  float* handed_squares;
  const u8* handed_norm;
  float norm_epsilon;
  int normed_stride;
  int width;
  int rows0;
  int rows1;
  int rows2;
  int rows3;
  int stride0;
  int stride1;
  int stride2;
  int stride3;
  int residual_stride;
  int blocks0;
  int blocks1;
  int blocks2;
  int passes;
};

DEVICE int width_of(const GemvArguments& a) { return WIDTH > 0 ? WIDTH : a.width; }

template <int Tokens, bool Gated, int TypeA, int TypeB>
DEVICE void gemv_block(const GemvArguments& a, const Matmul& first, const Matmul& second, int block,
                       QuantizedInputs& inputs) {
#if LANES
  if (block * kLaneRows >= first.rows) return dependency_wait();
  return stream_lanes<Gated, QuantizedSource<TypeA>, QuantizedSource<TypeB>>(a, first, second, block * kLaneRows,
                                                                             inputs);
#endif
  const int row = block * a.passes * kPassRows;
  if (row >= first.rows) return dependency_wait();
  inputs.with_sums = Format<TypeA>::has_minimum || (Gated && Format<TypeB>::has_minimum);
  const QuantizedTarget target = {a.quantized_values, a.quantized_scales, a.quantized_sums, first.rows};
  stream_rows<Tokens, Gated, QuantizedSource<TypeA>, QuantizedSource<TypeB>>(first, second, width_of(a), row, a.passes,
                                                                             inputs, target);
}

template <int Tokens>
DEVICE void gemv(const GemvArguments& a, u8* scratch) {
  dependency_release();
#if LANES
  // They look at the count themselves, once their weights are on their way.
  const int count = 1, first_token = 0;
#else
  const int count = *a.row_count, first_token = block_y() * Tokens;
#endif
  // Returning without waiting would let the next launch overtake this one.
  if (first_token >= count) return dependency_wait();
  QuantizedInputs inputs = {reinterpret_cast<const u8*>(a.values),
                            a.scales,
                            a.sums,
                            scratch,
                            width_of(a),
                            first_token,
                            min(count - first_token, Tokens),
                            Tokens,
                            false,
                            a.normed_rows,
                            a.normed_stride,
                            a.norm_weight,
                            a.norm_epsilon,
                            nullptr};
  const Matmul matmul0 = {a.weights0, a.out0, a.bias0, a.factor0, a.residual, a.rows0, a.stride0, a.residual_stride};
  const Matmul matmul1 = {a.weights1, a.out1, a.bias1, a.factor1, nullptr, a.rows1, a.stride1, 0};
#if GATED
  gemv_block<Tokens, true, TYPE0, TYPE1>(a, matmul0, matmul1, block_x(), inputs);
#else
  const Matmul matmul2 = {a.weights2, a.out2, a.bias2, a.factor2, nullptr, a.rows2, a.stride2, 0};
  const Matmul matmul3 = {a.weights3, a.out3, a.bias3, a.factor3, nullptr, a.rows3, a.stride3, 0};
  // A body for each matmul: what is the same for all blocks of a matmul then takes no registers.
  const int block = block_x();
  if (MATMULS == 1 || block < a.blocks0)
    return gemv_block<Tokens, false, TYPE0, TYPE0>(a, matmul0, matmul0, block, inputs);
  if (MATMULS == 2 || block < a.blocks0 + a.blocks1) {
    return gemv_block<Tokens, false, TYPE1, TYPE1>(a, matmul1, matmul1, block - a.blocks0, inputs);
  }
  const int later = block - a.blocks0 - a.blocks1;
  if (MATMULS == 3 || later < a.blocks2)
    return gemv_block<Tokens, false, TYPE2, TYPE2>(a, matmul2, matmul2, later, inputs);
  gemv_block<Tokens, false, TYPE3, TYPE3>(a, matmul3, matmul3, later - a.blocks2, inputs);
#endif
}

#if !defined(TOKENS) || TOKENS == 1
KERNEL(gemv_1, GemvArguments, THREADS) {
  DYNAMIC_SHARED(scratch);
  gemv<1>(a, scratch);
}
#endif

#if !defined(TOKENS) || TOKENS == 2
KERNEL(gemv_2, GemvArguments, THREADS) {
  DYNAMIC_SHARED(scratch);
  gemv<2>(a, scratch);
}
#endif

#if !defined(TOKENS) || TOKENS == 4
KERNEL(gemv_4, GemvArguments, THREADS) {
  DYNAMIC_SHARED(scratch);
  gemv<4>(a, scratch);
}
#endif

#if !defined(TOKENS) || TOKENS == 8
KERNEL(gemv_8, GemvArguments, THREADS) {
  DYNAMIC_SHARED(scratch);
  gemv<8>(a, scratch);
}
#endif
