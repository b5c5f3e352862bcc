// The interface between the engine and the code that is written per instruction set: plain structs and function
// pointers. Kernels trust their arguments (the engine has checked them), allocate nothing, never throw, and touch no
// memory outside what they are given. Every function may run on several threads at once over disjoint outputs.

#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor-type.h"

namespace rocmforge {

// ---- matmul --------------------------------------------------------------------------------------------------------

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
constexpr size_t kGemmRows = 64;
/// The most tokens that `gemv` takes through a weight in one pass; it makes as many passes as it needs.
constexpr size_t kGemvTokens = 8;

struct MatmulKernels {
  /// Tokens in one panel.
  size_t panel_tokens;
  /// The largest batch for which GEMV over quantized weights is faster than GEMM, by measurement.
  size_t max_gemv_tokens;
  /// Bytes of one group; the same for every weight type that reads the format.
  size_t (*group_bytes)(ActivationFormat format, size_t width);
  /// Prepares groups [first_group, first_group + groups) of `activations` from rows of f32 that are `stride` floats
  /// apart. `input` is the row of token 0, whatever the first group. 8-bit formats quantize as the operation
  /// quantize-activations does: blocks of 32, scale = largest magnitude / 127, nearest value, halves to even. A block
  /// that holds NaN or infinity gets the scale NaN.
  void (*quantize)(const float* input, size_t stride, size_t first_group, size_t groups,
                   const Activations& activations);

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
};

// ---- everything else -----------------------------------------------------------------------------------------------

/// Of a gated linear unit; `gelu` is the tanh approximation.
enum class Activation : uint32_t { silu = 0, gelu = 1 };

/// What a matmul does to its results: out = soft-cap(out × scale + bias) + residual.
struct Epilogue {
  float scale = 1;
  /// Null for none.
  const float* bias = nullptr;
  /// Every result x becomes soft_cap × tanh(x / soft_cap); 0 for none.
  float soft_cap = 0;
  /// Null for none.
  const float* residual = nullptr;
};

enum class KvType : uint32_t { f32 = 0, f16 = 1, q8_0 = 2 };

/// Tokens of a cell and widths of value rows are padded to this many elements, so that every vector is a whole one.
constexpr size_t kKvPadding = 16;
constexpr size_t kKvScaleBlock = 32;

/// One cell of the cache: the keys and values of one KV head in one block of one layer. Keys are transposed, so that a
/// vector holds one column of several tokens and no dot product ends in a horizontal sum:
///   keys         [key_width][token_stride]                elements
///   key scales   [key_width / 32][token_stride]           f32, q8_0 only
///   values       [block_tokens][value_stride]             elements
///   value scales [block_tokens][value_width / 32]         f32, q8_0 only
struct KvCell {
  KvType type;
  size_t key_width;
  size_t value_width;
  size_t block_tokens;
  size_t token_stride;
  size_t value_stride;
  size_t key_scales_offset;
  size_t values_offset;
  size_t value_scales_offset;
  /// A multiple of 64.
  size_t bytes;
};

static inline KvCell kv_cell(KvType type, size_t key_width, size_t value_width, size_t block_tokens) {
  const size_t element = type == KvType::f32 ? 4 : type == KvType::f16 ? 2 : 1;
  const auto padded = [](size_t count, size_t multiple) { return (count + multiple - 1) / multiple * multiple; };
  KvCell cell = {};
  cell.type = type;
  cell.key_width = key_width;
  cell.value_width = value_width;
  cell.block_tokens = block_tokens;
  cell.token_stride = padded(block_tokens, kKvPadding);
  cell.value_stride = padded(value_width, kKvPadding);
  const bool scaled = type == KvType::q8_0;
  const size_t key_scales = scaled ? key_width / kKvScaleBlock * cell.token_stride * 4 : 0;
  const size_t value_scales = scaled ? block_tokens * (value_width / kKvScaleBlock) * 4 : 0;
  cell.key_scales_offset = padded(key_width * cell.token_stride * element, 64);
  cell.values_offset = padded(cell.key_scales_offset + key_scales, 64);
  cell.value_scales_offset = padded(cell.values_offset + block_tokens * cell.value_stride * element, 64);
  cell.bytes = padded(cell.value_scales_offset + value_scales, 64);
  return cell;
}

/// The most query rows (heads of one KV head, of one or more tokens) that attend together.
constexpr size_t kAttentionRows = 8;
/// Attention always works in spans of this many positions, counted from 0, and merges them in order, whatever else the
/// step holds and however many threads there are.
constexpr size_t kAttentionSpan = 256;

/// What a span leaves of one query row: the running maximum, the sum of exponentials, and the weighted values.
struct AttentionPartial {
  float max;
  float sum;
  /// value_stride floats.
  float* values;
};

/// Query rows of one KV head over positions [first, end) of one sequence; `first` is a multiple of kAttentionSpan and
/// end - first is at most kAttentionSpan.
struct AttentionTask {
  const KvCell* cell;
  /// The KV head's cell in block 0 of the layer; the cell of block b is block_stride × b bytes further.
  const uint8_t* cells;
  size_t block_stride;
  /// The sequence's blocks in order of position.
  const int32_t* block_table;
  size_t first;
  size_t end;
  /// Positions below this have their block in the table. Those past `end` are not attended to, but fetched into the
  /// cache.
  size_t table_end = 0;
  size_t rows;
  /// Every score x becomes soft_cap × tanh(x / soft_cap); 0 for none.
  float soft_cap = 0;
  /// key_width floats each, already multiplied by the scale of the scores.
  const float* queries[kAttentionRows];
  /// Row i sees positions [starts[i], limits[i]): 1 or more, all of them in this span. Neither falls from row to row.
  size_t starts[kAttentionRows];
  size_t limits[kAttentionRows];
  AttentionPartial partials[kAttentionRows];
};

/// One token's keys and values of one KV head on their way into a cell.
struct KvStore {
  const KvCell* cell;
  uint8_t* target;
  size_t token;
  const float* key;
  const float* value;
};

struct RowKernels {
  /// One group: out = input / sqrt(mean of squares + epsilon) × weight.
  void (*rms_norm)(const float* input, const float* weight, size_t width, float epsilon, float* out);
  /// To 8 bits in blocks of 32 and back; the last block may be shorter.
  void (*quantize_activations)(const float* input, size_t width, float* out);
  /// One head. Pair i is (2i, 2i + 1) when `adjacent`, else (i, i + pairs); columns past 2 × pairs are copied.
  /// out may be input.
  void (*rope)(const float* input, const float* cosines, const float* sines, size_t pairs, size_t width, bool adjacent,
               float* out);
  /// out = activation(gate) × up; out may be gate.
  void (*glu)(Activation activation, const float* gate, const float* up, size_t width, float* out);
  void (*add)(const float* left, const float* right, size_t width, float* out);
  void (*epilogue)(float* out, size_t width, const Epilogue& epilogue);
  /// out may be input.
  void (*scale)(const float* input, size_t width, float factor, float* out);
  /// `count` plain floats of `type` as f32.
  void (*convert)(TensorType type, const uint8_t* input, size_t count, float* out);

  void (*store_kv)(const KvStore& store);
  /// Writes the partials of `task` and nothing else of it. `scratch` has attention_scratch_bytes() bytes, 64-byte
  /// aligned.
  void (*attend)(AttentionTask& task, uint8_t* scratch);
  size_t (*attention_scratch_bytes)();
  /// out[0 .. width) = the spans of one row, merged in order. `sink` is a logit that joins the softmax without a value;
  /// null for none.
  void (*merge_attention)(const AttentionPartial* spans, size_t count, size_t width, const float* sink, float* out);

  /// The first index whose value is NaN or infinite, or `count`.
  size_t (*find_not_finite)(const float* values, size_t count);
  float (*max)(const float* values, size_t count);
  /// Sum of exp(values[i] - max_value), in double precision between short runs.
  double (*sum_exp)(const float* values, size_t count, float max_value);
  /// The first index at or after `from` whose value is greater than `threshold`, or `count`.
  size_t (*find_above)(const float* values, size_t count, size_t from, float threshold);
};

/// One instruction set.
struct KernelTable {
  const char* name;
  const MatmulKernels* matmul;
  const RowKernels* rows;
};

}  // namespace rocmforge
