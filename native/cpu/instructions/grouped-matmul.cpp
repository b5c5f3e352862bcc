// grouped-matmul: each slot of a token is multiplied with a matrix of a stack, that of the expert which the router chose
// or of the head. One token reads its own matrices alone, straight to the results. Several tokens are sorted by matrix,
// and a block of a matrix's rows is multiplied with all of its tokens. Gate and up may be joined to a gated linear unit,
// and a token's slots may be added up. Sums and epilogues are in the same order either way, to the bit.

#include "grouped-matmul.h"

#include <algorithm>
#include <cstring>

namespace rocmforge {

namespace {

/// Blocks of rows that a thread takes at once: it goes on with rows that it has prefetched.
constexpr size_t kMaxBlocks = 4;

/// One instruction on one thread.
class GroupedRun {
 public:
  GroupedRun(const StepRun& run, Member& member, const GroupedMatmul& instruction, const GroupedPlan& plan)
      : run_(run),
        member_(member),
        instruction_(instruction),
        plan_(plan),
        input_(run.rows(instruction.input)),
        routing_(instruction.routing == kNone ? Rows{nullptr, 0, 0, 0} : run.rows(instruction.routing)),
        out_(run.rows(instruction.out)),
        part_(run.thread_part(member)) {
    for (size_t stack = 0; stack < 2; stack++) results_[stack] = reinterpret_cast<float*>(part_ + plan.results[stack]);
  }

  void execute() {
    if (plan_.tokens == 1) {
      multiply_one_token();
    } else {
      multiply_sorted();
    }
  }

 private:
  const float* routing_row(size_t token) const { return routing_.data == nullptr ? nullptr : routing_.row(token); }
  const float* input_of(size_t token, size_t slot) const {
    return input_.row(token) + slot * instruction_.input_stride;
  }

  /// The epilogue of one slot's results in rows [first_row, first_row + rows) of its matrix's outputs.
  void apply_epilogue(const MatrixStack& stack, size_t matrix, size_t first_row, size_t rows, float factor,
                      float* results) const {
    const float* const scale = run_.weights.vector(stack.scale);
    const float* const bias = run_.weights.vector(stack.bias);
    const size_t row = matrix * stack.matrix_rows + stack.first_output + first_row;
    const Epilogue epilogue = {scale == nullptr ? 1.0f : scale[matrix], bias == nullptr ? nullptr : bias + row, 0,
                               nullptr};
    if (epilogue.scale != 1.0f || bias != nullptr) run_.row_kernels().epilogue(results, rows, epilogue);
    if (instruction_.weighted) run_.row_kernels().scale(results, rows, factor, results);
  }

  /// Epilogues and the gated linear unit of one slot: the result is in `results[0]`.
  void apply_epilogues(size_t token, size_t slot, size_t matrix, size_t first_row, size_t rows,
                       float* const (&results)[2]) const {
    const float factor = instruction_.weighted ? routing_row(token)[instruction_.slots + slot] : 1.0f;
    for (size_t index = 0; index < instruction_.stacks.size(); index++)
      apply_epilogue(instruction_.stacks[index], matrix, first_row, rows, factor, results[index]);
    if (instruction_.gated)
      run_.row_kernels().glu(instruction_.activation, results[0], false, results[1], rows, results[0]);
  }

  size_t weight_row(const MatrixStack& stack, size_t matrix, size_t row) const {
    return matrix * stack.matrix_rows + stack.first_output + row;
  }

  // One token: a chunk is rows of one slot or of several, or rows of the sum of all slots.

  void multiply_one_token() {
    const size_t outputs = instruction_.outputs;
    std::memset(part_ + plan_.prepared, 0, plan_.own_inputs * kActivationKinds);
    const size_t rows = instruction_.summed ? outputs : instruction_.slots * outputs;
    member_.phase(rows, plan_.chunks, [&](size_t first, size_t end) {
      if (instruction_.summed) return sum_rows(first, end - first);
      while (first < end) {
        const size_t slot = first / outputs;
        const size_t row = first % outputs;
        const size_t count = std::min(end - first, outputs - row);
        multiply_slot(slot, row, count, out_.row(0) + first);
        first += count;
      }
    });
  }

