// glu: gated linear unit, activation(gate) × up. A gate of one column applies to the whole row.

#include "../engine/instruction-check.h"
#include "../engine/step-run.h"
#include "activation.h"

namespace rocmforge {

namespace {

struct Glu final : Instruction {
  Activation activation;
  Id gate;
  Id up;
  Id out;

  explicit Glu(const Fields& fields)
      : activation(read_activation(fields, "activation")),
        gate(fields.id("gate")),
        up(fields.id("up")),
        out(fields.id("out")) {}

  void check(InstructionCheck& check) override {
    const Value& to = check.value("out", out);
    const Value& gates = check.value("gate", gate);
    check.require_rows("gate", gates, to.rows);
    if (gates.width != 1) check.require_like("gate", to, gates);
    check.require_like("up", to, check.value("up", up));
    check.require_apart("out", out, gate);
    check.require_apart("out", out, up);
  }

  void run(const StepRun& run, Member& member, const InstructionPlan*) const override {
    const Rows gates = run.rows(gate);
    const Rows ups = run.rows(up);
    const Rows to = run.rows(out);
    for_each_row(member, to.count, to.width, [&](size_t row) {
      run.row_kernels().glu(activation, gates.row(row), gates.width == 1, ups.row(row), to.width, to.row(row));
    });
  }
};

const InstructionKind kGlu("glu", read_as<Glu>);

}  // namespace

}  // namespace rocmforge
