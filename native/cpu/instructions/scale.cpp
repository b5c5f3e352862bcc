// scale: multiplies rows by a number and by a weight of one element.

#include "../engine/fields.h"
#include "../engine/instruction-check.h"
#include "../engine/step-run.h"

namespace rocmforge {

namespace {

struct Scale final : Instruction {
  Id input;
  float factor;
  Id weight;
  Id out;

  explicit Scale(const Fields& fields)
      : input(fields.id("input")),
        factor(fields.number_or("factor", 1)),
        weight(fields.id_or_none("weight")),
        out(fields.id("out")) {}

  void check(InstructionCheck& check) override {
    check.require_like("out", check.value("input", input), check.value("out", out));
    check.require_finite("factor", factor);
    if (weight != kNone) check.vector("weight", weight, 1);
    check.require_apart("out", out, input);
  }

  void run(const StepRun& run, Member& member, const InstructionPlan*) const override {
    const Rows from = run.rows(input);
    const Rows to = run.rows(out);
    const float* const scale = run.weights.vector(weight);
    const float by = scale == nullptr ? factor : factor * *scale;
    for_each_row(member, from.count, from.width,
                 [&](size_t row) { run.row_kernels().scale(from.row(row), from.width, by, to.row(row)); });
  }
};

const InstructionKind kScale("scale", read_as<Scale>);

}  // namespace

}  // namespace rocmforge
