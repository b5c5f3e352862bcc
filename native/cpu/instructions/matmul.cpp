// matmul: norms the input (if there is a norm), quantizes it once, then multiplies it with every weight; the epilogue
// scales, adds bias, soft-caps and adds a residual, or joins gate and up to a gated linear unit. How work is divided is
// in matmul-plan.cpp.

#include <algorithm>
#include <vector>

#include "../engine/instruction-check.h"
#include "../engine/step-run.h"
#include "activation.h"
#include "matmul-plan.h"

namespace rocmforge {

namespace {

/// One weight and the epilogue of its results; ids of weights and values, kNone for none.
struct WeightMatmul {
  Id weight;
  Id scale;
  Id bias;
  float soft_cap;
  Id out;

  explicit WeightMatmul(const Fields& fields)
      : weight(fields.id("weight")),
        scale(fields.id("scale")),
        bias(fields.id("bias")),
        soft_cap(fields.number("softCap")),
        out(fields.id("out")) {}
};

struct Matmul final : Instruction {
  Id input;
  Id norm;
  float epsilon;
  std::vector<WeightMatmul> matmuls;
  /// activation(gate) × up of exactly two matmuls, whose own `out` is kNone.
  bool gated;
  Activation activation = Activation::silu;
  Id gated_out;
  Id residual;

  explicit Matmul(const Fields& fields)
      : input(fields.id("input")),
        norm(fields.id("norm")),
        epsilon(fields.number("epsilon")),
        gated(fields.text("activation") != "none"),
        gated_out(fields.id("gatedOut")),
        residual(fields.id("residual")) {
    if (gated) activation = read_activation(fields, "activation");
    fields.each("matmuls", [this](const Fields& entry) { matmuls.emplace_back(entry); });
  }

  void check(InstructionCheck& check) override;
  std::unique_ptr<InstructionPlan> plan(const Program& program, const StepSize& size) const override;
  void run(const StepRun& run, Member& member, const InstructionPlan* plan) const override;

 private:
  size_t check_weight(InstructionCheck& check, const Value& from, const WeightMatmul& matmul) const;
  void check_gated(const InstructionCheck& check, const Value& from) const;
  void check_residual(const InstructionCheck& check, const Value& from) const;
};

void Matmul::check(InstructionCheck& check) {
  const Value& from = check.value("input", input);
  if (norm != kNone) {
    check.vector("norm", norm, from.width);
    check.require_epsilon(epsilon);
  }
  require_range(check.path("matmuls"), matmuls.size(), 1, kMaxMatmuls);
  if (gated) require_equal(check.path("matmuls with an activation"), 2, matmuls.size());
  size_t rows = 0;
  for (const WeightMatmul& matmul : matmuls) rows += check_weight(check, from, matmul);
  require_range(check.path("matmuls rows in all"), rows, 1, kWidest);
  if (gated) check_gated(check, from);
  if (!gated && gated_out != kNone) refuse(check.path("gatedOut"), "-1", std::to_string(gated_out));
  if (residual != kNone) check_residual(check, from);
  for (size_t left = 0; !gated && left < matmuls.size(); left++) {
    for (size_t right = 0; right < left; right++)
      check.require_apart("matmuls.out", matmuls[left].out, matmuls[right].out);
  }
}

size_t Matmul::check_weight(InstructionCheck& check, const Value& from, const WeightMatmul& matmul) const {
  const Weight& weight = check.matrix("matmuls.weight", matmul.weight);
  require_equal(check.path("matmuls.weight width"), from.width, weight.width);
  if (matmul.scale != kNone) check.vector("matmuls.scale", matmul.scale, 1);
  if (matmul.bias != kNone) check.vector("matmuls.bias", matmul.bias, weight.rows);
  check.require_soft_cap("matmuls.softCap", matmul.soft_cap);
  if (gated) {
    if (matmul.out != kNone) refuse(check.path("matmuls.out"), "-1 with an activation", std::to_string(matmul.out));
    return weight.rows;
  }
  const Value& to = check.value("matmuls.out", matmul.out);
  check.require_rows("matmuls.out", to, from.rows);
  require_equal(check.path("matmuls.out width"), weight.rows, to.width);
  check.require_apart("matmuls.out", matmul.out, input);
  return weight.rows;
}

void Matmul::check_gated(const InstructionCheck& check, const Value& from) const {
  const size_t rows = check.program().weight(matmuls[0].weight).rows;
  require_equal(check.path("matmuls[1] rows"), rows, check.program().weight(matmuls[1].weight).rows);
  const Value& to = check.value("gatedOut", gated_out);
  check.require_rows("gatedOut", to, from.rows);
  require_equal(check.path("gatedOut width"), rows, to.width);
  check.require_apart("gatedOut", gated_out, input);
}

void Matmul::check_residual(const InstructionCheck& check, const Value& from) const {
  const Value& added = check.value("residual", residual);
  check.require_rows("residual", added, from.rows);
  if (gated) refuse(check.path("residual"), "-1 with an activation", std::to_string(residual));
  require_equal(check.path("matmuls with a residual"), 1, matmuls.size());
  const Id out = matmuls[0].out;
  require_equal(check.path("residual width"), check.program().value(out).width, added.width);
  check.require_apart("matmuls.out", out, residual);
}

std::unique_ptr<InstructionPlan> Matmul::plan(const Program& program, const StepSize& size) const {
  MatmulShape shape = {input, norm != kNone, gated, {}};
  for (const WeightMatmul& matmul : matmuls) shape.weights.push_back(matmul.weight);
  return plan_matmul(program, shape, size);
}

/// One instruction on one thread.
class MatmulRun {
 public:
  MatmulRun(const StepRun& run, Member& member, const Matmul& instruction, const MatmulPlan& plan)
      : run_(run),
        member_(member),
        instruction_(instruction),
        plan_(plan),
        input_(run.rows(instruction.input)),
        part_(run.thread_part(member)) {
    uint8_t* const base = plan.own_activations ? part_ : run.shared_part();
    for (size_t kind = 0; kind < kActivationKinds; kind++) {
      activations_[kind] = {
          base + plan.activations[kind], format_of(plan.gemm, kind), input_.width, plan.tokens, plan.groups,
          plan.group_bytes[kind]};
    }
    rests_ = activations_[kQ8Activations];
    rests_.data = base + plan.rest_activations;
    group_tokens_ = plan.gemm ? run.matmul_kernels().panel_tokens : 1;
  }

