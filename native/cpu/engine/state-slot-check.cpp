// The check of a step's state slots: every sequence reads a slot or begins with zeros, no slot is written twice, and one
// that is written is read by no other sequence. The same rules as the check in TypeScript, independent of it.

#include <string>

#include "error.h"
#include "step.h"

namespace rocmforge {

namespace {

size_t index_of(int32_t number) { return static_cast<size_t>(number); }

void require_length(const char* where, size_t expected, size_t found) {
  if (expected != found) refuse(where, std::to_string(expected) + " entries", std::to_string(found));
}

/// Marks what a sequence writes.
void check_writes(KvCache& cache, const StepInput& step, size_t sequence, uint32_t number) {
  std::vector<KvCache::SlotWrite>& written = cache.slot_writes();
  const size_t end = index_of(step.sequence_offsets[sequence + 1]);
  for (size_t row = index_of(step.sequence_offsets[sequence]); row < end; row++) {
    const int32_t slot = step.state_writes[row];
    if (slot == -1) continue;
    const std::string where = "step.stateWrites[" + std::to_string(row) + "]";
    if (slot < 0 || index_of(slot) >= written.size())
      refuse(where, "a slot below " + std::to_string(written.size()) + ", or -1", std::to_string(slot));
    KvCache::SlotWrite& mark = written[index_of(slot)];
    if (mark.step == number) refuse(where, "slots that are written once", std::to_string(slot) + " again");
    mark = {number, static_cast<uint32_t>(sequence)};
  }
}

void check_read(KvCache& cache, const StepInput& step, size_t sequence, uint32_t number) {
  const std::vector<KvCache::SlotWrite>& written = cache.slot_writes();
  const int32_t slot = step.state_reads[sequence];
  const bool begins = step.positions[index_of(step.sequence_offsets[sequence])] == 0;
  if (slot == -1 && begins) return;
  const std::string where = "step.stateReads[" + std::to_string(sequence) + "]";
  if (slot < 0 || index_of(slot) >= written.size()) {
    refuse(where, "a slot below " + std::to_string(written.size()) + (begins ? ", or -1" : ""), std::to_string(slot));
  }
  const KvCache::SlotWrite& mark = written[index_of(slot)];
  if (mark.step == number && mark.sequence != sequence)
    refuse(where, "a slot that no other sequence writes in this step", std::to_string(slot));
}

}  // namespace

void check_state_slots(KvCache& cache, const StepInput& step) {
  require_length("step.stateReads", step.sequences(), step.state_reads.size());
  require_length("step.stateWrites", step.tokens.size(), step.state_writes.size());
  const uint32_t number = cache.next_step_number();
  for (size_t sequence = 0; sequence < step.sequences(); sequence++) check_writes(cache, step, sequence, number);
  for (size_t sequence = 0; sequence < step.sequences(); sequence++) check_read(cache, step, sequence, number);
}

}  // namespace rocmforge
