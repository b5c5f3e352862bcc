// The matmuls of one instruction set as the engine calls them; kernel-table.h states what all kernels promise.

#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor-type.h"

namespace rocmforge {

/// How the activations of a matmul are laid out.
///   rows    each token by itself: for GEMV, which serves small batches, and every batch in deterministic mode
///   panels  `panel_tokens` tokens interleaved: for GEMM, which serves prefill and large decode batches
enum class ActivationFormat : uint32_t { q8_rows, q8_panels, f32_rows, f32_panels };

/// Activations that have been prepared for matmuls: quantized to 8 bits, or copied as f32. A group is one token (rows)
/// or one panel (panels); groups are `group_bytes` apart and 64-byte aligned. `tokens` is the true count: a last panel
/// that is not full is padded with zeros.
struct Activations {
  uint8_t* data;
  ActivationFormat format;
  size_t width;
  size_t tokens;
  size_t groups;
  size_t group_bytes;
};

/// A weight in the layout of the file. No alignment may be assumed.
struct Matrix {
  const uint8_t* data;
  size_t row_bytes;
  size_t width;
  size_t rows;
  TensorType type;
};

/// The most weight rows of one `gemm` call.
constexpr size_t kGemmRows = 256;
/// The most tokens of a panel, whatever the instruction set.
constexpr size_t kMaxPanelTokens = 16;
/// The most tokens that `gemv` takes through a weight in one pass; it makes as many passes as it needs.
constexpr size_t kGemvTokens = 8;

constexpr size_t kDotSinks = 16;

/// Whether a core waits for weights that it streams unless it asks for each line early. Set when the addon is loaded, by the
/// code that every processor can run.
extern const bool kStreamsNeedPrefetch;

struct MatmulKernels {
  /// Tokens in one panel.
  size_t panel_tokens;
  /// The largest batch for which GEMV over quantized weights of this type and width is faster than GEMM, by measurement.
  size_t (*max_gemv_tokens)(TensorType type, size_t width);
  /// Bytes of one group; the same for every weight type that reads the format.
  size_t (*group_bytes)(ActivationFormat format, size_t width);
  /// Prepares groups [first_group, first_group + groups) of `activations` from rows of f32 that are `stride` floats
  /// apart. `input` is the row of token 0, whatever the first group. 8-bit formats quantize as the operation
  /// quantize-activations does: blocks of 32, scale = largest magnitude / 127, nearest value, halves to even. A block
  /// that holds NaN or infinity gets the scale NaN.
  void (*quantize)(const float* input, size_t stride, size_t first_group, size_t groups,
                   const Activations& activations);
  /// The same for the first group alone, from `activations.tokens` rows that lie anywhere.
  void (*quantize_rows)(const float* const* rows, const Activations& activations);

  /// out[t * out_stride + r] = dot(weight row first_row + r, token first_token + t), for r < row_count, t < tokens.
  /// What a token gets does not depend on `tokens`, `row_count` or any other token, to the bit. Rows formats only.
  void (*gemv)(const Matrix& weight, size_t first_row, size_t row_count, const Activations& activations,
               size_t first_token, size_t tokens, float* out, size_t out_stride);

  /// The same for all tokens of `activations` and at most kGemmRows rows. Panels formats only. `scratch` has
  /// gemm_scratch_bytes(weight.width, activations.tokens) bytes, 64-byte aligned, and belongs to the calling thread.
  void (*gemm)(const Matrix& weight, size_t first_row, size_t row_count, const Activations& activations, float* out,
               size_t out_stride, uint8_t* scratch);
  size_t (*gemm_scratch_bytes)(size_t width, size_t tokens);

  /// Elements of one weight row as f32.
  void (*decode_row)(TensorType type, const uint8_t* row, size_t width, float* out);

  /// Rounds of independent 8-bit dot products of registers, which is the most that the arithmetic units can do. Returns the
  /// number of multiply-adds, 0 if the instruction set has no instruction for dot products. `sink` has kDotSinks numbers,
  /// which mean nothing.
  size_t (*dot_products)(size_t rounds, int32_t* sink);
};

}  // namespace rocmforge
