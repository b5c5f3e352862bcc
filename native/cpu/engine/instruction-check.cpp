// The parts that checks of instructions share.

#include "instruction-check.h"

#include <cmath>

namespace rocmforge {

const Value& InstructionCheck::value(const char* field, Id id) const {
  if (id < 0 || static_cast<size_t>(id) >= program_.values.size())
    refuse(path(field), "a value below " + text(program_.values.size()), std::to_string(id));
  const Value& found = program_.value(id);
  if (found.slot == kNone)
    refuse(path(field), "a value with memory", "value " + std::to_string(id) + " without a slot");
  return found;
}

const Weight& InstructionCheck::matrix(const char* field, Id id) const {
  if (id < 0 || static_cast<size_t>(id) >= program_.weights.size())
    refuse(path(field), "a weight below " + text(program_.weights.size()), std::to_string(id));
  return program_.weight(id);
}

void InstructionCheck::vector(const char* field, Id id, size_t width) { vectors(field, id, 1, width); }

void InstructionCheck::vectors(const char* field, Id id, size_t rows, size_t width) {
  const Weight& found = matrix(field, id);
  if (!is_plain_float(found.type)) refuse(path(field), "plain floats", "type " + text(static_cast<size_t>(found.type)));
  require_equal(path(field) + " rows", rows, found.rows);
  require_equal(path(field) + " width", width, found.width);
  program_.is_vector[static_cast<size_t>(id)] = true;
}

void InstructionCheck::elements(const char* field, Id id, size_t count) {
  const Weight& found = matrix(field, id);
  vectors(field, id, found.rows, found.width);
  require_equal(path(field) + " elements", count, found.rows * found.width);
}

void InstructionCheck::require_rows(const char* field, const Value& found, RowKind expected) const {
  if (found.rows != expected) refuse(path(field) + " rows", row_kind_name(expected), row_kind_name(found.rows));
}

void InstructionCheck::require_like(const char* field, const Value& expected, const Value& found) const {
  require_rows(field, found, expected.rows);
  require_equal(path(field) + " width", expected.width, found.width);
}

void InstructionCheck::require_epsilon(float epsilon) const {
  if (!(epsilon >= 0 && std::isfinite(epsilon))) refuse(path("epsilon"), "0 or more", std::to_string(epsilon));
}

void InstructionCheck::require_finite(const char* field, float number) const {
  if (!std::isfinite(number)) refuse(path(field), "a finite number", std::to_string(number));
}

void InstructionCheck::require_soft_cap(const char* field, float soft_cap) const {
  if (!(soft_cap >= 0 && std::isfinite(soft_cap)))
    refuse(path(field), "0 for none, or a positive number", std::to_string(soft_cap));
}

void InstructionCheck::require_apart(const char* field, Id written, Id other) const {
  const Value& left = program_.value(written);
  const Value& right = program_.value(other);
  if (left.slot != right.slot) return;
  const bool beside = left.stride == right.stride &&
                      (left.column + left.width <= right.column || right.column + right.width <= left.column);
  if (!beside) {
    refuse(path(field), "memory that the instruction does not use otherwise",
           "value " + std::to_string(written) + " over value " + std::to_string(other));
  }
}

void InstructionCheck::require_heads(const char* field, const Value& found, size_t heads, size_t width) const {
  require_range(path("heads"), heads, 1, kMaxHeads);
  require_equal(path(field) + " width", heads * width, found.width);
}

const KvLayerShape& InstructionCheck::layer(size_t layer) {
  const size_t layers = program_.kv_layers.size();
  if (layer >= layers) refuse(path("layer"), "a layer below " + text(layers), text(layer));
  const KvLayerShape& shape = program_.kv_layers[layer];
  require_range("kv.kvHeads", shape.kv_heads, 1, kMaxHeads);
  require_range("kv.keyWidth", shape.key_width, 1, kMaxTokens);
  require_range("kv.valueWidth", shape.value_width, 0, kMaxTokens);
  program_.uses_kv = true;
  return shape;
}

void InstructionCheck::state(size_t id, size_t elements) {
  const size_t states = program_.states.size();
  if (id >= states) refuse(path("state"), "a state below " + text(states), text(id));
  require_equal("kv.states[" + text(id) + "]", elements, program_.states[id]);
  program_.uses_states = true;
}

void InstructionCheck::stored(const char* field, Id id, size_t kv_heads, size_t head_width) const {
  const Value& found = value(field, id);
  require_rows(field, found, RowKind::tokens);
  require_equal(path(field) + " width", kv_heads * head_width, found.width);
}

}  // namespace rocmforge
