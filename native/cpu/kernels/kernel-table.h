// The interface between the engine and the code that is written per instruction set: plain structs and function
// pointers. Kernels trust their arguments (the engine has checked them), allocate nothing, never throw, and touch no
// memory outside what they are given. Every function may run on several threads at once over disjoint outputs.

#pragma once

#include <cstddef>
#include <cstdint>

#include "matmul-interface.h"
#include "recurrent-interface.h"
#include "tensor-type.h"

namespace rocmforge {

/// Of a gated linear unit; `gelu` is the tanh approximation, `swiglu_oai` clamps gate and up, `identity` multiplies them.
enum class Activation : uint32_t { silu = 0, gelu = 1, sigmoid = 2, swiglu_oai = 3, relu = 4, identity = 5 };

/// How a router turns logits into probabilities; `softmax_selected` takes the softmax over the chosen experts alone,
/// and `sigmoid_selected` their sigmoid; both choose by the logits.
enum class ExpertGating : uint32_t {
  softmax = 0,
  sigmoid = 1,
  softmax_selected = 2,
  sqrt_softplus = 3,
  sigmoid_selected = 4
};

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
/// If the values are columns of the keys (latent attention), a cell has no keys but these: its values are the whole keys,
/// token by token, and both scores and values are computed from them.
struct KvCell {
  KvType type;
  bool values_in_keys;
  size_t key_width;
  /// Columns of a row of values: key_width if the values are in the keys.
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

/// A value width of 0: the values are columns of the keys.
static inline KvCell kv_cell(KvType type, size_t key_width, size_t value_width, size_t block_tokens) {
  const size_t element = type == KvType::f32 ? 4 : type == KvType::f16 ? 2 : 1;
  const auto padded = [](size_t count, size_t multiple) { return (count + multiple - 1) / multiple * multiple; };
  KvCell cell = {};
  cell.type = type;
  cell.values_in_keys = value_width == 0;
  cell.key_width = key_width;
  cell.value_width = cell.values_in_keys ? key_width : value_width;
  cell.block_tokens = block_tokens;
  cell.token_stride = padded(block_tokens, kKvPadding);
  cell.value_stride = padded(cell.value_width, kKvPadding);
  const bool scaled = type == KvType::q8_0;
  const size_t key_columns = cell.values_in_keys ? 0 : key_width;
  const size_t key_scales = scaled ? key_columns / kKvScaleBlock * cell.token_stride * 4 : 0;
  const size_t value_scales = scaled ? block_tokens * (cell.value_width / kKvScaleBlock) * 4 : 0;
  cell.key_scales_offset = padded(key_columns * cell.token_stride * element, 64);
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
  /// key_width floats each, already multiplied by the scale of the scores, and zeros up to a multiple of kKvPadding.
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
  /// Not read if the values are in the keys.
  const float* value;
};

/// Everything but matmuls: a function pointer for each entry of the list, by its name.
struct RowKernels {
#define ROW_KERNEL(result, name, parameters) result(*name) parameters;
#include "row-kernel-list.h"
#undef ROW_KERNEL
};

/// One instruction set.
struct KernelTable {
  const char* name;
  const MatmulKernels* matmul;
  const RowKernels* rows;
};

}  // namespace rocmforge
