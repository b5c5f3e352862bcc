// Which kernels serve which type, and the table that a translation unit exports. To be included last, after the
// vector layers of one instruction set.

#pragma once

#include "quant/types.h"

#include "decode-row.h"
#include "quantize.h"
#include "gemm.h"
#include "gemv.h"

namespace rocmforge {
namespace {

template <class Type>
struct QuantKernels {
  static constexpr auto rows = gemv_passes<QuantGemv<Type>>;
  static constexpr auto panels = gemm_quant<Type>;
  static constexpr auto decode = decode_quant_row<Type>;
  /// One token alone waits for memory, and has activations that need no panel.
  static size_t max_gemv_tokens(size_t width) {
    return OnePanelForm<Type>::kExists && width % kChunk == 0 ? 1 : kMaxGemvTokens;
  }
};

template <TensorType kType>
struct FloatKernels {
  static constexpr auto rows = gemv_passes<FloatGemv<kType>>;
  static constexpr auto panels = gemm_float<kType>;
  static constexpr auto decode = decode_float_row<kType>;
  static size_t max_gemv_tokens(size_t) { return kGemvTokens; }
};

template <class Action>
inline void with_kernels(TensorType type, Action action) {
  switch (type) {
    case TensorType::f32: return action(FloatKernels<TensorType::f32>());
    case TensorType::f16: return action(FloatKernels<TensorType::f16>());
    case TensorType::bf16: return action(FloatKernels<TensorType::bf16>());
    case TensorType::q4_0: return action(QuantKernels<Q4_0>());
    case TensorType::q4_1: return action(QuantKernels<Q4_1>());
    case TensorType::q5_0: return action(QuantKernels<Q5_0>());
    case TensorType::q5_1: return action(QuantKernels<Q5_1>());
    case TensorType::q8_0: return action(QuantKernels<Q8_0>());
    case TensorType::q2_k: return action(QuantKernels<Q2_K>());
    case TensorType::q3_k: return action(QuantKernels<Q3_K>());
    case TensorType::q4_k: return action(QuantKernels<Q4_K>());
    case TensorType::q5_k: return action(QuantKernels<Q5_K>());
    case TensorType::q6_k: return action(QuantKernels<Q6_K>());
    case TensorType::iq4_nl: return action(QuantKernels<IQ4_NL>());
    case TensorType::iq4_xs: return action(QuantKernels<IQ4_XS>());
    case TensorType::tq1_0: return action(QuantKernels<TQ1_0>());
    case TensorType::tq2_0: return action(QuantKernels<TQ2_0>());
    case TensorType::mxfp4: return action(QuantKernels<MXFP4>());
    case TensorType::nvfp4: return action(QuantKernels<NVFP4>());
  }
}

void gemv(const Matrix& weight, size_t first_row, size_t row_count, const Activations& activations, size_t first_token,
          size_t tokens, float* out, size_t out_stride) {
  if (row_count == 0) return;
  with_kernels(weight.type, [&](auto kernels) {
    kernels.rows(weight, first_row, row_count, activations, first_token, tokens, out, out_stride);
  });
}

void gemm(const Matrix& weight, size_t first_row, size_t row_count, const Activations& activations, float* out,
          size_t out_stride, uint8_t* scratch) {
  if (row_count == 0) return;
  with_kernels(weight.type, [&](auto kernels) {
    kernels.panels(weight, first_row, row_count, activations, out, out_stride, scratch);
  });
}

size_t max_gemv_tokens(TensorType type, size_t width) {
  size_t tokens = 0;
  with_kernels(type, [&](auto kernels) { tokens = kernels.max_gemv_tokens(width); });
  return tokens;
}

void decode_row(TensorType type, const uint8_t* row, size_t width, float* out) {
  with_kernels(type, [&](auto kernels) { kernels.decode(row, width, out); });
}

constexpr MatmulKernels kMatmulKernels = {
    kPanelTokens, max_gemv_tokens,    group_bytes, quantize,    quantize_rows, gemv,
    gemm,         gemm_scratch_bytes, decode_row,  dot_products};

}  // namespace
}  // namespace rocmforge
