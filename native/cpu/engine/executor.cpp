// The interpreter: all members of the team walk the instructions in order, and what they share is divided inside each one.
// Everything that can fail is done before the walk; during it, cancellation and a shrunken file are looked for between two
// instructions, and a member that sees one simply leaves (see team.h).

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

void run_instruction(const StepRun& run, Member& member, size_t index) {
  struct Visitor {
    const StepRun& run;
    Member& member;
    size_t index;
    void operator()(const Embed& embed) const { run_embed(run, member, embed); }
    void operator()(const Norm& norm) const { run_norm(run, member, norm); }
    void operator()(const Project& project) const { run_project(run, member, project, run.layout.projects[index]); }
    void operator()(const Rotate& rotate) const { run_rotate(run, member, rotate); }
    void operator()(const KvWrite& write) const { run_kv_write(run, member, write); }
    void operator()(const Attention& attention) const {
      run_attention(run, member, attention, run.layout.attentions[index]);
    }
    void operator()(const RotateStore& store) const { run_rotate_store(run, member, store); }
    void operator()(const Swiglu& swiglu) const { run_swiglu(run, member, swiglu); }
    void operator()(const Add& add) const { run_add(run, member, add); }
    void operator()(const RoundActivations& round) const { run_round(run, member, round); }
    void operator()(const SelectRows& select) const { run_select(run, member, select); }
  };
  std::visit(Visitor{run, member, index}, run.program.instructions[index]);
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
        const size_t last_position = static_cast<size_t>(run.step.positions[first + tokens - 1]);
        run.tiles[kind].push_back({static_cast<uint32_t>(sequence), static_cast<uint32_t>(first),
                                   static_cast<uint32_t>(tokens),
                                   static_cast<uint32_t>(last_position / kAttentionSpan + 1)});
      }
    }
  }
}

size_t tasks_together(const StepLayout& layout) {
  size_t most = 0;
  for (const AttentionPlan& plan : layout.attentions) {
    if (plan.split) most = std::max(most, plan.together);
  }
  return most;
}

}  // namespace

Executor::Executor(Program program) : program_(std::move(program)) { check_program(program_); }

size_t Executor::scratch_bytes(size_t tokens, size_t outputs, size_t scored) const {
  const auto bytes = [&](size_t most) {
    return plan_layout(program_,
                       largest_size(program_, std::min(tokens, most), std::min(outputs, most), std::min(scored, most)))
        .size_bytes;
  };
  // A step of few tokens takes longer pieces, and may take more than one of somewhat more tokens.
  return std::max(bytes(SIZE_MAX), bytes(longest_pieces_tokens(program_)));
}

std::vector<ProfileEntry> Executor::profile() const {
  std::vector<ProfileEntry> entries;
  for (size_t kind = 0; kind < kProfiled; kind++) {
    const uint64_t calls = counters_[kind].calls.load(std::memory_order_relaxed);
    if (calls == 0) continue;
    const char* name = kind < kSetup      ? kInstructionKinds[kind]
                       : kind == kSetup   ? "setup"
                       : kind == kOutputs ? "outputs"
                                          : "waiting";
    entries.push_back(
        {name, calls, static_cast<double>(counters_[kind].nanoseconds.load(std::memory_order_relaxed)) / 1e6});
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
  std::vector<OutputRow> results;
  bool left_early = false;
  try {
    prepare(size_of(program_, step));
    StepRun run = {program_, step, layout_, weights, cache, arena_.data(), size_, {}, {}, {}, {}, nullptr, {}, results};
    select_rows(run);
    if (program_.uses_kv) cut_sequences(run);
    const size_t shared_tasks = tasks_together(layout_);
    run.spans_done.reset(new std::atomic<uint32_t>[shared_tasks]);
    for (size_t task = 0; task < shared_tasks; task++) run.spans_done[task].store(0, std::memory_order_relaxed);
    prepare_outputs(run);
    weights.prepare(run.row_kernels());

    ThreadPool::instance().run(program_.threads, [&](Member& member) {
      const bool first = member.index() == 0;
      run_angles(run, member);
      auto before = start;
      const auto note = [&](size_t kind) {
        if (!first) return;
        const auto now = Clock::now();
        record(kind, nanoseconds_since(before, now));
        before = now;
      };
      note(kSetup);
      for (size_t index = 0; index < program_.instructions.size(); index++) {
        if (cancelled.load(std::memory_order_relaxed) || weights.truncated()) {
          if (first) left_early = true;
          return;
        }
        run_instruction(run, member, index);
        note(program_.instructions[index].index());
      }
      run_outputs(run, member);
      note(kOutputs);
      if (first) record(kWaiting, member.waited_ns());
    });
  } catch (const std::bad_alloc&) {
    throw memory_error("step", 0);
  }
  if (weights.truncated()) throw truncated;
  if (left_early) throw EngineError{ErrorCode::cancelled, "step: cancelled", 0};
  return results;
}

}  // namespace rocmforge
