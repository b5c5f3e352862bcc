// previous-row: the row of the token before each one in its sequence. The first token of a sequence in the step gets the
// state, which is one row; so do all tokens if there is no input.

#include <cstring>

#include "../engine/fields.h"
#include "../engine/instruction-check.h"
#include "../engine/step-run.h"

namespace rocmforge {

namespace {

struct PreviousRow final : Instruction {
  size_t state;
  /// kNone if all tokens get the state.
  Id input;
  size_t width;
  Id out;

  explicit PreviousRow(const Fields& fields)
      : state(fields.count("state")),
        input(fields.id_or_none("input")),
        width(fields.count("width")),
        out(fields.id("out")) {}

  void check(InstructionCheck& check) override {
    const Value& to = check.value("out", out);
    check.require_rows("out", to, RowKind::tokens);
    require_equal(check.path("out width"), width, to.width);
    check.state(state, width);
    if (input == kNone) return;
    check.require_like("input", to, check.value("input", input));
    check.require_apart("out", out, input);
  }

  void run(const StepRun& run, Member& member, const InstructionPlan*) const override {
    const Rows to = run.rows(out);
    for_each_row(member, run.step.sequences(), width, [&](size_t sequence) {
      const size_t first = static_cast<size_t>(run.step.sequence_offsets[sequence]);
      const size_t end = static_cast<size_t>(run.step.sequence_offsets[sequence + 1]);
      const int32_t slot = run.step.state_reads[sequence];
      const float* const held = slot < 0 ? nullptr : run.cache->state(state, static_cast<size_t>(slot));
      for (size_t token = first; token < end; token++) {
        const float* const before = token == first || input == kNone ? held : run.rows(input).row(token - 1);
        if (before == nullptr) {
          std::memset(to.row(token), 0, width * sizeof(float));
        } else {
          std::memcpy(to.row(token), before, width * sizeof(float));
        }
      }
    });
  }
};

const InstructionKind kPreviousRow("previous-row", read_as<PreviousRow>);

}  // namespace

}  // namespace rocmforge