  void execute() {
    if (!plan_.own_activations) {
      member_.phase(plan_.groups, {1, 1, SIZE_MAX}, [this](size_t first, size_t end) {
        for (size_t group = first; group < end; group++) quantize(group);
      });
    }
    bool prepared = !plan_.own_activations;
    member_.phase(plan_.rows, plan_.chunks, [&](size_t first, size_t end) {
      if (!prepared) quantize(0);
      prepared = true;
      if (instruction_.gated) {
        multiply_gated(first, end - first);
      } else {
        multiply_each(first, end);
      }
    });
  }

 private:
  void quantize(size_t group) {
    const size_t first = group * group_tokens_;
    const size_t tokens = std::min(group_tokens_, plan_.tokens - first);
    const float* rows = input_.row(first);
    size_t stride = input_.stride;
    if (instruction_.norm != kNone) {
      float* const normed = reinterpret_cast<float*>(part_ + plan_.normed);
      const float* weight = run_.weights.vector(instruction_.norm);
      for (size_t token = 0; token < tokens; token++) {
        if (first + token + 1 < plan_.tokens) prefetch_columns(input_.row(first + token + 1), input_.width);
        run_.row_kernels().rms_norm(input_.row(first + token), weight, input_.width, instruction_.epsilon,
                                    normed + token * input_.width);
      }
      rows = normed;
      stride = input_.width;
    }
    for (size_t kind = 0; kind < kActivationKinds; kind++) {
      if (!plan_.uses[kind]) continue;
      Activations only = activations_[kind];
      only.data += group * only.group_bytes;
      only.tokens = tokens;
      only.groups = 1;
      run_.matmul_kernels().quantize(rows, stride, 0, 1, only);
    }
    if (plan_.fine) quantize_rests(group, tokens, rows, stride);
  }

  /// What quantizing has left of a group's tokens, quantized again.
  void quantize_rests(size_t group, size_t tokens, const float* rows, size_t stride) const {
    float* const rests = reinterpret_cast<float*>(part_ + plan_.rest);
    for (size_t token = 0; token < tokens; token++) {
      float* const rest = rests + token * input_.width;
      const float* const row = rows + token * stride;
      run_.row_kernels().quantize_activations(row, input_.width, rest);
      for (size_t column = 0; column < input_.width; column++) rest[column] = row[column] - rest[column];
    }
    Activations only = rests_;
    only.data += group * only.group_bytes;
    only.tokens = tokens;
    only.groups = 1;
    run_.matmul_kernels().quantize(rests, input_.width, 0, 1, only);
  }

  /// Tokens [first_token, first_token + tokens) of a range of weight rows; first_token begins a group.
  void multiply(const WeightMatmul& matmul, size_t first_row, size_t rows, size_t first_token, size_t tokens,
                float* out, size_t out_stride) {
    const Matrix& weight = run_.weights.matrix(matmul.weight);
    multiply_by(activations_[activation_kind(weight.type)], weight, first_row, rows, first_token, tokens, out,
                out_stride);
    if (!takes_fine_activations(run_.program, matmul.weight)) return;
    float* const rests = reinterpret_cast<float*>(part_ + plan_.rest_out);
    multiply_by(rests_, weight, first_row, rows, first_token, tokens, rests, rows);
    for (size_t token = 0; token < tokens; token++) {
      float* const row = out + token * out_stride;
      run_.row_kernels().add(row, rests + token * rows, rows, row);
    }
  }

