// Which kernels serve which type, and the table that a translation unit exports. To be included last, after the
// vector layers of one instruction set.

#pragma once

#include "quant/types.h"

#include "decode-row.h"
#include "pack.h"
#include "product-panels.h"
#include "product-rows.h"

namespace rocmforge {
namespace {

template <class Type>
struct QuantKernels {
  static constexpr auto rows = multiply_passes<QuantRows<Type>>;
  static constexpr auto panels = multiply_quant_panels<Type>;
  static constexpr auto decode = decode_quant_row<Type>;
};

template <TensorType kType>
struct FloatKernels {
  static constexpr auto rows = multiply_passes<FloatRows<kType>>;
  static constexpr auto panels = multiply_float_panels<kType>;
  static constexpr auto decode = decode_float_row<kType>;
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

void multiply_rows(const Matrix& weight, size_t first_row, size_t row_count, const Packed& packed, size_t first_token,
                   size_t tokens, float* out, size_t out_stride) {
  if (row_count == 0) return;
  with_kernels(weight.type, [&](auto kernels) {
    kernels.rows(weight, first_row, row_count, packed, first_token, tokens, out, out_stride);
  });
}

void multiply_panels(const Matrix& weight, size_t first_row, size_t row_count, const Packed& packed, float* out,
                     size_t out_stride, uint8_t* scratch) {
  if (row_count == 0) return;
  with_kernels(weight.type,
               [&](auto kernels) { kernels.panels(weight, first_row, row_count, packed, out, out_stride, scratch); });
}

void decode_row(TensorType type, const uint8_t* row, size_t width, float* out) {
  with_kernels(type, [&](auto kernels) { kernels.decode(row, width, out); });
}

constexpr ProductKernels kProductKernels = {kPanelTokens,  kMostTokensAsStored, group_bytes,         pack,
                                            multiply_rows, multiply_panels,     panel_scratch_bytes, decode_row};

}  // namespace
}  // namespace rocmforge
