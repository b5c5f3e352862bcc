// causal-conv: depthwise convolution along each sequence. The state is the last taps − 1 inputs, the oldest first. Threads
// share the columns; a thread takes a block of them through all sequences.

#include <algorithm>
#include <cstring>

#include "../engine/fields.h"
#include "../engine/instruction-check.h"
#include "../engine/scratch.h"
#include "../engine/step-run.h"

namespace rocmforge {

namespace {

/// Columns that a thread takes together: their weights and the state of one sequence stay in the first cache.
constexpr size_t kBlockColumns = 128;
/// Far above every model; bounds the list of rows.
constexpr size_t kMaxTaps = 64;

struct CausalConvPlan final : InstructionPlan {
  size_t weights = 0;
  size_t history = 0;
};

struct CausalConv final : Instruction {
  size_t state;
  Id input;
  /// [taps, columns].
  Id weight;
  Id bias;
  bool silu;
  Id out;
  /// Filled by the check.
  size_t taps = 1;

  explicit CausalConv(const Fields& fields)
      : state(fields.count("state")),
        input(fields.id("input")),
        weight(fields.id("weight")),
        bias(fields.id_or_none("bias")),
        silu(fields.has("activation")),
        out(fields.id("out")) {
    if (silu && fields.text("activation") != "silu")
      refuse(fields.path("activation"), "silu or none", fields.text("activation"));
  }

  void check(InstructionCheck& check) override {
    const Value& from = check.value("input", input);
    check.require_rows("input", from, RowKind::tokens);
    check.require_like("out", from, check.value("out", out));
    taps = check.matrix("weight", weight).width;
    require_range(check.path("weight taps"), taps, 1, kMaxTaps);
    check.vectors("weight", weight, from.width, taps);
    if (bias != kNone) check.elements("bias", bias, from.width);
    check.state(state, (taps - 1) * from.width);
    check.require_apart("out", out, input);
  }

  std::unique_ptr<InstructionPlan> plan(const Program&, const StepSize&) const override {
    auto planned = std::make_unique<CausalConvPlan>();
    ScratchOffsets thread;
    planned->weights = thread.take(taps * kBlockColumns * sizeof(float));
    planned->history = thread.take(taps * kBlockColumns * sizeof(float));
    planned->thread_bytes = thread.used();
    return planned;
  }

  void run(const StepRun& run, Member& member, const InstructionPlan* plan) const override;
};

/// One block of columns.
class ConvBlock {
 public:
  ConvBlock(const StepRun& run, const CausalConv& conv, size_t first_column, float* weights, float* history)
      : run_(run),
        conv_(conv),
        input_(run.rows(conv.input)),
        out_(run.rows(conv.out)),
        column_(first_column),
        columns_(std::min(kBlockColumns, input_.width - first_column)),
        weights_(weights),
        history_(history) {
    const float* const from = run.weights.vector(conv.weight) + first_column * conv.taps;
    for (size_t column = 0; column < columns_; column++) {
      for (size_t tap = 0; tap < conv.taps; tap++) weights_[tap * columns_ + column] = from[column * conv.taps + tap];
    }
    const float* const biases = run.weights.vector(conv.bias);
    bias_ = biases == nullptr ? nullptr : biases + first_column;
  }

  void convolve(size_t sequence) {
    first_ = static_cast<size_t>(run_.step.sequence_offsets[sequence]);
    const size_t end = static_cast<size_t>(run_.step.sequence_offsets[sequence + 1]);
    read_history(run_.step.state_reads[sequence]);
    for (size_t token = first_; token < end; token++) {
      const float* rows[kMaxTaps];
      for (size_t tap = 0; tap < conv_.taps; tap++) rows[tap] = input_before(token, conv_.taps - 1 - tap);
      run_.row_kernels().causal_conv(
          {conv_.taps, columns_, rows, weights_, bias_, conv_.silu, out_.row(token) + column_});
      const int32_t slot = run_.step.state_writes[token];
      if (slot >= 0) write_state(static_cast<size_t>(slot), rows);
    }
  }

 private:
  /// The block of the input that came `back` tokens before a token.
  const float* input_before(size_t token, size_t back) const {
    const size_t index = token - first_;
    if (back <= index) return input_.row(token - back) + column_;
    return history_ + (conv_.taps - 1 + index - back) * columns_;
  }

  /// A copy: the slot may be written while later tokens still need it.
  void read_history(int32_t slot) {
    const size_t rows = conv_.taps - 1;
    if (slot < 0) {
      std::memset(history_, 0, rows * columns_ * sizeof(float));
      return;
    }
    if (rows == 0) return;
    const float* const from = run_.cache->state(conv_.state, static_cast<size_t>(slot)) + column_;
    for (size_t row = 0; row < rows; row++)
      std::memcpy(history_ + row * columns_, from + row * input_.width, columns_ * sizeof(float));
  }

  /// All inputs of a token but the oldest.
  void write_state(size_t slot, const float* const* rows) const {
    if (conv_.taps == 1) return;
    float* const to = run_.cache->state(conv_.state, slot) + column_;
    for (size_t row = 0; row + 1 < conv_.taps; row++)
      std::memcpy(to + row * input_.width, rows[row + 1], columns_ * sizeof(float));
  }

  const StepRun& run_;
  const CausalConv& conv_;
  const Rows input_;
  const Rows out_;
  const size_t column_;
  const size_t columns_;
  float* const weights_;
  float* const history_;
  const float* bias_ = nullptr;
  size_t first_ = 0;
};

const InstructionKind kCausalConv("causal-conv", read_as<CausalConv>);

}  // namespace

void CausalConv::run(const StepRun& run, Member& member, const InstructionPlan* plan) const {
  const CausalConvPlan& planned = static_cast<const CausalConvPlan&>(*plan);
  uint8_t* const part = run.thread_part(member);
  float* const weights = reinterpret_cast<float*>(part + planned.weights);
  float* const history = reinterpret_cast<float*>(part + planned.history);
  const size_t blocks = (run.program.value(input).width + kBlockColumns - 1) / kBlockColumns;
  member.phase(blocks, {1, 1, SIZE_MAX}, [&](size_t block, size_t end) {
    for (; block < end; block++) {
      ConvBlock one(run, *this, block * kBlockColumns, weights, history);
      for (size_t sequence = 0; sequence < run.step.sequences(); sequence++) one.convolve(sequence);
    }
  });
}

}  // namespace rocmforge
