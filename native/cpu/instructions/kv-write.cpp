// kv-write: stores each token's keys and values in the KV cache; keys alone if the values are columns of them.

#include "kv-store.h"

#include "../engine/fields.h"
#include "../engine/instruction-check.h"

namespace rocmforge {

namespace {

struct KvWrite final : Instruction {
  size_t layer;
  Id key;
  /// kNone if the values are in the keys.
  Id value;

  explicit KvWrite(const Fields& fields)
      : layer(fields.count("layer")), key(fields.id("key")), value(fields.id_or_none("value")) {}

  void check(InstructionCheck& check) override {
    const KvLayerShape& shape = check.layer(layer);
    check.stored("key", key, shape.kv_heads, shape.key_width);
    if ((value == kNone) != (shape.value_width == 0))
      refuse(check.path("value"), shape.value_width == 0 ? "none, because the values are in the keys" : "a value",
             std::to_string(value));
    if (value != kNone) check.stored("value", value, shape.kv_heads, shape.value_width);
  }

  void run(const StepRun& run, Member& member, const InstructionPlan*) const override {
    const Rows keys = run.rows(key);
    const Rows values = value == kNone ? keys : run.rows(value);
    const KvLayerShape& shape = run.program.kv_layers[layer];
    for_each_head(member, shape.kv_heads, keys.count, shape.key_width, [&](size_t head, size_t token) {
      store_head(run, layer, head, token, keys.row(token) + head * shape.key_width,
                 values.row(token) + head * shape.value_width);
    });
  }
};

const InstructionKind kKvWrite("kv-write", read_as<KvWrite>);

}  // namespace

}  // namespace rocmforge
