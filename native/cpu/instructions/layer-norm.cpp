// layer-norm: subtracts a row's mean, divides by its standard deviation, then multiplies by a weight and adds a bias.

#include "norm.h"

namespace rocmforge {

namespace {

struct LayerNorm final : Norm {
  Id bias;

  explicit LayerNorm(const Fields& fields) : Norm(fields, fields.id("weight")), bias(fields.id_or_none("bias")) {}

  void check_weights(InstructionCheck& check, size_t width) const override {
    check.vector("weight", weight, width);
    if (bias != kNone) check.vector("bias", bias, width);
  }

  void run(const StepRun& run, Member& member, const InstructionPlan*) const override {
    const size_t width = run.program.value(input).width;
    const float* const weights = run.weights.vector(weight);
    const float* const biases = run.weights.vector(bias);
    for_each_group(run, member, width, [&](const float* from, float* to, size_t) {
      run.row_kernels().layer_norm(from, weights, biases, width, epsilon, to);
    });
  }
};

const InstructionKind kLayerNorm("layer-norm", read_as<LayerNorm>);

}  // namespace

}  // namespace rocmforge
