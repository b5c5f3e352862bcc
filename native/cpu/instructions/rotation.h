// Rope as the instructions rope and rope-store share it: which columns of a head are rotated, and by which angles.

#pragma once

#include <cstring>

#include "../engine/fields.h"
#include "../engine/instruction-check.h"
#include "../engine/step-run.h"

namespace rocmforge {

struct Rotation {
  size_t head_width;
  size_t rotary_width;
  /// The first column of each head that is rotated.
  size_t first_column;
  /// Pairs are (2i, 2i + 1), not (i, i + rotary_width / 2), counted from the first column.
  bool adjacent;
  Id rope;
  Id factors;
  /// Which of the step's tables of angles; filled by the check.
  size_t angles = 0;

  explicit Rotation(const Fields& fields)
      : head_width(fields.count("headWidth")),
        rotary_width(fields.count("rotaryWidth")),
        first_column(fields.count_or("firstColumn", 0)),
        adjacent(read_adjacent(fields)),
        rope(fields.id("rope")),
        factors(fields.id_or_none("factors")) {}

  void check(InstructionCheck& check) {
    Program& program = check.program();
    require_range(check.path("headWidth"), head_width, 1, kWidest);
    require_range(check.path("rotaryWidth"), rotary_width, 2, head_width);
    require_range(check.path("firstColumn"), first_column, 0, head_width - rotary_width);
    if (rotary_width % 2 != 0) refuse(check.path("rotaryWidth"), "an even number", text(rotary_width));
    if (rope < 0 || static_cast<size_t>(rope) >= program.ropes.size())
      refuse(check.path("rope"), "a rope below " + text(program.ropes.size()), std::to_string(rope));
    const size_t pairs = rotary_width / 2;
    require_equal(check.path("rope stretches"), pairs, program.ropes[static_cast<size_t>(rope)].stretches.size());
    if (factors != kNone) check.vector("factors", factors, pairs);
    angles = 0;
    const std::vector<RopeAngles>& known = program.angles;
    while (angles < known.size() && (known[angles].rope != rope || known[angles].factors != factors)) angles++;
    if (angles < known.size()) return;
    if (angles == kMaxAngles)
      refuse(check.path("factors"), "at most " + text(kMaxAngles) + " tables of angles", "more");
    program.angles.push_back({rope, factors, pairs});
  }

  static bool read_adjacent(const Fields& fields) {
    const std::string style = fields.text("style");
    if (style != "adjacent" && style != "halves") refuse(fields.path("style"), "adjacent or halves", style);
    return style == "adjacent";
  }

  /// One head of one token.
  void rotate(const StepRun& run, size_t token, const float* input, float* out) const {
    const size_t pairs = rotary_width / 2;
    const float* cosines = reinterpret_cast<const float*>(run.arena + run.layout.angles[angles]) + token * 2 * pairs;
    if (first_column != 0 && out != input) std::memcpy(out, input, first_column * sizeof(float));
    run.row_kernels().rope(input + first_column, cosines, cosines + pairs, pairs, head_width - first_column, adjacent,
                           out + first_column);
  }
};

}  // namespace rocmforge
