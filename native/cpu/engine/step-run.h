// One step as all its threads see it: constant while they run the instructions, except for the memory that the phases
// of an instruction divide between them.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "bound-weights.h"
#include "kv-cache.h"
#include "layout.h"
#include "program.h"
#include "step.h"
#include "team.h"

namespace rocmforge {

/// Rows of f32 in the arena.
struct Rows {
  float* data;
  size_t stride;
  size_t width;
  size_t count;

  float* row(size_t index) const { return data + index * stride; }
};

/// How many rows ahead a loop prefetches that takes a few columns of each row: hardware does not follow such strides.
constexpr size_t kPrefetchRows = 8;

/// Some columns of a row, all lines of them. Inlined: GCC drops calls of functions that do nothing but prefetch.
[[gnu::always_inline]] inline void prefetch_columns(const float* from, size_t columns) {
  for (size_t column = 0; column < columns; column += kLineFloats) __builtin_prefetch(from + column);
}

/// What a run of columns of one row of logits contributes to the row's log-sum.
struct LogitsPart {
  /// The first column that is not finite, or the row's width.
  size_t stray;
  float max;
  double sum;
};

struct StepRun {
  const Program& program;
  const StepInput& step;
  const StepLayout& layout;
  const BoundWeights& weights;
  const KvCache* cache;
  uint8_t* arena;
  StepSize size;
  /// Which token each output row is, and which output row each scored row is.
  std::vector<size_t> output_rows;
  std::vector<size_t> scored_rows;
  /// For each token, its sequence.
  std::vector<uint32_t> sequence_of;
  std::vector<TokenTile> tiles[kTileKinds];
  /// Of the instruction that is running: 0 before and after it.
  std::unique_ptr<std::atomic<uint32_t>[]> counters;
  std::vector<LogitsPart> logits_parts;
  std::vector<OutputRow>& results;

  const RowKernels& row_kernels() const { return *program.kernels->rows; }
  const MatmulKernels& matmul_kernels() const { return *program.kernels->matmul; }
  /// The running instruction's scratch memory of all threads together.
  uint8_t* shared_part() const { return arena + layout.shared; }
  /// The running instruction's scratch memory of one thread.
  uint8_t* thread_part(const Member& member) const {
    return arena + layout.threads + member.index() * layout.thread_bytes;
  }

  Rows rows(Id id) const {
    const Value& value = program.value(id);
    float* slot = reinterpret_cast<float*>(arena + layout.slots[static_cast<size_t>(value.slot)]);
    return {slot + value.column, padded_stride(value.stride), value.width, size.rows[static_cast<size_t>(value.rows)]};
  }

  size_t position(size_t token) const { return static_cast<size_t>(step.positions[token]); }
  /// The blocks that hold a layer of a sequence, in order of position.
  const int32_t* block_table(size_t layer, size_t sequence) const {
    return step.block_tables.data() + step.table_offsets[step.table_of(program.kv_layers[layer].group, sequence)];
  }
};

/// Columns of logits that are one unit of work: fixed, so that sums do not depend on the number of threads.
constexpr size_t kLogitsPart = 8192;

/// Chunks of at least a few thousand floats each, for units of `width` floats.
inline ChunkSizes row_chunks(size_t width) { return {1, 1 + 4096 / (width + 1), SIZE_MAX}; }

/// Runs work(row) for each row of `width` floats, divided between the threads.
template <typename Work>
void for_each_row(Member& member, size_t rows, size_t width, Work&& work) {
  member.phase(rows, row_chunks(width), [&](size_t first, size_t end) {
    for (size_t row = first; row < end; row++) work(row);
  });
}

/// Runs work(head, token), heads outermost: a thread then fills neighbouring tokens of one cell of the KV cache.
template <typename Work>
void for_each_head(Member& member, size_t heads, size_t tokens, size_t head_width, Work&& work) {
  const ChunkSizes chunks = {1, 1 + 256 / (head_width + 1), SIZE_MAX};
  member.phase(heads * tokens, chunks, [&](size_t first, size_t end) {
    for (size_t unit = first; unit < end; unit++) work(unit / tokens, unit % tokens);
  });
}

/// Computes the program's tables of rope angles: before the first instruction.
void compute_rope_angles(const StepRun& run, Member& member);

/// Makes room for the results; on the runner's thread, before the first instruction.
void prepare_outputs(StepRun& run);
/// After the last instruction.
void compute_outputs(StepRun& run, Member& member);

}  // namespace rocmforge
