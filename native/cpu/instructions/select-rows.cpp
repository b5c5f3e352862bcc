// select-rows: keeps the rows that are needed further on, from all tokens to the outputs or from those to the scored
// ones.

#include <cstring>

#include "../engine/fields.h"
#include "../engine/instruction-check.h"
#include "../engine/step-run.h"

namespace rocmforge {

namespace {

struct SelectRows final : Instruction {
  Id input;
  Id out;

  explicit SelectRows(const Fields& fields) : input(fields.id("input")), out(fields.id("out")) {}

  void check(InstructionCheck& check) override {
    const Value& from = check.value("input", input);
    const Value& to = check.value("out", out);
    if (to.rows == RowKind::tokens) refuse(check.path("out rows"), "outputs or scored", "tokens");
    check.require_rows("input", from, to.rows == RowKind::outputs ? RowKind::tokens : RowKind::outputs);
    require_equal(check.path("out width"), from.width, to.width);
  }

  void run(const StepRun& run, Member& member, const InstructionPlan*) const override {
    const Rows from = run.rows(input);
    const Rows to = run.rows(out);
    const bool scored = run.program.value(out).rows == RowKind::scored;
    const std::vector<size_t>& kept = scored ? run.scored_rows : run.output_rows;
    for_each_row(member, to.count, to.width,
                 [&](size_t row) { std::memcpy(to.row(row), from.row(kept[row]), to.width * sizeof(float)); });
  }
};

const InstructionKind kSelectRows("select-rows", read_as<SelectRows>);

}  // namespace

}  // namespace rocmforge
