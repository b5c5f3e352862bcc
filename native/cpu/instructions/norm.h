// What rms-norm and layer-norm share: a value that is normed, by rows or by groups of their columns, into another one of
// the same shape.

#pragma once

#include "../engine/fields.h"
#include "../engine/instruction-check.h"
#include "../engine/step-run.h"

namespace rocmforge {

struct Norm : Instruction {
  Id input;
  Id weight;
  float epsilon;
  Id out;

  Norm(const Fields& fields, Id weight)
      : input(fields.id("input")), weight(weight), epsilon(fields.number("epsilon")), out(fields.id("out")) {}

  /// Checks the fields that only one of the norms has, and the widths of its weights.
  virtual void check_weights(InstructionCheck& check, size_t width) const = 0;

  void check(InstructionCheck& check) final {
    const Value& from = check.value("input", input);
    check.require_like("out", from, check.value("out", out));
    check_weights(check, from.width);
    check.require_epsilon(epsilon);
    check.require_apart("out", out, input);
  }

  /// Runs norm(from, to, first column) for each group of `group_width` columns of each row.
  template <typename NormGroup>
  void for_each_group(const StepRun& run, Member& member, size_t group_width, NormGroup&& norm) const {
    const Rows from = run.rows(input);
    const Rows to = run.rows(out);
    const size_t groups = from.width / group_width;
    for_each_row(member, from.count * groups, group_width, [&](size_t unit) {
      const size_t column = unit % groups * group_width;
      const size_t row = unit / groups;
      norm(from.row(row) + column, to.row(row) + column, column);
    });
  }
};

}  // namespace rocmforge