  void multiply_by(const Activations& activations, const Matrix& weight, size_t first_row, size_t rows,
                   size_t first_token, size_t tokens, float* out, size_t out_stride) const {
    if (!plan_.gemm) {
      run_.matmul_kernels().gemv(weight, first_row, rows, activations, first_token, tokens, out, out_stride);
      return;
    }
    Activations tile = activations;
    tile.data += first_token / group_tokens_ * tile.group_bytes;
    tile.tokens = tokens;
    tile.groups = (tokens + group_tokens_ - 1) / group_tokens_;
    for (size_t row = 0; row < rows; row += kGemmRows) {
      run_.matmul_kernels().gemm(weight, first_row + row, std::min(kGemmRows, rows - row), tile, out + row, out_stride,
                                 part_ + plan_.gemm_scratch);
    }
  }

  /// The epilogue of one token's results in weight rows [first_row, first_row + rows).
  void apply_epilogue(const WeightMatmul& matmul, size_t first_row, size_t rows, float* out,
                      const float* residual) const {
    const float* scale = run_.weights.vector(matmul.scale);
    const float* bias = run_.weights.vector(matmul.bias);
    const Epilogue epilogue = {scale == nullptr ? 1.0f : *scale, bias == nullptr ? nullptr : bias + first_row,
                               matmul.soft_cap, residual};
    const bool changes = epilogue.scale != 1.0f || bias != nullptr || epilogue.soft_cap != 0 || residual != nullptr;
    if (changes) run_.row_kernels().epilogue(out, rows, epilogue);
  }

  /// Rows [first, end) of all matmuls one after the other.
  void multiply_each(size_t first, size_t end) {
    size_t start = 0;
    for (const WeightMatmul& matmul : instruction_.matmuls) {
      const size_t rows = run_.weights.matrix(matmul.weight).rows;
      const size_t from = std::max(first, start);
      const size_t to = std::min(end, start + rows);
      if (from < to) multiply_plain(matmul, from - start, to - from);
      start += rows;
    }
  }

  void multiply_plain(const WeightMatmul& matmul, size_t first_row, size_t rows) {
    const Rows out = run_.rows(matmul.out);
    const bool adds = instruction_.residual != kNone;
    const Rows residual = adds ? run_.rows(instruction_.residual) : Rows{nullptr, 0, 0, 0};
    for_each_tile([&](size_t first_token, size_t tokens) {
      multiply(matmul, first_row, rows, first_token, tokens, out.row(first_token) + first_row, out.stride);
      for (size_t token = first_token; token < first_token + tokens; token++) {
        if (adds && token + kPrefetchRows < first_token + tokens) {
          prefetch_columns(out.row(token + kPrefetchRows) + first_row, rows);
          prefetch_columns(residual.row(token + kPrefetchRows) + first_row, rows);
        }
        apply_epilogue(matmul, first_row, rows, out.row(token) + first_row,
                       adds ? residual.row(token) + first_row : nullptr);
      }
    });
  }

  void multiply_gated(size_t first_row, size_t rows) {
    const size_t together = plan_.gemm ? kGemmRows : rows;
    for (size_t row = 0; row < rows; row += together)
      multiply_gated_rows(first_row + row, std::min(together, rows - row));
  }

  /// The gate is written to the memory of the result; only `up` needs memory of its own.
  void multiply_gated_rows(size_t first_row, size_t rows) {
    const WeightMatmul& gate = instruction_.matmuls[0];
    const WeightMatmul& up = instruction_.matmuls[1];
    const Rows out = run_.rows(instruction_.gated_out);
    float* const ups = reinterpret_cast<float*>(part_ + plan_.up);
    for_each_tile([&](size_t first_token, size_t tokens) {
      multiply(gate, first_row, rows, first_token, tokens, out.row(first_token) + first_row, out.stride);
      multiply(up, first_row, rows, first_token, tokens, ups, rows);
      for (size_t token = 0; token < tokens; token++) {
        float* const gated = out.row(first_token + token) + first_row;
        if (token + kPrefetchRows < tokens) prefetch_columns(gated + kPrefetchRows * out.stride, rows);
        apply_epilogue(gate, first_row, rows, gated, nullptr);
        apply_epilogue(up, first_row, rows, ups + token * rows, nullptr);
        run_.row_kernels().glu(instruction_.activation, gated, false, ups + token * rows, rows, gated);
      }
    });
  }

  template <typename Work>
  void for_each_tile(Work&& work) const {
    for (size_t first = 0; first < plan_.tokens; first += plan_.tile_tokens)
      work(first, std::min(plan_.tile_tokens, plan_.tokens - first));
  }

  const StepRun& run_;
  Member& member_;
  const Matmul& instruction_;
  const MatmulPlan& plan_;
  const Rows input_;
  uint8_t* const part_;
  Activations activations_[kActivationKinds];
  Activations rests_;
  size_t group_tokens_ = 1;
};

void Matmul::run(const StepRun& run, Member& member, const InstructionPlan* plan) const {
  const MatmulPlan& own = static_cast<const MatmulPlan&>(*plan);
  if (own.tokens != 0) MatmulRun(run, member, *this, own).execute();
}

const InstructionKind kMatmul("matmul", read_as<Matmul>);

}  // namespace

}  // namespace rocmforge
