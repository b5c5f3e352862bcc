// One step as all its threads see it: constant while they walk, except the memory that phases divide between them. The
// run_* functions are the interpreter's instructions; every member calls every one of them in order.

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

/// What a run of columns of one row of logits leaves for the row's log-sum.
struct LogitsPart {
  /// The first column that is not finite, or the row's width.
  size_t stray;
  float highest;
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
  /// Spans that are done of each task of attention that is shared out.
  std::unique_ptr<std::atomic<uint32_t>[]> spans_done;
  std::vector<LogitsPart> logits_parts;
  std::vector<OutputRow>& results;

  const RowKernels& row_kernels() const { return *program.kernels->rows; }
  const ProductKernels& product_kernels() const { return *program.kernels->products; }
  uint8_t* thread_part(const Member& member) const {
    return arena + layout.threads + member.index() * layout.thread_bytes;
  }

  Rows rows(Id id) const {
    const Value& value = program.value(id);
    float* slot = reinterpret_cast<float*>(arena + layout.slots[static_cast<size_t>(value.slot)]);
    return {slot + value.column, value.stride, value.width, size.rows[static_cast<size_t>(value.rows)]};
  }

  /// The blocks of a token's sequence in order of position.
  const int32_t* block_table(size_t sequence) const { return step.block_tables.data() + step.table_offsets[sequence]; }
};

/// Columns of logits that are one unit of work: fixed, so that sums do not depend on the number of threads.
constexpr size_t kLogitsPart = 8192;

/// Pieces of at least a few thousand floats each, for units of `width` floats.
inline Pieces pieces_of(size_t width) { return {1, 1 + 4096 / (width + 1), SIZE_MAX}; }

void run_angles(const StepRun& run, Member& member);
void run_embed(const StepRun& run, Member& member, const Embed& embed);
void run_norm(const StepRun& run, Member& member, const Norm& norm);
void run_project(const StepRun& run, Member& member, const Project& project, const ProjectPlan& plan);
void run_rotate(const StepRun& run, Member& member, const Rotate& rotate);
void run_kv_write(const StepRun& run, Member& member, const KvWrite& write);
void run_rotate_store(const StepRun& run, Member& member, const RotateStore& store);
void run_attention(const StepRun& run, Member& member, const Attention& attention, const AttentionPlan& plan);
void run_swiglu(const StepRun& run, Member& member, const Swiglu& swiglu);
void run_add(const StepRun& run, Member& member, const Add& add);
void run_round(const StepRun& run, Member& member, const RoundActivations& round);
void run_select(const StepRun& run, Member& member, const SelectRows& select);

/// Makes room for the results; on the runner's thread, before the walk.
void prepare_outputs(StepRun& run);
void run_outputs(StepRun& run, Member& member);

}  // namespace rocmforge
