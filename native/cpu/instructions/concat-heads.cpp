// concat-heads: for each head, columns of one value followed by columns of another.

#include <cstring>

#include "../engine/fields.h"
#include "../engine/instruction-check.h"
#include "../engine/step-run.h"

namespace rocmforge {

namespace {

struct ConcatHeads final : Instruction {
  Id left;
  Id right;
  size_t heads;
  size_t left_width;
  size_t right_width;
  /// Columns from one head of `right` to the next; 0: all heads get the same columns.
  size_t right_stride;
  size_t right_offset;
  Id out;

  explicit ConcatHeads(const Fields& fields)
      : left(fields.id("left")),
        right(fields.id("right")),
        heads(fields.count("heads")),
        left_width(fields.count("leftWidth")),
        right_width(fields.count("rightWidth")),
        right_stride(fields.count("rightStride")),
        right_offset(fields.count("rightOffset")),
        out(fields.id("out")) {}

  void check(InstructionCheck& check) override {
    const Value& first = check.value("left", left);
    const Value& second = check.value("right", right);
    const Value& to = check.value("out", out);
    check.require_rows("left", first, to.rows);
    check.require_rows("right", second, to.rows);
    require_range(check.path("leftWidth"), left_width, 1, kWidest);
    require_range(check.path("rightWidth"), right_width, 1, kWidest);
    require_range(check.path("rightStride"), right_stride, 0, kWidest);
    require_range(check.path("rightOffset"), right_offset, 0, kWidest);
    check.require_heads("left", first, heads, left_width);
    check.require_heads("out", to, heads, left_width + right_width);
    if (right_stride != 0) require_range(check.path("rightStride"), right_stride, right_offset + right_width, kWidest);
    require_equal(check.path("right width"), right_stride == 0 ? right_offset + right_width : heads * right_stride,
                  second.width);
    check.require_apart("out", out, left);
    check.require_apart("out", out, right);
  }

  void run(const StepRun& run, Member& member, const InstructionPlan*) const override {
    const Rows first = run.rows(left);
    const Rows second = run.rows(right);
    const Rows to = run.rows(out);
    for_each_row(member, to.count, to.width, [&](size_t row) {
      for (size_t head = 0; head < heads; head++) {
        float* const target = to.row(row) + head * (left_width + right_width);
        std::memcpy(target, first.row(row) + head * left_width, left_width * sizeof(float));
        std::memcpy(target + left_width, second.row(row) + head * right_stride + right_offset,
                    right_width * sizeof(float));
      }
    });
  }
};

const InstructionKind kConcatHeads("concat-heads", read_as<ConcatHeads>);

}  // namespace

}  // namespace rocmforge
