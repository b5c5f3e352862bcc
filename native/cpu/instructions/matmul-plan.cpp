// Sizes that decide between GEMV and GEMM, and how large a chunk of weight rows is.

#include "matmul-plan.h"

#include <algorithm>

#include "../engine/error.h"
#include "../engine/scratch.h"

namespace rocmforge {

namespace {

/// Weights of one chunk of a GEMV: enough that claiming it costs nothing, little enough that a thread which loses its
/// core in the middle of one does not delay the others for long.
constexpr size_t kMinChunkBytes = size_t{16} << 10;
constexpr size_t kMaxChunkBytes = size_t{512} << 10;
/// Weights of one chunk that several passes of a GEMV read: they stay in the second-level cache.
constexpr size_t kCachedChunkBytes = size_t{192} << 10;
constexpr size_t kRowGranule = 32;
constexpr size_t kSmallRowGranule = 8;
constexpr size_t kGemmGranule = 16;
/// A thread that goes on with the rows that it has prefetched waits less for memory.
constexpr size_t kSmallBatchRows = 4 * kGemmRows;
constexpr size_t kLargeBatchRows = kGemmRows;
/// What GEMM prepares of the tokens for each of its calls pays from here on.
constexpr size_t kFewestLargeBatchRows = 64;
constexpr size_t kTileTokens = 512;
/// Gates of 32 heads of a model 2,048 wide, in Q8_0.
constexpr size_t kFineBytes = size_t{72} << 10;

ChunkSizes chunks_of_rows(const MatmulPlan& plan, size_t unit_bytes) {
  if (plan.gemm && plan.tokens <= kSmallBatchTokens) return {kGemmGranule, kGemmGranule, kSmallBatchRows};
  if (plan.gemm) return {kGemmGranule, kFewestLargeBatchRows, kLargeBatchRows};
  const bool cached = plan.tokens > kGemvTokens;
  const size_t max_bytes = cached ? kCachedChunkBytes : kMaxChunkBytes;
  const size_t granule = kRowGranule * unit_bytes > max_bytes ? kSmallRowGranule : kRowGranule;
  const size_t smallest = cached ? granule : round_up(std::max<size_t>(1, kMinChunkBytes / unit_bytes), granule);
  return {granule, smallest, std::max(smallest, max_bytes / unit_bytes / granule * granule)};
}

void plan_rest(MatmulPlan& plan, const Program& program, const MatmulShape& shape, ScratchOffsets& thread,
               ScratchOffsets& shared) {
  const size_t width = program.value(shape.input).width;
  ScratchOffsets& part = plan.own_activations ? thread : shared;
  plan.rest_activations = part.take(checked_multiply(plan.groups, plan.group_bytes[kQ8Activations], "scratch"));
  plan.rest = thread.take((plan.gemm ? program.kernels->matmul->panel_tokens : 1) * width * sizeof(float));
  size_t rows = 0;
  for (const Id id : shape.weights) {
    if (takes_fine_activations(program, id)) rows = std::max(rows, program.weight(id).rows);
  }
  plan.rest_out = thread.take(checked_multiply(plan.tile_tokens, rows * sizeof(float), "scratch"));
}

void plan_scratch(MatmulPlan& plan, const Program& program, const MatmulShape& shape) {
  const MatmulKernels& kernels = *program.kernels->matmul;
  const size_t width = program.value(shape.input).width;
  const size_t group_tokens = plan.gemm ? kernels.panel_tokens : 1;
  ScratchOffsets thread;
  ScratchOffsets shared;
  if (shape.normed) plan.normed = thread.take(group_tokens * width * sizeof(float));
  for (size_t kind = 0; kind < kActivationKinds; kind++) {
    if (!plan.uses[kind]) continue;
    plan.group_bytes[kind] = kernels.group_bytes(format_of(plan.gemm, kind), width);
    ScratchOffsets& part = plan.own_activations ? thread : shared;
    plan.activations[kind] = part.take(checked_multiply(plan.groups, plan.group_bytes[kind], "scratch"));
  }
  if (plan.gemm) plan.gemm_scratch = thread.take(kernels.gemm_scratch_bytes(width, plan.tile_tokens));
  if (shape.gated) {
    const size_t together = plan.gemm ? std::min(kGemmRows, plan.chunks.largest) : plan.chunks.largest;
    const size_t max_rows = round_up(std::min(together, plan.rows), plan.chunks.granule);
    plan.up = thread.take(checked_multiply(plan.tile_tokens, max_rows * sizeof(float), "scratch"));
  }
  if (plan.fine) plan_rest(plan, program, shape, thread, shared);
  plan.thread_bytes = thread.used();
  plan.shared_bytes = shared.used();
}

}  // namespace

bool takes_fine_activations(const Program& program, Id weight) {
  const Weight& found = program.weight(weight);
  return program.uses_states && !is_plain_float(found.type) && found.size_bytes <= kFineBytes;
}

size_t max_gemv_tokens(const Program& program, const std::vector<Id>& weights) {
  const auto most_of = [&](bool quantized) {
    size_t most = 0;
    for (const Id id : weights) {
      const Weight& weight = program.weight(id);
      if (is_plain_float(weight.type) == quantized) continue;
      most = std::max(most, program.kernels->matmul->max_gemv_tokens(weight.type, weight.width));
    }
    return most;
  };
  // Floats wait for memory up to more tokens; beside quantized weights they take what suits those.
  const size_t quantized = most_of(true);
  return quantized != 0 ? quantized : most_of(false);
}

std::unique_ptr<MatmulPlan> plan_matmul(const Program& program, const MatmulShape& shape, const StepSize& size) {
  const MatmulKernels& kernels = *program.kernels->matmul;
  auto planned = std::make_unique<MatmulPlan>();
  MatmulPlan& plan = *planned;
  plan.tokens = size.of(program.value(shape.input).rows);
  for (const Id weight : shape.weights) plan.uses[activation_kind(program.weight(weight).type)] = true;
  plan.gemm = plan.tokens > max_gemv_tokens(program, shape.weights) && !program.deterministic;
  plan.own_activations = plan.tokens == 1;
  const size_t group_tokens = plan.gemm ? kernels.panel_tokens : 1;
  plan.groups = (plan.tokens + group_tokens - 1) / group_tokens;
  plan.tile_tokens =
      plan.gemm ? std::min(plan.groups * group_tokens, round_up(kTileTokens, group_tokens)) : plan.tokens;

  size_t unit_bytes = 0;
  for (const Id id : shape.weights) {
    const Weight& weight = program.weight(id);
    plan.fine |= takes_fine_activations(program, id);
    plan.rows = shape.gated ? weight.rows : plan.rows + weight.rows;
    unit_bytes = shape.gated ? unit_bytes + weight.row_bytes : std::max(unit_bytes, weight.row_bytes);
  }
  plan.chunks = chunks_of_rows(plan, unit_bytes);
  plan_scratch(plan, program, shape);
  return planned;
}

}  // namespace rocmforge
