// A compiled program and what it needs to run: scratch memory that grows to the largest step so far, the layout of the
// last size of step, and a profile of where time goes. Steps run on the runner's thread, one at a time.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "bound-weights.h"
#include "kv-cache.h"
#include "layout.h"
#include "memory.h"
#include "program.h"
#include "step.h"

namespace rocmforge {

struct ProfileEntry {
  const char* kind;
  uint64_t calls;
  double milliseconds;
};

class Executor {
 public:
  /// Throws `invalid` for a program that does not pass its check.
  explicit Executor(Program program);

  const Program& program() const { return program_; }
  /// The scratch memory that a step of this size takes at the end of the context. Any thread.
  size_t scratch_bytes(size_t tokens, size_t outputs, size_t scored) const;
  /// Any thread.
  std::vector<ProfileEntry> profile() const;

  /// Throws `memory`, `truncated` or `cancelled`. The step has been checked.
  std::vector<OutputRow> run(const StepInput& step, BoundWeights& weights, const KvCache* cache,
                             const std::atomic<bool>& cancelled);

 private:
  /// Setup, outputs and waiting: what a profile lists besides the kinds of instructions, after them.
  static constexpr size_t kAroundInstructions = 3;
  struct Counter {
    std::atomic<uint64_t> calls{0};
    std::atomic<uint64_t> nanoseconds{0};
  };

  void prepare(const StepSize& size);
  void record(size_t kind, uint64_t nanoseconds);

  Program program_;
  StepSize size_;
  StepLayout layout_;
  bool has_layout_ = false;
  SystemMemory arena_;
  /// What a profile lists, and which entry each instruction counts towards.
  std::vector<const char*> kinds_;
  std::vector<size_t> counter_of_;
  std::unique_ptr<Counter[]> counters_;
};

}  // namespace rocmforge
