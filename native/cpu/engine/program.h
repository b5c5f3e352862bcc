// A program as the engine runs it: the program of the bindings in plain structs. `check_program` makes sure that no
// step of it can leave its buffers; nothing else may be assumed about a program before that. Ids index their lists; -1
// is none.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "../kernels/kernel-table.h"
#include "instruction.h"
#include "kv-shape.h"

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

/// A table of rope angles that a step computes once for all layers.
struct RopeAngles {
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
  std::vector<std::unique_ptr<Instruction>> instructions;
  std::vector<KvLayerShape> kv_layers;
  /// Of each cache group.
  std::vector<KvReach> kv_groups = {KvReach{}};
  /// Elements of each recurrent state.
  std::vector<size_t> states = {};
  size_t vocabulary_size = 0;
  Id hidden = kNone;
  Id logits = kNone;
  size_t max_tokens = 0;
  size_t max_outputs = 0;
  size_t context_tokens = 0;

  // Filled by the check.
  std::vector<RopeAngles> angles;
  /// Weights that are read element by element as f32 (norms, biases, scales, factors, sinks), by id.
  std::vector<bool> is_vector;
  bool uses_kv = false;
  bool uses_states = false;

  const Value& value(Id id) const { return values[static_cast<size_t>(id)]; }
  const Weight& weight(Id id) const { return weights[static_cast<size_t>(id)]; }
};

/// Throws `invalid` with the path, what was expected and what was found; fills the fields that say so.
void check_program(Program& program);

}  // namespace rocmforge
