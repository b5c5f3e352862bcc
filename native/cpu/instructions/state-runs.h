// How instructions with recurrent states walk a step: a sequence's tokens in runs that end where its state is written.

#pragma once

#include <algorithm>

#include "../engine/scratch.h"
#include "../engine/step-run.h"

namespace rocmforge {

/// Tokens of a sequence between two writes of its state.
struct StateRun {
  size_t first_token;
  size_t tokens;
  /// The state before the first of them; null for zeros.
  const float* from;
  /// Where the state after the last of them belongs; null if it is not needed.
  float* to;
};

/// Calls visit(run) for the runs of a sequence in order. What a run writes is what the next one reads.
template <typename Visit>
void for_each_state_run(const StepRun& run, size_t state, size_t sequence, Visit&& visit) {
  const std::vector<int32_t>& writes = run.step.state_writes;
  const size_t end = static_cast<size_t>(run.step.sequence_offsets[sequence + 1]);
  const auto slot_of = [&](int32_t slot) {
    return slot < 0 ? nullptr : run.cache->state(state, static_cast<size_t>(slot));
  };
  const float* from = slot_of(run.step.state_reads[sequence]);
  size_t first = static_cast<size_t>(run.step.sequence_offsets[sequence]);
  for (size_t token = first; token < end; token++) {
    float* const to = slot_of(writes[token]);
    if (to == nullptr && token + 1 < end) continue;
    visit(StateRun{first, token + 1 - first, from, to});
    from = to;
    first = token + 1;
  }
}

/// How the heads of a step's sequences are divided between threads: whole heads, or slices of their columns if there are
/// fewer heads than keep all threads busy.
struct HeadSlices {
  size_t sequences;
  size_t slices;
  size_t slice_columns;

  HeadSlices(const StepRun& run, size_t heads, size_t columns) : sequences(run.step.sequences()) {
    const size_t wanted = kUnitsPerThread * run.program.threads;
    const size_t most = (columns + kLeastColumns - 1) / kLeastColumns;
    slices = std::clamp<size_t>(wanted / (heads * sequences), 1, most);
    slice_columns = round_up((columns + slices - 1) / slices, kLeastColumns);
    slices = (columns + slice_columns - 1) / slice_columns;
  }

  /// Runs work(sequence, head, first column, end column). Sequences are innermost: long ones are then spread evenly.
  template <typename Work>
  void for_each(Member& member, size_t heads, size_t columns, Work&& work) const {
    member.phase(heads * slices * sequences, {1, 1, SIZE_MAX}, [&](size_t unit, size_t end) {
      for (; unit < end; unit++) {
        const size_t part = unit / sequences;
        const size_t first = part % slices * slice_columns;
        work(unit % sequences, part / slices, first, std::min(columns, first + slice_columns));
      }
    });
  }

 private:
  static constexpr size_t kUnitsPerThread = 4;
  /// Whole vectors of every instruction set, and whole cache lines.
  static constexpr size_t kLeastColumns = 32;
};

/// Heads with a matrix each: of state `state`, elements [head × matrix, (head + 1) × matrix).
struct StateHeads {
  size_t state;
  size_t heads;
  /// Columns of a head, which threads may share.
  size_t columns;
  size_t matrix;
};

struct StateHeadsPlan final : InstructionPlan {
  size_t kernel_scratch = 0;
  /// A state that no slot keeps.
  size_t unkept = 0;

  StateHeadsPlan(const StateHeads& heads, size_t kernel_bytes) {
    ScratchOffsets thread;
    kernel_scratch = thread.take(kernel_bytes);
    unkept = thread.take(heads.matrix * sizeof(float));
    thread_bytes = thread.used();
  }
};

/// Brings all heads through the tokens of their sequences in order: head_of(head) describes a head at the first token of
/// the step, `moved_to` moves a description to another token, and `kernel` computes one run of tokens.
template <typename HeadOf, typename MovedTo, typename Kernel>
void run_state_heads(const StepRun& run, Member& member, const InstructionPlan* plan, const StateHeads& all,
                     HeadOf&& head_of, MovedTo&& moved_to, Kernel&& kernel) {
  const StateHeadsPlan& planned = static_cast<const StateHeadsPlan&>(*plan);
  uint8_t* const part = run.thread_part(member);
  float* const unkept = reinterpret_cast<float*>(part + planned.unkept);
  const HeadSlices slices(run, all.heads, all.columns);
  slices.for_each(member, all.heads, all.columns, [&](size_t sequence, size_t head, size_t first, size_t end) {
    auto one = head_of(head);
    one.first_column = first;
    one.end_column = end;
    const size_t matrix = head * all.matrix;
    for_each_state_run(run, all.state, sequence, [&](const StateRun& tokens) {
      auto moved = moved_to(one, tokens.first_token);
      moved.tokens = tokens.tokens;
      moved.from = tokens.from == nullptr ? nullptr : tokens.from + matrix;
      moved.to = tokens.to == nullptr ? unkept : tokens.to + matrix;
      kernel(moved, part + planned.kernel_scratch);
    });
  });
}

}  // namespace rocmforge
