// embed: looks up one row of the table for each token of the step and multiplies it by a scale.

#include "../engine/fields.h"
#include "../engine/instruction-check.h"
#include "../engine/step-run.h"

namespace rocmforge {

namespace {

struct Embed final : Instruction {
  Id table;
  float scale;
  Id out;

  explicit Embed(const Fields& fields)
      : table(fields.id("table")), scale(fields.number_or("scale", 1)), out(fields.id("out")) {}

  void check(InstructionCheck& check) override {
    const Value& rows = check.value("out", out);
    const Weight& weight = check.matrix("table", table);
    check.require_rows("out", rows, RowKind::tokens);
    require_equal(check.path("table width"), rows.width, weight.width);
    require_equal(check.path("table rows"), check.program().vocabulary_size, weight.rows);
    check.require_finite("scale", scale);
  }

  void run(const StepRun& run, Member& member, const InstructionPlan*) const override {
    const Rows rows = run.rows(out);
    const Matrix& weight = run.weights.matrix(table);
    for_each_row(member, rows.count, rows.width, [&](size_t row) {
      const size_t token = static_cast<size_t>(run.step.tokens[row]);
      float* const target = rows.row(row);
      run.matmul_kernels().decode_row(weight.type, weight.data + token * weight.row_bytes, weight.width, target);
      if (scale != 1.0f) run.row_kernels().scale(target, rows.width, scale, target);
    });
  }
};

const InstructionKind kEmbed("embed", read_as<Embed>);

}  // namespace

}  // namespace rocmforge
