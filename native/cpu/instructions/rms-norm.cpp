// rms-norm: divides each group of columns by its root mean square, then multiplies it by a weight if there is one, which
// all groups share or which has columns for each of them.

#include "norm.h"

namespace rocmforge {

namespace {

struct RmsNorm final : Norm {
  size_t group_width;
  /// Whether the weight has an element for each column of a row.
  bool row_weights;

  explicit RmsNorm(const Fields& fields)
      : Norm(fields, fields.id_or_none("weight")),
        group_width(fields.count("groupWidth")),
        row_weights(fields.flag_or("rowWeights", false)) {}

  void check_weights(InstructionCheck& check, size_t width) const override {
    require_range(check.path("groupWidth"), group_width, 1, width);
    if (width % group_width != 0) refuse(check.path("groupWidth"), "a divisor of " + text(width), text(group_width));
    require_range(check.path("groupWidth groups"), width / group_width, 1, kMaxHeads);
    if (weight != kNone) check.elements("weight", weight, row_weights ? width : group_width);
  }

  void run(const StepRun& run, Member& member, const InstructionPlan*) const override {
    const float* const weights = run.weights.vector(weight);
    const bool by_column = row_weights && weights != nullptr;
    for_each_group(run, member, group_width, [&](const float* from, float* to, size_t column) {
      run.row_kernels().rms_norm(from, by_column ? weights + column : weights, group_width, epsilon, to);
    });
  }
};

const InstructionKind kRmsNorm("rms-norm", read_as<RmsNorm>);

}  // namespace

}  // namespace rocmforge
