// quantize-activations: quantizes rows to 8 bits in blocks of 32 and dequantizes them, which is the loss of a q8
// matmul.

#include "../engine/fields.h"
#include "../engine/instruction-check.h"
#include "../engine/step-run.h"

namespace rocmforge {

namespace {

struct QuantizeActivations final : Instruction {
  Id input;
  Id out;

  explicit QuantizeActivations(const Fields& fields) : input(fields.id("input")), out(fields.id("out")) {}

  void check(InstructionCheck& check) override {
    check.require_like("out", check.value("input", input), check.value("out", out));
    check.require_apart("out", out, input);
  }

  void run(const StepRun& run, Member& member, const InstructionPlan*) const override {
    const Rows from = run.rows(input);
    const Rows to = run.rows(out);
    for_each_row(member, to.count, to.width,
                 [&](size_t row) { run.row_kernels().quantize_activations(from.row(row), to.width, to.row(row)); });
  }
};

const InstructionKind kQuantizeActivations("quantize-activations", read_as<QuantizeActivations>);

}  // namespace

}  // namespace rocmforge
