// rms-norm: divides each group of columns by its root mean square, then multiplies it by a weight if there is one.

#include "norm.h"

namespace rocmforge {

namespace {

struct RmsNorm final : Norm {
  size_t group_width;

  explicit RmsNorm(const Fields& fields)
      : Norm(fields, fields.id_or_none("weight")), group_width(fields.count("groupWidth")) {}

  void check_weights(InstructionCheck& check, size_t width) const override {
    require_range(check.path("groupWidth"), group_width, 1, width);
    if (width % group_width != 0) refuse(check.path("groupWidth"), "a divisor of " + text(width), text(group_width));
    require_range(check.path("groupWidth groups"), width / group_width, 1, kMaxHeads);
    if (weight != kNone) check.vector("weight", weight, group_width);
  }

  void run(const StepRun& run, Member& member, const InstructionPlan*) const override {
    const float* const weights = run.weights.vector(weight);
    for_each_group(run, member, group_width, [&](const float* from, float* to) {
      run.row_kernels().rms_norm(from, weights, group_width, epsilon, to);
    });
  }
};

const InstructionKind kRmsNorm("rms-norm", read_as<RmsNorm>);

}  // namespace

}  // namespace rocmforge
