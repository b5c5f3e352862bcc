// head-columns: some columns of each head, the same ones of all heads.

#include <cstring>

#include "../engine/fields.h"
#include "../engine/instruction-check.h"
#include "../engine/step-run.h"

namespace rocmforge {

namespace {

struct HeadColumns final : Instruction {
  Id input;
  size_t heads;
  size_t offset;
  size_t width;
  Id out;

  explicit HeadColumns(const Fields& fields)
      : input(fields.id("input")),
        heads(fields.count("heads")),
        offset(fields.count("offset")),
        width(fields.count("width")),
        out(fields.id("out")) {}

  void check(InstructionCheck& check) override {
    const Value& from = check.value("input", input);
    const Value& to = check.value("out", out);
    check.require_rows("input", from, to.rows);
    require_range(check.path("width"), width, 1, kWidest);
    check.require_heads("out", to, heads, width);
    if (from.width % heads != 0) refuse(check.path("heads"), "a divisor of " + text(from.width), text(heads));
    require_range(check.path("width"), width, 1, from.width / heads);
    require_range(check.path("offset"), offset, 0, from.width / heads - width);
    check.require_apart("out", out, input);
  }

  void run(const StepRun& run, Member& member, const InstructionPlan*) const override {
    const Rows from = run.rows(input);
    const Rows to = run.rows(out);
    const size_t head_width = from.width / heads;
    for_each_row(member, to.count, to.width, [&](size_t row) {
      for (size_t head = 0; head < heads; head++) {
        std::memcpy(to.row(row) + head * width, from.row(row) + head * head_width + offset, width * sizeof(float));
      }
    });
  }
};

const InstructionKind kHeadColumns("head-columns", read_as<HeadColumns>);

}  // namespace

}  // namespace rocmforge
