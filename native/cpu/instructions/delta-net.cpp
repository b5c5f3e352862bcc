// delta-net: gated delta net. Threads share the value heads of all sequences; a head goes through the tokens of its
// sequence in order, one by one in deterministic mode.

#include "../engine/fields.h"
#include "../engine/instruction-check.h"
#include "state-runs.h"

namespace rocmforge {

namespace {

/// Bounds the matrix of a head.
constexpr size_t kWidestHead = 4096;

struct DeltaNet final : Instruction {
  size_t state;
  Id input;
  Id alpha;
  Id beta;
  Id decay;
  Id bias;
  size_t key_heads;
  size_t value_heads;
  size_t width;
  bool cyclic;
  float epsilon;
  Id out;

  explicit DeltaNet(const Fields& fields)
      : state(fields.count("state")),
        input(fields.id("input")),
        alpha(fields.id("alpha")),
        beta(fields.id("beta")),
        decay(fields.id("decay")),
        bias(fields.id("bias")),
        key_heads(fields.count("keyHeads")),
        value_heads(fields.count("valueHeads")),
        width(fields.count("headWidth")),
        cyclic(fields.text("keyHeadOrder") == "cyclic"),
        epsilon(fields.number("epsilon")),
        out(fields.id("out")) {
    const std::string order = fields.text("keyHeadOrder");
    if (!cyclic && order != "grouped") refuse(fields.path("keyHeadOrder"), "cyclic or grouped", order);
  }

  void check(InstructionCheck& check) override {
    require_range(check.path("keyHeads"), key_heads, 1, kMaxHeads);
    require_range(check.path("valueHeads"), value_heads, 1, kMaxHeads);
    require_range(check.path("headWidth"), width, 1, kWidestHead);
    if (value_heads % key_heads != 0)
      refuse(check.path("valueHeads"), "a multiple of " + text(key_heads), text(value_heads));
    const Value& from = check.value("input", input);
    const Value& to = check.value("out", out);
    check.require_rows("input", from, RowKind::tokens);
    check.require_rows("out", to, RowKind::tokens);
    require_equal(check.path("input width"), (2 * key_heads + value_heads) * width, from.width);
    check.require_heads("out", to, value_heads, width);
    check_gate(check, "alpha", alpha);
    check_gate(check, "beta", beta);
    check.elements("decay", decay, value_heads);
    check.elements("bias", bias, value_heads);
    check.require_epsilon(epsilon);
    check.state(state, value_heads * width * width);
    check.require_apart("out", out, input);
  }

  /// A column for each value head, which threads read until the last head is done.
  void check_gate(InstructionCheck& check, const char* field, Id id) const {
    const Value& gate = check.value(field, id);
    check.require_rows(field, gate, RowKind::tokens);
    require_equal(check.path(field) + " width", value_heads, gate.width);
    check.require_apart("out", out, id);
  }

  std::unique_ptr<InstructionPlan> plan(const Program& program, const StepSize&) const override {
    return std::make_unique<StateHeadsPlan>(all_heads(), program.kernels->rows->delta_net_scratch_bytes(width));
  }

  void run(const StepRun& run, Member& member, const InstructionPlan* plan) const override {
    run_state_heads(
        run, member, plan, all_heads(), [&](size_t head) { return head_of(run, head); }, moved_to,
        run.row_kernels().delta_net);
  }

 private:
  StateHeads all_heads() const { return {state, value_heads, width, width * width}; }

  /// A head at the first token of the step.
  DeltaNetRun head_of(const StepRun& run, size_t head) const {
    const Rows from = run.rows(input);
    const Rows alphas = run.rows(alpha);
    const Rows betas = run.rows(beta);
    const Rows to = run.rows(out);
    const size_t key_head = cyclic ? head % key_heads : head / (value_heads / key_heads);
    DeltaNetRun one = {};
    one.width = width;
    one.one_by_one = run.program.deterministic;
    one.queries = from.data + key_head * width;
    one.keys = from.data + (key_heads + key_head) * width;
    one.values = from.data + (2 * key_heads + head) * width;
    one.stride = from.stride;
    one.alphas = alphas.data + head;
    one.alpha_stride = alphas.stride;
    one.betas = betas.data + head;
    one.beta_stride = betas.stride;
    one.decay = run.weights.vector(decay)[head];
    one.bias = run.weights.vector(bias)[head];
    one.epsilon = epsilon;
    one.out = to.data + head * width;
    one.out_stride = to.stride;
    return one;
  }

  static DeltaNetRun moved_to(DeltaNetRun one, size_t token) {
    one.queries += token * one.stride;
    one.keys += token * one.stride;
    one.values += token * one.stride;
    one.alphas += token * one.alpha_stride;
    one.betas += token * one.beta_stride;
    one.out += token * one.out_stride;
    return one;
  }
};

const InstructionKind kDeltaNet("delta-net", read_as<DeltaNet>);

}  // namespace

}  // namespace rocmforge
