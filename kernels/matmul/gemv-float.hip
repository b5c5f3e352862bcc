// Matmuls of 1 to 8 tokens with F32, F16 or BF16 weights: out = f32 rows · weightsᵀ, any width (matmul/row-stream.h
// says how). product_floats_N makes N tokens a block; more go along the grid's y axis, to the same bits.
// Defines: MATMULS 1 to 4 matrices of one input, TYPE0 … their ggml types; or GATED 1: TYPE0 is the gate, TYPE1 up, and
//   out0 = activation(gate) × up. ROWS, SPLIT, DEPTH, THREADS, BIAS_TYPE: matmul/row-stream.h. ACTIVATION, SOFT_CAP:
//   device/activation.h. TOKENS: only the kernel of that many.
// Grid: x = blocks0 + … of ⌈rows ÷ (passes × kPassRows)⌉ each, y = ⌈tokens ÷ N⌉. out0 may be the residual.
// v1 16-byte loads where width and places allow, else element by element; inputs through the caches. Not measured yet.
#include "matmul/float-source.h"

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

struct GemvFloatArguments {
  const float* inputs;
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
  int input_stride;
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

DEVICE int width_of(const GemvFloatArguments& a) { return WIDTH > 0 ? WIDTH : a.width; }

template <int Tokens, bool Gated, int TypeA, int TypeB>
DEVICE void gemv_block(const GemvFloatArguments& a, const Matmul& first, const Matmul& second, int block,
                       FloatInputs& inputs) {
  const int row = block * a.passes * kPassRows;
  if (row >= first.rows) return dependency_wait();
  const QuantizedTarget none = {nullptr, nullptr, nullptr, 0};
  // What is loaded of gate and up goes together, so it must be of one length.
  constexpr bool Alike = Plain<TypeA>::element_bytes == Plain<TypeB>::element_bytes;
  const bool wide =
      Alike && is_wide(TypeA, width_of(a)) && a.input_stride % 4 == 0 && (reinterpret_cast<u64>(a.inputs) & 15) == 0;
  if (wide) {
    constexpr int Other = Alike ? TypeB : TypeA;
    stream_rows<Tokens, Gated, WideChunks<TypeA>, WideChunks<Other>>(first, second, width_of(a), row, a.passes, inputs,
                                                                     none);
  } else {
    stream_rows<Tokens, Gated, SingleElements<TypeA>, SingleElements<TypeB>>(first, second, width_of(a), row, a.passes,
                                                                             inputs, none);
  }
}

template <int Tokens>
DEVICE void gemv_float(const GemvFloatArguments& a) {
  dependency_release();
  const int count = *a.row_count, first_token = block_y() * Tokens;
  // Returning without waiting would let the next launch overtake this one.
  if (first_token >= count) return dependency_wait();
  FloatInputs inputs = {a.inputs, a.input_stride, first_token, min(count - first_token, Tokens)};
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
KERNEL(gemv_float_1, GemvFloatArguments, THREADS) { gemv_float<1>(a); }
#endif

#if !defined(TOKENS) || TOKENS == 2
KERNEL(gemv_float_2, GemvFloatArguments, THREADS) { gemv_float<2>(a); }
#endif

#if !defined(TOKENS) || TOKENS == 4
KERNEL(gemv_float_4, GemvFloatArguments, THREADS) { gemv_float<4>(a); }
#endif

#if !defined(TOKENS) || TOKENS == 8
KERNEL(gemv_float_8, GemvFloatArguments, THREADS) { gemv_float<8>(a); }
#endif
