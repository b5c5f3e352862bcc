// The check of a program as it comes from the bindings: limits, memory, weights, then each instruction. A program that
// has passed runs without further checks: no step of it leaves its buffers.

#include <string>

#include "instruction-check.h"

namespace rocmforge {

namespace {

void check_limits(const Program& program) {
  require_range("threads", program.threads, 1, kMaxThreads);
  require_range("maxTokens", program.max_tokens, 1, kMaxTokens);
  require_range("maxOutputs", program.max_outputs, 1, kMaxTokens);
  require_range("contextTokens", program.context_tokens, 1, kMaxContext);
  require_range("vocabularySize", program.vocabulary_size, 1, kWidest);
  require_range("slots", program.slots.size(), 0, kMaxListed);
  require_range("values", program.values.size(), 1, kMaxListed);
  require_range("weights", program.weights.size(), 0, kMaxListed);
  require_range("ropes", program.ropes.size(), 0, kMaxListed);
  require_range("kv.states", program.states.size(), 0, kMaxTokens);
  require_range("instructions", program.instructions.size(), 1, kMaxListed);
}

void check_values(const Program& program) {
  for (size_t index = 0; index < program.slots.size(); index++) {
    require_range("slots[" + text(index) + "].width", program.slots[index].width, 1, kWidest);
  }
  for (size_t index = 0; index < program.values.size(); index++) {
    const Value& value = program.values[index];
    const std::string at = "values[" + text(index) + "]";
    if (value.slot == kNone) continue;
    if (value.slot < 0 || static_cast<size_t>(value.slot) >= program.slots.size()) {
      refuse(at + ".slot", "a slot below " + text(program.slots.size()), std::to_string(value.slot));
    }
    const Slot& slot = program.slots[static_cast<size_t>(value.slot)];
    if (value.rows != slot.rows) refuse(at + ".rows", row_kind_name(slot.rows), row_kind_name(value.rows));
    require_range(at + ".stride", value.stride, 1, slot.width);
    require_range(at + ".width", value.width, 1, value.stride);
    require_range(at + ".column", value.column, 0, value.stride - value.width);
  }
}

void check_weights(Program& program) {
  for (size_t index = 0; index < program.weights.size(); index++) {
    Weight& weight = program.weights[index];
    const std::string at = "weights[" + text(index) + "]";
    const BlockShape block = block_shape(weight.type);
    if (block.elements == 0) refuse(at + ".type", "a type that has kernels", text(static_cast<size_t>(weight.type)));
    require_range(at + ".width", weight.width, 1, kWidest);
    require_range(at + ".rows", weight.rows, 1, kWidest);
    if (weight.width % block.elements != 0)
      refuse(at + ".width", "a multiple of " + text(block.elements), text(weight.width));
    weight.row_bytes = weight.width / block.elements * block.bytes;
    weight.size_bytes = checked_multiply(weight.row_bytes, weight.rows, "weight");
  }
}

void check_result(const Program& program, const char* field, Id id, RowKind rows) {
  if (id < 0 || static_cast<size_t>(id) >= program.values.size()) {
    refuse(field, "a value below " + text(program.values.size()), std::to_string(id));
  }
  const Value& value = program.value(id);
  if (value.slot == kNone) refuse(field, "a value with memory", "value " + std::to_string(id) + " without a slot");
  if (value.rows != rows) refuse(std::string(field) + " rows", row_kind_name(rows), row_kind_name(value.rows));
}

}  // namespace

void check_program(Program& program) {
  check_limits(program);
  check_values(program);
  check_weights(program);
  for (size_t index = 0; index < program.ropes.size(); index++) {
    require_range("ropes[" + text(index) + "].stretches", program.ropes[index].stretches.size(), 1, kMaxTokens);
  }
  for (const KvLayerShape& layer : program.kv_layers) {
    if (layer.group >= program.kv_groups.size())
      refuse("kv.groups", "a group of every layer", "layer of group " + text(layer.group));
  }
  for (const KvReach& reach : program.kv_groups) {
    require_range("kv.groups.window", reach.window, 1, SIZE_MAX);
    require_range("kv.groups.chunk", reach.chunk, 1, SIZE_MAX);
  }
  program.angles.clear();
  program.uses_kv = false;
  program.uses_states = false;
  program.is_vector.assign(program.weights.size(), false);
  for (size_t index = 0; index < program.instructions.size(); index++) {
    InstructionCheck check(program, index);
    program.instructions[index]->check(check);
  }
  check_result(program, "hidden", program.hidden, RowKind::outputs);
  if (program.logits == kNone) return;
  check_result(program, "logits", program.logits, RowKind::scored);
  require_equal("logits width", program.vocabulary_size, program.value(program.logits).width);
}

}  // namespace rocmforge
