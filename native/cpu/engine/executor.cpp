// The interpreter: all threads of the team run the instructions in order, and the work is divided inside each one.
// Everything that can fail is done before the first instruction; after that, cancellation and a shrunken file are
// looked for between two instructions, and a thread that sees one leaves the team (see team.h).

#include "executor.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <utility>

#include "error.h"
#include "step-run.h"
#include "thread-pool.h"

namespace rocmforge {

namespace {

using Clock = std::chrono::steady_clock;

uint64_t nanoseconds_since(Clock::time_point start, Clock::time_point end) {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(end - start).count());
}

void select_rows(StepRun& run) {
  for (size_t output = 0; output < run.step.outputs.size(); output++) {
    run.output_rows.push_back(run.step.outputs[output].row);
    if (run.step.outputs[output].want != Want::hidden) run.scored_rows.push_back(output);
  }
}

void cut_sequences(StepRun& run) {
  const std::vector<int32_t>& offsets = run.step.sequence_offsets;
  run.sequence_of.resize(run.step.tokens.size());
  for (size_t sequence = 0; sequence + 1 < offsets.size(); sequence++) {
    const size_t start = static_cast<size_t>(offsets[sequence]);
    const size_t end = static_cast<size_t>(offsets[sequence + 1]);
    for (size_t token = start; token < end; token++) run.sequence_of[token] = static_cast<uint32_t>(sequence);
    for (size_t kind = 0; kind < kTileKinds; kind++) {
      for (size_t first = start; first < end; first += kTileSizes[kind]) {
        const size_t tokens = std::min(kTileSizes[kind], end - first);
        run.tiles[kind].push_back(
            {static_cast<uint32_t>(sequence), static_cast<uint32_t>(first), static_cast<uint32_t>(tokens)});
      }
    }
  }
}

}  // namespace

Executor::Executor(Program program) : program_(std::move(program)) {
  check_program(program_);
  for (const std::unique_ptr<Instruction>& instruction : program_.instructions) {
    const auto known = std::find(kinds_.begin(), kinds_.end(), instruction->kind());
    counter_of_.push_back(static_cast<size_t>(known - kinds_.begin()));
    if (known == kinds_.end()) kinds_.push_back(instruction->kind());
  }
  for (const char* around : {"setup", "outputs", "waiting"}) kinds_.push_back(around);
  counters_.reset(new Counter[kinds_.size()]);
}

size_t Executor::scratch_bytes(size_t tokens, size_t outputs, size_t scored) const {
  const auto bytes = [&](size_t most) {
    return plan_layout(program_,
                       largest_size(program_, std::min(tokens, most), std::min(outputs, most), std::min(scored, most)))
        .size_bytes;
  };
  // A small batch is divided into longer chunks, and may take more memory than a somewhat larger one.
  return std::max(bytes(SIZE_MAX), bytes(kSmallBatchTokens));
}

std::vector<ProfileEntry> Executor::profile() const {
  std::vector<ProfileEntry> entries;
  for (size_t kind = 0; kind < kinds_.size(); kind++) {
    const uint64_t calls = counters_[kind].calls.load(std::memory_order_relaxed);
    const uint64_t nanoseconds = counters_[kind].nanoseconds.load(std::memory_order_relaxed);
    if (calls > 0) entries.push_back({kinds_[kind], calls, static_cast<double>(nanoseconds) / 1e6});
  }
  return entries;
}

void Executor::record(size_t kind, uint64_t nanoseconds) {
  counters_[kind].calls.fetch_add(1, std::memory_order_relaxed);
  counters_[kind].nanoseconds.fetch_add(nanoseconds, std::memory_order_relaxed);
}

void Executor::prepare(const StepSize& size) {
  if (!has_layout_ || !(size == size_)) {
    has_layout_ = false;
    layout_ = plan_layout(program_, size);
    size_ = size;
    has_layout_ = true;
  }
  if (arena_.size_bytes() >= layout_.size_bytes) return;
  arena_ = SystemMemory();
  arena_ = SystemMemory(layout_.size_bytes, "scratch");
}

std::vector<OutputRow> Executor::run(const StepInput& step, BoundWeights& weights, const KvCache* cache,
                                     const std::atomic<bool>& cancelled) {
  const EngineError truncated = {ErrorCode::truncated, "step: a file of weights has shrunk while it was mapped", 0};
  if (cancelled.load(std::memory_order_acquire)) throw EngineError{ErrorCode::cancelled, "step: cancelled", 0};
  if (weights.truncated()) throw truncated;
  if (weights.closed())
    throw EngineError{ErrorCode::invalid, "step: a region of its weights was disposed while it waited", 0};
  const auto start = Clock::now();
  const size_t setup = kinds_.size() - kAroundInstructions;
  std::vector<OutputRow> results;
  bool left_early = false;
  try {
    prepare(size_of(program_, step));
    StepRun run = {program_, step, layout_, weights, cache, arena_.data(), size_, {}, {}, {}, {}, nullptr, {}, results};
    select_rows(run);
    if (program_.uses_kv) cut_sequences(run);
    run.counters.reset(new std::atomic<uint32_t>[layout_.counters]);
    for (size_t index = 0; index < layout_.counters; index++) run.counters[index].store(0, std::memory_order_relaxed);
    prepare_outputs(run);
    weights.prepare(run.row_kernels());

    ThreadPool::instance().run(program_.threads, [&](Member& member) {
      const bool first = member.index() == 0;
      compute_rope_angles(run, member);
      auto before = start;
      const auto note = [&](size_t kind) {
        if (!first) return;
        const auto now = Clock::now();
        record(kind, nanoseconds_since(before, now));
        before = now;
      };
      note(setup);
      for (size_t index = 0; index < program_.instructions.size(); index++) {
        if (cancelled.load(std::memory_order_relaxed) || weights.truncated()) {
          if (first) left_early = true;
          return;
        }
        program_.instructions[index]->run(run, member, layout_.plans[index].get());
        note(counter_of_[index]);
      }
      compute_outputs(run, member);
      note(setup + 1);
      if (first) record(setup + 2, member.waited_ns());
    });
  } catch (const std::bad_alloc&) {
    throw memory_error("step", 0);
  }
  if (weights.truncated()) throw truncated;
  if (left_early) throw EngineError{ErrorCode::cancelled, "step: cancelled", 0};
  return results;
}

}  // namespace rocmforge
