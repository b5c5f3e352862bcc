// Offsets of slots, angles and the scratch memory of instructions. Numbers of tokens and rows are bounded by the check
// of the program; sums over instructions and slots are checked here.

#include "layout.h"

#include <algorithm>

#include "error.h"
#include "scratch.h"

namespace rocmforge {

bool StepSize::operator==(const StepSize& other) const {
  return std::equal(rows, rows + kRowKinds, other.rows) && spans == other.spans &&
         std::equal(tiles, tiles + kTileKinds, other.tiles);
}

StepSize size_of(const Program& program, const StepInput& step) {
  StepSize size;
  size.of(RowKind::tokens) = step.tokens.size();
  size.of(RowKind::outputs) = step.outputs.size();
  for (const OutputRequest& output : step.outputs) {
    if (output.want != Want::hidden) size.of(RowKind::scored)++;
  }
  if (!program.uses_kv) return size;
  int32_t highest = 0;
  for (const int32_t position : step.positions) highest = std::max(highest, position);
  size.spans = static_cast<size_t>(highest) / kAttentionSpan + 1;
  for (size_t sequence = 0; sequence + 1 < step.sequence_offsets.size(); sequence++) {
    const size_t tokens = static_cast<size_t>(step.sequence_offsets[sequence + 1] - step.sequence_offsets[sequence]);
    for (size_t kind = 0; kind < kTileKinds; kind++)
      size.tiles[kind] += (tokens + kTileSizes[kind] - 1) / kTileSizes[kind];
  }
  return size;
}

StepSize largest_size(const Program& program, size_t tokens, size_t outputs, size_t scored) {
  StepSize size;
  size.of(RowKind::tokens) = tokens;
  size.of(RowKind::outputs) = outputs;
  size.of(RowKind::scored) = scored;
  if (!program.uses_kv) return size;
  size.spans = (program.context_tokens - 1) / kAttentionSpan + 1;
  for (size_t kind = 0; kind < kTileKinds; kind++) size.tiles[kind] = tokens;
  return size;
}

StepLayout plan_layout(const Program& program, const StepSize& size) {
  StepLayout layout;
  ScratchOffsets arena;
  for (const Slot& slot : program.slots) {
    const size_t floats = checked_multiply(slot.width + kLineFloats, size.of(slot.rows), "scratch");
    layout.slots.push_back(arena.take(checked_multiply(floats, sizeof(float), "scratch")));
  }
  for (const RopeAngles& angles : program.angles) {
    layout.angles.push_back(
        arena.take(checked_multiply(size.of(RowKind::tokens), angles.pairs * 2 * sizeof(float), "scratch")));
  }
  size_t shared_bytes = 0;
  layout.plans.reserve(program.instructions.size());
  for (const std::unique_ptr<Instruction>& instruction : program.instructions) {
    layout.plans.push_back(instruction->plan(program, size));
    const InstructionPlan* const plan = layout.plans.back().get();
    if (plan == nullptr) continue;
    layout.thread_bytes = std::max(layout.thread_bytes, round_up(plan->thread_bytes, kScratchAlignment));
    shared_bytes = std::max(shared_bytes, plan->shared_bytes);
    layout.counters = std::max(layout.counters, plan->counters);
  }
  layout.shared = arena.take(shared_bytes);
  layout.threads = arena.take(checked_multiply(layout.thread_bytes, program.threads, "scratch"));
  layout.size_bytes = arena.used();
  return layout;
}

}  // namespace rocmforge
