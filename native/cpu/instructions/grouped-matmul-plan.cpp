// How a grouped matmul is read, checked and planned; grouped-matmul.cpp runs it.

#include <algorithm>

#include "../engine/error.h"
#include "../engine/scratch.h"
#include "activation.h"
#include "grouped-matmul.h"
#include "matmul-plan.h"

namespace rocmforge {

namespace {

constexpr size_t kMaxSlots = 4096;
/// Weights of one chunk of a single token: see matmul-plan.cpp.
constexpr size_t kMinChunkBytes = size_t{16} << 10;
constexpr size_t kMaxChunkBytes = size_t{512} << 10;
constexpr size_t kRowGranule = 16;
constexpr size_t kTilePairs = 256;

ChunkSizes chunks_of_rows(size_t unit_bytes) {
  const size_t smallest = round_up(std::max<size_t>(1, kMinChunkBytes / unit_bytes), kRowGranule);
  return {kRowGranule, smallest, std::max(smallest, kMaxChunkBytes / unit_bytes / kRowGranule * kRowGranule)};
}

}  // namespace

GroupedMatmul::GroupedMatmul(const Fields& fields)
    : input(fields.id("input")),
      routing(fields.id("routing")),
      slots(fields.count("slots")),
      input_stride(fields.count("inputStride")),
      outputs(fields.count("outputs")),
      weighted(fields.flag("weighted")),
      gated(fields.text("activation") != "none"),
      summed(fields.flag("summed")),
      residual(fields.id("residual")),
      out(fields.id("out")) {
  if (gated) activation = read_activation(fields, "activation");
  fields.each("matmuls", [this](const Fields& entry) { stacks.emplace_back(entry); });
}

void GroupedMatmul::check(InstructionCheck& check) {
  const Value& from = check.value("input", input);
  require_range(check.path("slots"), slots, 1, kMaxSlots);
  require_range(check.path("outputs"), outputs, 1, kWidest);
  require_range(check.path("inputStride"), input_stride, 0, kWidest);
  require_equal(check.path("matmuls"), gated ? 2 : 1, stacks.size());
  matrices = width = 0;
  for (const MatrixStack& stack : stacks) check_stack(check, stack);
  require_equal(check.path("input width"), input_stride == 0 ? width : slots * input_stride, from.width);
  if (input_stride != 0) require_range(check.path("inputStride"), input_stride, width, kWidest);
  if (routing == kNone) {
    require_equal(check.path("slots without a routing"), matrices, slots);
    if (weighted) refuse(check.path("weighted"), "a routing with weights", "none");
  } else {
    const Value& chosen = check.value("routing", routing);
    check.require_rows("routing", chosen, from.rows);
    require_equal(check.path("routing width"), 2 * slots, chosen.width);
  }
  check_out(check, from);
}

void GroupedMatmul::check_stack(InstructionCheck& check, const MatrixStack& stack) {
  const Weight& weight = check.matrix("matmuls.weight", stack.weight);
  require_range(check.path("matmuls.matrixRows"), stack.matrix_rows, 1, weight.rows);
  if (weight.rows % stack.matrix_rows != 0)
    refuse(check.path("matmuls.matrixRows"), "a divisor of " + text(weight.rows), text(stack.matrix_rows));
  require_range(check.path("matmuls.firstOutput"), stack.first_output, 0, stack.matrix_rows - 1);
  require_range(check.path("outputs"), outputs, 1, stack.matrix_rows - stack.first_output);
  const size_t count = weight.rows / stack.matrix_rows;
  if (matrices != 0) {
    require_equal(check.path("matmuls[1] matrices"), matrices, count);
    require_equal(check.path("matmuls[1] width"), width, weight.width);
  }
  matrices = count;
  width = weight.width;
  if (stack.scale != kNone) check.vector("matmuls.scale", stack.scale, count);
  if (stack.bias != kNone) check.vectors("matmuls.bias", stack.bias, count, stack.matrix_rows);
}

void GroupedMatmul::check_out(const InstructionCheck& check, const Value& from) const {
  const Value& to = check.value("out", out);
  check.require_rows("out", to, from.rows);
  require_equal(check.path("out width"), summed ? outputs : slots * outputs, to.width);
  check.require_apart("out", out, input);
  if (routing != kNone) check.require_apart("out", out, routing);
  if (residual == kNone) return;
  if (!summed) refuse(check.path("residual"), "-1 unless the slots are added up", std::to_string(residual));
  check.require_like("residual", to, check.value("residual", residual));
  check.require_apart("out", out, residual);
}

std::unique_ptr<InstructionPlan> GroupedMatmul::plan(const Program& program, const StepSize& size) const {
  const MatmulKernels& kernels = *program.kernels->matmul;
  auto planned = std::make_unique<GroupedPlan>();
  GroupedPlan& plan = *planned;
  plan.tokens = size.of(program.value(input).rows);
  size_t unit_bytes = 0;
  for (const MatrixStack& stack : stacks) {
    plan.uses[activation_kind(program.weight(stack.weight).type)] = true;
    unit_bytes += program.weight(stack.weight).row_bytes;
  }
  for (size_t kind = 0; kind < kActivationKinds; kind++) {
    if (!plan.uses[kind]) continue;
    plan.row_bytes[kind] = kernels.group_bytes(format_of(false, kind), width);
    plan.panel_bytes[kind] = kernels.group_bytes(format_of(true, kind), width);
  }
  ScratchOffsets thread;
  ScratchOffsets shared;
  if (plan.tokens == 1) {
    plan.chunks = chunks_of_rows(unit_bytes * (summed ? slots : 1));
    plan.own_inputs = input_stride == 0 ? 1 : slots;
    plan.prepared = thread.take(plan.own_inputs * kActivationKinds);
    for (size_t kind = 0; kind < kActivationKinds; kind++)
      plan.own_activations[kind] = thread.take(plan.own_inputs * plan.row_bytes[kind]);
    const size_t rows = round_up(std::min(plan.chunks.largest, slots * outputs), plan.chunks.granule);
    for (size_t& results : plan.results) results = thread.take(checked_multiply(rows, sizeof(float), "scratch"));
  } else if (plan.tokens > 1) {
    std::vector<Id> weights;
    for (const MatrixStack& stack : stacks) weights.push_back(stack.weight);
    plan.order = {plan.tokens, slots, matrices, kernels.panel_tokens,
                  program.deterministic ? SIZE_MAX : max_gemv_tokens(program, weights)};
    plan.order_at = shared.take(ExpertOrder::size_bytes(plan.order));
    for (size_t kind = 0; kind < kActivationKinds; kind++) {
      const size_t rows = checked_multiply(plan.order.most_rows(), plan.row_bytes[kind], "scratch");
      const size_t panels = checked_multiply(plan.order.most_panels(), plan.panel_bytes[kind], "scratch");
      plan.activations[kind] = shared.take(checked_add(rows, panels, "scratch"));
    }
    if (summed) {
      const size_t floats = checked_multiply(plan.order.pairs(), outputs, "scratch");
      plan.slot_results = shared.take(checked_multiply(floats, sizeof(float), "scratch"));
    }
    plan.tile_pairs = std::min(round_up(plan.order.pairs(), kernels.panel_tokens), kTilePairs);
    for (size_t& results : plan.results) results = thread.take(plan.tile_pairs * kExpertRows * sizeof(float));
    plan.gemm_scratch = thread.take(kernels.gemm_scratch_bytes(width, plan.tile_pairs));
  }
  plan.thread_bytes = thread.used();
  plan.shared_bytes = shared.used();
  return planned;
}

}  // namespace rocmforge
