// layer-norm: subtracts a row's mean, divides by its standard deviation, then multiplies by a weight and adds a bias.

#include "../engine/fields.h"
#include "../engine/instruction-check.h"
#include "../engine/step-run.h"

namespace rocmforge {

namespace {

struct LayerNorm final : Instruction {
  Id input;
  Id weight;
  Id bias;
  float epsilon;
  Id out;

  explicit LayerNorm(const Fields& fields)
      : input(fields.id("input")),
        weight(fields.id("weight")),
        bias(fields.id_or_none("bias")),
        epsilon(fields.number("epsilon")),
        out(fields.id("out")) {}

  void check(InstructionCheck& check) override {
    const Value& from = check.value("input", input);
    check.require_like("out", from, check.value("out", out));
    check.vector("weight", weight, from.width);
    if (bias != kNone) check.vector("bias", bias, from.width);
    check.require_epsilon(epsilon);
    check.require_apart("out", out, input);
  }

  void run(const StepRun& run, Member& member, const InstructionPlan*) const override {
    const Rows from = run.rows(input);
    const Rows to = run.rows(out);
    const float* const weights = run.weights.vector(weight);
    const float* const biases = run.weights.vector(bias);
    for_each_row(member, from.count, from.width, [&](size_t row) {
      run.row_kernels().layer_norm(from.row(row), weights, biases, from.width, epsilon, to.row(row));
    });
  }
};

const InstructionKind kLayerNorm("layer-norm", read_as<LayerNorm>);

}  // namespace

}  // namespace rocmforge
