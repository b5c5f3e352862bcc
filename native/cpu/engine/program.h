// A program as the engine runs it: the spec of the border in plain structs. `check_program` makes sure that no step of it
// can leave its buffers; nothing else may be assumed about a spec before that. Ids index their lists; -1 is none.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "../kernels/kernel-table.h"

namespace rocmforge {

using Id = int32_t;
constexpr Id kNone = -1;

/// How many rows a value has in a given step: one per token, per output, or per output that wants more than hidden.
enum class RowKind : uint32_t { tokens = 0, outputs = 1, scored = 2 };
constexpr size_t kRowKinds = 3;

struct Slot {
  RowKind rows;
  size_t width;
};

struct Value {
  Id slot;
  size_t column;
  size_t width;
  size_t stride;
  RowKind rows;
};

struct Weight {
  TensorType type;
  size_t width;
  size_t rows;
  /// Filled by the check.
  size_t row_bytes = 0;
  size_t size_bytes = 0;
};

struct Rope {
  float ratio;
  std::vector<double> stretches;
  double magnitude;
};

struct Product {
  Id weight;
  Id scale;
  Id bias;
  Id out;
};

struct Embed {
  Id weight;
  Id out;
};

struct Norm {
  Id input;
  Id weight;
  size_t group_width;
  float epsilon;
  Id out;
};

struct Project {
  Id input;
  Id norm;
  float epsilon;
  std::vector<Product> products;
  bool gated;
  Id gated_out;
  Id residual;
};

struct Turn {
  size_t head_width;
  size_t rotary_width;
  bool adjacent;
  Id rope;
  Id factors;
  /// Which of the step's tables of angles; filled by the check.
  size_t angles = 0;
};

struct Rotate {
  Id input;
  size_t heads;
  Turn turn;
  Id out;
};

struct KvWrite {
  size_t layer;
  Id key;
  Id value;
};

struct Attention {
  size_t layer;
  Id query;
  size_t heads;
  size_t kv_heads;
  size_t key_width;
  size_t value_width;
  float scale;
  Id out;
};

struct RotateStore {
  size_t layer;
  Id query;
  size_t query_heads;
  Id query_out;
  Id key;
  size_t key_heads;
  Turn turn;
  Id value;
};

struct Swiglu {
  Id gate;
  Id up;
  Id out;
};

struct Add {
  Id left;
  Id right;
  Id out;
};

struct RoundActivations {
  Id input;
  Id out;
};

struct SelectRows {
  Id input;
  Id out;
};

using Instruction = std::variant<Embed, Norm, Project, Rotate, KvWrite, Attention, RotateStore, Swiglu, Add,
                                 RoundActivations, SelectRows>;

/// The border's name of each alternative, in order.
constexpr const char* kInstructionKinds[] = {"embed",      "norm",         "project", "rope", "kv-write",
                                             "attention",  "rotate-store", "swiglu",  "add",  "round-activations",
                                             "select-rows"};
static_assert(std::variant_size_v<Instruction> == sizeof(kInstructionKinds) / sizeof(kInstructionKinds[0]));

/// Angles that a step computes once for all layers.
struct AnglesKey {
  Id rope;
  Id factors;
  size_t pairs;
};

struct Program {
  const KernelTable* kernels = nullptr;
  size_t threads = 1;
  bool deterministic = false;
  std::vector<Slot> slots;
  std::vector<Value> values;
  std::vector<Weight> weights;
  std::vector<Rope> ropes;
  std::vector<Instruction> instructions;
  size_t layers = 0;
  size_t kv_heads = 0;
  size_t key_width = 0;
  size_t value_width = 0;
  size_t vocabulary_size = 0;
  Id hidden = kNone;
  Id logits = kNone;
  size_t max_tokens = 0;
  size_t max_outputs = 0;
  size_t context_tokens = 0;

  // Filled by the check.
  std::vector<AnglesKey> angles;
  /// Weights that are read element by element as f32 (norms, biases, scales, factors), by id.
  std::vector<bool> is_vector;
  bool uses_kv = false;

  const Value& value(Id id) const { return values[static_cast<size_t>(id)]; }
  const Weight& weight(Id id) const { return weights[static_cast<size_t>(id)]; }
};

/// Throws `invalid` with where, expected and found; completes the fields that say so.
void check_program(Program& program);

}  // namespace rocmforge
