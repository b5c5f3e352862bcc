// state-write: the state after a token is that token's row.

#include <cstring>

#include "../engine/fields.h"
#include "../engine/instruction-check.h"
#include "../engine/step-run.h"

namespace rocmforge {

namespace {

struct StateWrite final : Instruction {
  size_t state;
  Id input;

  explicit StateWrite(const Fields& fields) : state(fields.count("state")), input(fields.id("input")) {}

  void check(InstructionCheck& check) override {
    const Value& from = check.value("input", input);
    check.require_rows("input", from, RowKind::tokens);
    check.state(state, from.width);
  }

  void run(const StepRun& run, Member& member, const InstructionPlan*) const override {
    const Rows from = run.rows(input);
    for_each_row(member, from.count, from.width, [&](size_t token) {
      const int32_t slot = run.step.state_writes[token];
      if (slot < 0) return;
      std::memcpy(run.cache->state(state, static_cast<size_t>(slot)), from.row(token), from.width * sizeof(float));
    });
  }
};

const InstructionKind kStateWrite("state-write", read_as<StateWrite>);

}  // namespace

}  // namespace rocmforge
