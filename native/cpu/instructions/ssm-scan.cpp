// ssm-scan: the scan of Mamba-2. Threads share the heads of all sequences; a head goes through the tokens of its sequence
// in order.

#include "../engine/fields.h"
#include "../engine/instruction-check.h"
#include "state-runs.h"

namespace rocmforge {

namespace {

/// Bound the matrix of a head.
constexpr size_t kWidestHead = 4096;
constexpr size_t kWidestState = 4096;

struct SsmScan final : Instruction {
  size_t state;
  Id input;
  Id step;
  Id decay;
  Id bias;
  Id skip;
  size_t heads;
  size_t head_width;
  size_t groups;
  size_t state_width;
  Id out;

  explicit SsmScan(const Fields& fields)
      : state(fields.count("state")),
        input(fields.id("input")),
        step(fields.id("step")),
        decay(fields.id("decay")),
        bias(fields.id("bias")),
        skip(fields.id("skip")),
        heads(fields.count("heads")),
        head_width(fields.count("headWidth")),
        groups(fields.count("groups")),
        state_width(fields.count("stateWidth")),
        out(fields.id("out")) {}

  void check(InstructionCheck& check) override {
    require_range(check.path("heads"), heads, 1, kMaxHeads);
    require_range(check.path("groups"), groups, 1, kMaxHeads);
    require_range(check.path("headWidth"), head_width, 1, kWidestHead);
    require_range(check.path("stateWidth"), state_width, 1, kWidestState);
    if (heads % groups != 0) refuse(check.path("heads"), "a multiple of " + text(groups), text(heads));
    const Value& from = check.value("input", input);
    const Value& steps = check.value("step", step);
    const Value& to = check.value("out", out);
    check.require_rows("input", from, RowKind::tokens);
    check.require_rows("step", steps, RowKind::tokens);
    check.require_rows("out", to, RowKind::tokens);
    require_equal(check.path("input width"), heads * head_width + 2 * groups * state_width, from.width);
    require_equal(check.path("step width"), heads, steps.width);
    check.require_heads("out", to, heads, head_width);
    check.elements("decay", decay, heads);
    check.elements("bias", bias, heads);
    check.elements("skip", skip, heads);
    check.state(state, heads * state_width * head_width);
    check.require_apart("out", out, input);
    check.require_apart("out", out, step);
  }

  std::unique_ptr<InstructionPlan> plan(const Program& program, const StepSize&) const override {
    return std::make_unique<StateHeadsPlan>(all_heads(), program.kernels->rows->ssm_scan_scratch_bytes(state_width));
  }

  void run(const StepRun& run, Member& member, const InstructionPlan* plan) const override {
    run_state_heads(
        run, member, plan, all_heads(), [&](size_t head) { return head_of(run, head); }, moved_to,
        run.row_kernels().ssm_scan);
  }

 private:
  StateHeads all_heads() const { return {state, heads, head_width, state_width * head_width}; }

  /// A head at the first token of the step.
  SsmScanRun head_of(const StepRun& run, size_t head) const {
    const Rows from = run.rows(input);
    const Rows steps = run.rows(step);
    const Rows to = run.rows(out);
    const size_t group = head / (heads / groups);
    SsmScanRun one = {};
    one.state_width = state_width;
    one.head_width = head_width;
    one.x = from.data + head * head_width;
    one.b = from.data + heads * head_width + group * state_width;
    one.c = one.b + groups * state_width;
    one.stride = from.stride;
    one.steps = steps.data + head;
    one.step_stride = steps.stride;
    one.decay = run.weights.vector(decay)[head];
    one.bias = run.weights.vector(bias)[head];
    one.skip = run.weights.vector(skip)[head];
    one.out = to.data + head * head_width;
    one.out_stride = to.stride;
    return one;
  }

  static SsmScanRun moved_to(SsmScanRun one, size_t token) {
    one.x += token * one.stride;
    one.b += token * one.stride;
    one.c += token * one.stride;
    one.steps += token * one.step_stride;
    one.out += token * one.out_stride;
    return one;
  }
};

const InstructionKind kSsmScan("ssm-scan", read_as<SsmScan>);

}  // namespace

}  // namespace rocmforge
