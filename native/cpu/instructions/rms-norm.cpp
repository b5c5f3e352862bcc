// rms-norm: divides each group of columns by its root mean square, then multiplies it by a weight if there is one.

#include "../engine/fields.h"
#include "../engine/instruction-check.h"
#include "../engine/step-run.h"

namespace rocmforge {

namespace {

struct RmsNorm final : Instruction {
  Id input;
  Id weight;
  size_t group_width;
  float epsilon;
  Id out;

  explicit RmsNorm(const Fields& fields)
      : input(fields.id("input")),
        weight(fields.id_or_none("weight")),
        group_width(fields.count("groupWidth")),
        epsilon(fields.number("epsilon")),
        out(fields.id("out")) {}

  void check(InstructionCheck& check) override {
    const Value& from = check.value("input", input);
    check.require_like("out", from, check.value("out", out));
    require_range(check.path("groupWidth"), group_width, 1, from.width);
    if (from.width % group_width != 0)
      refuse(check.path("groupWidth"), "a divisor of " + text(from.width), text(group_width));
    require_range(check.path("groupWidth groups"), from.width / group_width, 1, kMaxHeads);
    if (weight != kNone) check.vector("weight", weight, group_width);
    check.require_epsilon(epsilon);
    check.require_apart("out", out, input);
  }

  void run(const StepRun& run, Member& member, const InstructionPlan*) const override {
    const Rows from = run.rows(input);
    const Rows to = run.rows(out);
    const float* const weights = run.weights.vector(weight);
    const size_t groups = from.width / group_width;
    for_each_row(member, from.count * groups, group_width, [&](size_t unit) {
      const size_t column = unit % groups * group_width;
      const size_t row = unit / groups;
      run.row_kernels().rms_norm(from.row(row) + column, weights, group_width, epsilon, to.row(row) + column);
    });
  }
};

const InstructionKind kRmsNorm("rms-norm", read_as<RmsNorm>);

}  // namespace

}  // namespace rocmforge
