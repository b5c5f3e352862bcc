// add: the sum of two values. The sum may be written over the second one: each element is read before it is written.

#include "../engine/fields.h"
#include "../engine/instruction-check.h"
#include "../engine/step-run.h"

namespace rocmforge {

namespace {

struct Add final : Instruction {
  Id left;
  Id right;
  Id out;

  explicit Add(const Fields& fields) : left(fields.id("left")), right(fields.id("right")), out(fields.id("out")) {}

  void check(InstructionCheck& check) override {
    const Value& to = check.value("out", out);
    check.require_like("left", to, check.value("left", left));
    check.require_like("right", to, check.value("right", right));
    check.require_apart("out", out, left);
    if (right != out) check.require_apart("out", out, right);
  }

  void run(const StepRun& run, Member& member, const InstructionPlan*) const override {
    const Rows first = run.rows(left);
    const Rows second = run.rows(right);
    const Rows to = run.rows(out);
    for_each_row(member, to.count, to.width,
                 [&](size_t row) { run.row_kernels().add(first.row(row), second.row(row), to.width, to.row(row)); });
  }
};

const InstructionKind kAdd("add", read_as<Add>);

}  // namespace

}  // namespace rocmforge
