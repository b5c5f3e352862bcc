// A compiled program with what it needs to run: scratch memory that grows to the largest step seen, the layout of the last
// size of step, and a record of where time goes. Steps run on the runner's thread, one at a time.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
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
  /// What a step of this size takes at the end of the context. Any thread.
  size_t scratch_bytes(size_t tokens, size_t outputs, size_t scored) const;
  /// Any thread.
  std::vector<ProfileEntry> profile() const;

  /// Throws `memory`, `truncated` or `cancelled`. The step has been checked.
  std::vector<OutputRow> run(const StepInput& step, BoundWeights& weights, const KvCache* cache,
                             const std::atomic<bool>& cancelled);

 private:
  /// Kinds of instructions, and what stands around them.
  static constexpr size_t kSetup = std::variant_size_v<Instruction>;
  static constexpr size_t kOutputs = kSetup + 1;
  static constexpr size_t kWaiting = kSetup + 2;
  static constexpr size_t kProfiled = kSetup + 3;
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
  Counter counters_[kProfiled];
};

}  // namespace rocmforge
