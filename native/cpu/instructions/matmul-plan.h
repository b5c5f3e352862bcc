// How a matmul instruction divides a step: GEMV for small batches (and every batch in deterministic mode), GEMM for
// large ones, and the weight rows of one chunk of work.

#pragma once

#include <cstddef>
#include <vector>

#include "../engine/layout.h"
#include "../engine/team.h"

namespace rocmforge {

/// The two forms of activations: quantized for quantized weights, f32 for plain floats.
enum ActivationKind : size_t { kQ8Activations = 0, kF32Activations = 1 };
constexpr size_t kActivationKinds = 2;

inline ActivationKind activation_kind(TensorType weight) {
  return is_plain_float(weight) ? kF32Activations : kQ8Activations;
}

inline ActivationFormat format_of(bool gemm, size_t kind) {
  if (kind == kQ8Activations) return gemm ? ActivationFormat::q8_panels : ActivationFormat::q8_rows;
  return gemm ? ActivationFormat::f32_panels : ActivationFormat::f32_rows;
}

struct MatmulPlan final : InstructionPlan {
  size_t tokens = 0;
  bool gemm = false;
  /// Every thread prepares the activations for itself, because that takes less time than handing them over.
  bool own_activations = false;
  bool uses[kActivationKinds] = {false, false};
  size_t groups = 0;
  size_t group_bytes[kActivationKinds] = {0, 0};
  /// Weight rows of all matmuls one after the other; of one matmul if gated.
  size_t rows = 0;
  ChunkSizes chunks;
  /// Tokens that a GEMM takes through a chunk of weight rows at once, so that a thread's part stays small.
  size_t tile_tokens = 0;
  /// Offsets of the activations: in a thread's part if they are its own, else in the shared part.
  size_t activations[kActivationKinds] = {0, 0};
  /// Offsets in a thread's part.
  size_t normed = 0;
  size_t gemm_scratch = 0;
  size_t up = 0;
  /// Whether a weight takes finer activations (`takes_fine_activations`): what the 8 bits leave of each
  /// token is quantized as well, and multiplied in a second pass.
  bool fine = false;
  /// Where the rests of tokens are quantized to (beside the activations), computed and multiplied.
  size_t rest_activations = 0;
  size_t rest = 0;
  size_t rest_out = 0;
};

/// Whether a quantized weight takes finer activations: small ones of programs with recurrent states. Those of real models
/// are gates of heads, whose errors a state keeps and compounds, and cost next to nothing.
bool takes_fine_activations(const Program& program, Id weight);

/// What the plan of a matmul instruction depends on besides the size of the step.
struct MatmulShape {
  Id input;
  bool normed;
  bool gated;
  /// In order; gate and up if gated.
  std::vector<Id> weights;
};

/// The largest batch for which GEMV is faster than GEMM over all of these weights.
size_t max_gemv_tokens(const Program& program, const std::vector<Id>& weights);

std::unique_ptr<MatmulPlan> plan_matmul(const Program& program, const MatmulShape& shape, const StepSize& size);

}  // namespace rocmforge
