// How a step of a given size uses scratch memory, decided before it runs. Offsets are bytes from the start of the
// program's arena. Instructions run one after the other, so they use the same shared part and the same part of each
// thread.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "instruction.h"
#include "program.h"
#include "step.h"

namespace rocmforge {

/// Tiles of 8, 4, 2 and 1 tokens: what fits kAttentionRows for 1, 2, 3 or 4, and more query heads per KV head.
constexpr size_t kTileSizes[] = {8, 4, 2, 1};
constexpr size_t kTileKinds = 4;
static_assert(kTileSizes[0] == kAttentionRows);

/// Up to this many tokens, a GEMM waits for memory, and chunks of more weight rows are worth their scratch memory.
constexpr size_t kSmallBatchTokens = 64;

/// Rows that lie whole pages apart meet in a few sets of the caches, and push one another out: an odd number of lines
/// between them is left. Floats of a page, and of a line.
constexpr size_t kPageFloats = 1024;
constexpr size_t kLineFloats = 16;

/// Floats from one row of a value to the next.
inline size_t padded_stride(size_t stride) { return stride % kPageFloats == 0 ? stride + kLineFloats : stride; }

/// Everything that the layout of a step depends on.
struct StepSize {
  size_t rows[kRowKinds] = {0, 0, 0};
  /// Spans of positions that the longest sequence has.
  size_t spans = 0;
  /// How many tiles of each size the sequences come to.
  size_t tiles[kTileKinds] = {0, 0, 0, 0};

  size_t& of(RowKind kind) { return rows[static_cast<size_t>(kind)]; }
  size_t of(RowKind kind) const { return rows[static_cast<size_t>(kind)]; }
  bool operator==(const StepSize& other) const;
};

/// Consecutive tokens of one sequence whose queries attend together.
struct TokenTile {
  uint32_t sequence;
  uint32_t first_token;
  uint32_t tokens;
};

struct StepLayout {
  std::vector<size_t> slots;
  std::vector<size_t> angles;
  /// What an instruction's threads share.
  size_t shared = 0;
  /// The parts of the threads.
  size_t threads = 0;
  size_t thread_bytes = 0;
  size_t size_bytes = 0;
  /// The most shared counters of an instruction.
  size_t counters = 0;
  /// By instruction.
  std::vector<std::unique_ptr<const InstructionPlan>> plans;
};

StepSize size_of(const Program& program, const StepInput& step);
/// The largest step of `tokens` tokens: at the end of the context, each token a sequence of its own.
StepSize largest_size(const Program& program, size_t tokens, size_t outputs, size_t scored);

/// Throws `memory` for sizes beyond any machine.
StepLayout plan_layout(const Program& program, const StepSize& size);

}  // namespace rocmforge
