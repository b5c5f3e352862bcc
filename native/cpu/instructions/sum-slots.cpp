// sum-slots: adds up the columns of the slots of a grouped matmul.

#include "../engine/fields.h"
#include "../engine/instruction-check.h"
#include "../engine/step-run.h"

namespace rocmforge {

namespace {

struct SumSlots final : Instruction {
  Id input;
  size_t slots;
  Id out;

  explicit SumSlots(const Fields& fields)
      : input(fields.id("input")), slots(fields.count("slots")), out(fields.id("out")) {}

  void check(InstructionCheck& check) override {
    const Value& from = check.value("input", input);
    const Value& to = check.value("out", out);
    check.require_rows("input", from, to.rows);
    require_range(check.path("slots"), slots, 1, kWidest);
    require_equal(check.path("input width"), slots * to.width, from.width);
    check.require_apart("out", out, input);
  }

  void run(const StepRun& run, Member& member, const InstructionPlan*) const override {
    const Rows from = run.rows(input);
    const Rows to = run.rows(out);
    for_each_row(member, to.count, from.width,
                 [&](size_t row) { run.row_kernels().sum_runs(from.row(row), slots, to.width, to.row(row)); });
  }
};

const InstructionKind kSumSlots("sum-slots", read_as<SumSlots>);

}  // namespace

}  // namespace rocmforge
