// kv-write: stores each token's keys and values in the KV cache.

#include "kv-store.h"

#include "../engine/fields.h"
#include "../engine/instruction-check.h"

namespace rocmforge {

namespace {

struct KvWrite final : Instruction {
  size_t layer;
  Id key;
  Id value;

  explicit KvWrite(const Fields& fields)
      : layer(fields.count("layer")), key(fields.id("key")), value(fields.id("value")) {}

  void check(InstructionCheck& check) override {
    check.layer(layer);
    check.stored("key", key, check.program().key_width);
    check.stored("value", value, check.program().value_width);
  }

  void run(const StepRun& run, Member& member, const InstructionPlan*) const override {
    const Rows keys = run.rows(key);
    const Rows values = run.rows(value);
    const Program& program = run.program;
    for_each_head(member, program.kv_heads, keys.count, program.key_width, [&](size_t head, size_t token) {
      store_head(run, layer, head, token, keys.row(token) + head * program.key_width,
                 values.row(token) + head * program.value_width);
    });
  }
};

const InstructionKind kKvWrite("kv-write", read_as<KvWrite>);

}  // namespace

}  // namespace rocmforge
