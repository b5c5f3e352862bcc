// One step's inputs in copies of its own, and its results. `check_step` trusts nothing that comes from the bindings.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kv-cache.h"
#include "program.h"

namespace rocmforge {

enum class Want : uint32_t { candidates, logits, hidden };

struct OutputRequest {
  size_t row = 0;
  Want want = Want::hidden;
  /// Candidates wanted.
  size_t count = 0;
  std::vector<int32_t> bias_ids;
  std::vector<float> bias_values;
  bool masked = false;
  std::vector<uint32_t> allow_mask;
};

struct StepInput {
  std::vector<int32_t> tokens;
  std::vector<int32_t> positions;
  std::vector<int32_t> sequence_offsets;
  std::vector<int32_t> block_tables;
  std::vector<int32_t> table_offsets;
  /// For each sequence the slot with its recurrent states, and for each token the slot that gets them after it; -1: none.
  std::vector<int32_t> state_reads;
  std::vector<int32_t> state_writes;
  std::vector<OutputRequest> outputs;

  size_t sequences() const { return sequence_offsets.size() - 1; }
  /// Which table a sequence has in a cache group: as many tables as sequences serve all groups.
  size_t table_of(size_t group, size_t sequence) const {
    return table_offsets.size() == sequence_offsets.size() ? sequence : group * sequences() + sequence;
  }
};

struct OutputRow {
  enum class Kind : uint32_t { candidates, logits, hidden, not_finite };
  Kind kind = Kind::hidden;
  std::vector<int32_t> ids;
  /// Logits of the candidates, all logits, or the hidden state.
  std::vector<float> values;
  double log_sum = 0;
  /// For not_finite.
  size_t column = 0;
};

/// Throws `invalid`. `cache` may be null for programs that use none; its marks of written blocks are used.
void check_step(const Program& program, KvCache* cache, const StepInput& step);

/// The part of `check_step` for the recurrent states, after that of the sequences. Throws `invalid`.
void check_state_slots(KvCache& cache, const StepInput& step);

}  // namespace rocmforge