  /// Rows [row, row + count) of one slot's outputs, to `target`.
  void multiply_slot(size_t slot, size_t row, size_t count, float* target) {
    const size_t matrix = matrix_of(routing_row(0), slot, instruction_.matrices);
    float* const results[2] = {target, results_[1]};
    for (size_t index = 0; index < instruction_.stacks.size(); index++) {
      const MatrixStack& stack = instruction_.stacks[index];
      const Matrix& weight = run_.weights.matrix(stack.weight);
      run_.matmul_kernels().gemv(weight, weight_row(stack, matrix, row), count,
                                 own_activations(slot, activation_kind(weight.type)), 0, 1, results[index], count);
    }
    apply_epilogues(0, slot, matrix, row, count, results);
  }

  void sum_rows(size_t row, size_t count) {
    float* const target = out_.row(0) + row;
    multiply_slot(0, row, count, target);
    for (size_t slot = 1; slot < instruction_.slots; slot++) {
      multiply_slot(slot, row, count, results_[0]);
      run_.row_kernels().add(target, results_[0], count, target);
    }
    add_residual(0, row, count, target);
  }

  void add_residual(size_t token, size_t row, size_t count, float* target) const {
    if (instruction_.residual == kNone) return;
    run_.row_kernels().add(target, run_.rows(instruction_.residual).row(token) + row, count, target);
  }

  /// The thread's own activations of the only token, prepared when they are first needed.
  Activations own_activations(size_t slot, size_t kind) const {
    const size_t index = instruction_.input_stride == 0 ? 0 : slot;
    const Activations own = {part_ + plan_.own_activations[kind] + index * plan_.row_bytes[kind],
                             format_of(false, kind),
                             instruction_.width,
                             1,
                             1,
                             plan_.row_bytes[kind]};
    uint8_t& prepared = part_[plan_.prepared + index * kActivationKinds + kind];
    if (prepared == 0) run_.matmul_kernels().quantize(input_of(0, index), 0, 0, 1, own);
    prepared = 1;
    return own;
  }

  // Several tokens, in the order of their matrices.

  void multiply_sorted() {
    const ExpertOrder order(plan_.order, run_.shared_part() + plan_.order_at);
    member_.phase(1, {1, 1, 1}, [&](size_t, size_t) { order.fill(plan_.order, routing_); });
    member_.phase(plan_.order.most_groups(), {1, 1, SIZE_MAX}, [&](size_t first, size_t end) {
      end = std::min<size_t>(end, *order.group_count);
      for (size_t group = first; group < end; group++) quantize(order, order.groups[group]);
    });
    const size_t blocks = (instruction_.outputs + kExpertRows - 1) / kExpertRows;
    member_.phase(plan_.order.most_active() * blocks, {1, 1, kMaxBlocks}, [&](size_t first, size_t end) {
      end = std::min(end, *order.active_count * blocks);
      for (size_t unit = first; unit < end; unit++)
        multiply_block(order, order.active[unit / blocks], unit % blocks * kExpertRows);
    });
    if (instruction_.summed) sum_slots();
  }

  /// Groups of activations of a matrix, all or from one of them on.
  uint8_t* activations_of(const ActiveMatrix& active, size_t kind, size_t pair) const {
    uint8_t* const data = run_.shared_part() + plan_.activations[kind];
    const size_t rows = active.rows_before + (active.gemm ? 0 : pair);
    const size_t panels = active.panels_before + (active.gemm ? pair / plan_.order.panel_tokens : 0);
    return data + rows * plan_.row_bytes[kind] + panels * plan_.panel_bytes[kind];
  }

