// rope: rotates the columns of each head by the token's position.

#include "rotation.h"

namespace rocmforge {

namespace {

struct RopeInstruction final : Instruction {
  Id input;
  size_t heads;
  Rotation rotation;
  Id out;

  explicit RopeInstruction(const Fields& fields)
      : input(fields.id("input")), heads(fields.count("heads")), rotation(fields), out(fields.id("out")) {}

  void check(InstructionCheck& check) override {
    const Value& from = check.value("input", input);
    check.require_rows("input", from, RowKind::tokens);
    check.require_like("out", from, check.value("out", out));
    rotation.check(check);
    check.require_heads("input", from, heads, rotation.head_width);
    check.require_apart("out", out, input);
  }

  void run(const StepRun& run, Member& member, const InstructionPlan*) const override {
    const Rows from = run.rows(input);
    const Rows to = run.rows(out);
    const size_t width = rotation.head_width;
    for_each_head(member, heads, from.count, width, [&](size_t head, size_t token) {
      rotation.rotate(run, token, from.row(token) + head * width, to.row(token) + head * width);
    });
  }
};

const InstructionKind kRope("rope", read_as<RopeInstruction>);

}  // namespace

}  // namespace rocmforge
