// grouped-matmul as its files share it: the instruction, and how it divides a step.

#pragma once

#include <vector>

#include "../engine/fields.h"
#include "../engine/instruction-check.h"
#include "expert-order.h"

namespace rocmforge {

/// Weight rows of an expert that a thread takes at once.
constexpr size_t kExpertRows = 64;
static_assert(kExpertRows <= kGemmRows);

/// A stack of matrices and the epilogue of its results; ids of weights, kNone for none.
struct MatrixStack {
  Id weight;
  /// One factor per matrix.
  Id scale;
  /// One row per matrix.
  Id bias;
  size_t matrix_rows;
  /// The first row of each matrix that is used.
  size_t first_output;

  explicit MatrixStack(const Fields& fields)
      : weight(fields.id("weight")),
        scale(fields.id("scale")),
        bias(fields.id("bias")),
        matrix_rows(fields.count("matrixRows")),
        first_output(fields.count("firstOutput")) {}
};

struct GroupedPlan final : InstructionPlan {
  size_t tokens = 0;
  bool uses[kActivationKinds] = {false, false};
  /// Bytes of a row of activations and of a panel.
  size_t row_bytes[kActivationKinds] = {0, 0};
  size_t panel_bytes[kActivationKinds] = {0, 0};
  ExpertOrderShape order;
  /// Of one token: rows of results in a chunk.
  ChunkSizes chunks;
  /// Pairs that a GEMM takes through a block of rows at once.
  size_t tile_pairs = 0;
  /// Offsets in the shared part: the order, activations of all pairs, results before they are added up.
  size_t order_at = 0;
  size_t activations[kActivationKinds] = {0, 0};
  size_t slot_results = 0;
  /// Inputs of one token: one, or one for each slot.
  size_t own_inputs = 0;
  /// Offsets in a thread's part: which activations of one token are prepared, a byte each; these activations; results of
  /// each stack; scratch memory of GEMM.
  size_t prepared = 0;
  size_t own_activations[kActivationKinds] = {0, 0};
  size_t results[2] = {0, 0};
  size_t gemm_scratch = 0;
};

struct GroupedMatmul final : Instruction {
  Id input;
  /// kNone: slot s has matrix s.
  Id routing;
  size_t slots;
  /// Columns from one slot's input to the next; 0: all slots have the same.
  size_t input_stride;
  size_t outputs;
  /// Results are multiplied by the slot's weight in `routing`.
  bool weighted;
  /// One, or gate and up.
  std::vector<MatrixStack> stacks;
  bool gated;
  Activation activation = Activation::silu;
  /// The results of a token's slots are added up, and a residual to the sum.
  bool summed;
  Id residual;
  Id out;
  /// Filled by the check.
  size_t matrices = 0;
  size_t width = 0;

  explicit GroupedMatmul(const Fields& fields);

  void check(InstructionCheck& check) override;
  std::unique_ptr<InstructionPlan> plan(const Program& program, const StepSize& size) const override;
  void run(const StepRun& run, Member& member, const InstructionPlan* plan) const override;

 private:
  void check_stack(InstructionCheck& check, const MatrixStack& stack);
  void check_out(const InstructionCheck& check, const Value& from) const;
};

}  // namespace rocmforge