  void quantize(const ExpertOrder& order, const PairGroup& group) const {
    const ActiveMatrix& active = order.active[group.active];
    const float* rows[kMaxPanelTokens];
    for (size_t index = 0; index < group.pairs; index++) {
      const size_t pair = order.pairs[group.first_pair + index];
      rows[index] = input_of(pair / instruction_.slots, pair % instruction_.slots);
    }
    for (size_t kind = 0; kind < kActivationKinds; kind++) {
      if (!plan_.uses[kind]) continue;
      uint8_t* const target = activations_of(active, kind, group.first_pair - active.first_pair);
      const size_t bytes = active.gemm ? plan_.panel_bytes[kind] : plan_.row_bytes[kind];
      run_.matmul_kernels().quantize_rows(
          rows, {target, format_of(active.gemm, kind), instruction_.width, group.pairs, 1, bytes});
    }
  }

  /// Up to kExpertRows rows of a matrix, from `row` of its outputs on, with all of its pairs.
  void multiply_block(const ExpertOrder& order, const ActiveMatrix& active, size_t row) const {
    const size_t rows = std::min(kExpertRows, instruction_.outputs - row);
    for (size_t first = 0; first < active.count; first += plan_.tile_pairs) {
      const size_t pairs = std::min<size_t>(plan_.tile_pairs, active.count - first);
      for (size_t index = 0; index < instruction_.stacks.size(); index++)
        multiply_stack(instruction_.stacks[index], active, row, rows, first, pairs, results_[index]);
      for (size_t index = 0; index < pairs; index++) {
        const size_t pair = order.pairs[active.first_pair + first + index];
        const size_t token = pair / instruction_.slots;
        const size_t slot = pair % instruction_.slots;
        float* const results[2] = {results_[0] + index * kExpertRows, results_[1] + index * kExpertRows};
        apply_epilogues(token, slot, active.matrix, row, rows, results);
        float* const target = instruction_.summed ? slot_results(pair) : out_.row(token) + slot * instruction_.outputs;
        std::memcpy(target + row, results[0], rows * sizeof(float));
      }
    }
  }

  void multiply_stack(const MatrixStack& stack, const ActiveMatrix& active, size_t row, size_t rows, size_t first,
                      size_t pairs, float* results) const {
    const Matrix& weight = run_.weights.matrix(stack.weight);
    const size_t kind = activation_kind(weight.type);
    const size_t group_pairs = active.gemm ? plan_.order.panel_tokens : 1;
    const Activations activations = {activations_of(active, kind, first),
                                     format_of(active.gemm, kind),
                                     instruction_.width,
                                     pairs,
                                     (pairs + group_pairs - 1) / group_pairs,
                                     active.gemm ? plan_.panel_bytes[kind] : plan_.row_bytes[kind]};
    const size_t first_row = weight_row(stack, active.matrix, row);
    if (active.gemm) {
      run_.matmul_kernels().gemm(weight, first_row, rows, activations, results, kExpertRows,
                                 part_ + plan_.gemm_scratch);
    } else {
      run_.matmul_kernels().gemv(weight, first_row, rows, activations, 0, pairs, results, kExpertRows);
    }
  }

  float* slot_results(size_t pair) const {
    return reinterpret_cast<float*>(run_.shared_part() + plan_.slot_results) + pair * instruction_.outputs;
  }

  void sum_slots() {
    const size_t outputs = instruction_.outputs;
    for_each_row(member_, plan_.tokens, instruction_.slots * outputs, [&](size_t token) {
      run_.row_kernels().sum_runs(slot_results(token * instruction_.slots), instruction_.slots, outputs,
                                  out_.row(token));
      add_residual(token, 0, outputs, out_.row(token));
    });
  }

  const StepRun& run_;
  Member& member_;
  const GroupedMatmul& instruction_;
  const GroupedPlan& plan_;
  const Rows input_;
  const Rows routing_;
  const Rows out_;
  uint8_t* const part_;
  float* results_[2];
};

}  // namespace

void GroupedMatmul::run(const StepRun& run, Member& member, const InstructionPlan* plan) const {
  const GroupedPlan& own = static_cast<const GroupedPlan&>(*plan);
  if (own.tokens != 0) GroupedRun(run, member, *this, own).execute();
}

namespace {

const InstructionKind kGroupedMatmul("grouped-matmul", read_as<GroupedMatmul>);

}  // namespace

}  // namespace rocmforge
