// A network of experts as whole steps: against plain loops in double precision, bit-exact across chunks and threads in
// deterministic mode, with numbers of experts that no expert has, and with instructions that are to be refused.

#include <cmath>
#include <functional>

#include "engine-fixture.h"

using namespace rocmforge;

namespace {

constexpr size_t kExperts = 7;
constexpr size_t kSlots = 3;
constexpr size_t kExpertWidth = 96;

struct ExpertOptions {
  TensorType type = TensorType::f32;
  size_t threads = 2;
  bool deterministic = false;
  const char* isa = nullptr;
  /// Gate, up and activation are one instruction, and so are down, sum and residual.
  bool joined = true;
  /// The routing is the embedding itself, whose numbers are those of no experts.
  bool hostile = false;
};

FieldMap stack_of(Id weight, size_t rows, size_t first = 0) {
  return FieldMap(
      {{"weight", weight}, {"scale", kNone}, {"bias", kNone}, {"matrixRows", rows}, {"firstOutput", first}});
}

FieldMap grouped_of(Id input, Id routing, size_t stride, size_t outputs, std::vector<FieldMap> stacks, Id out) {
  FieldMap one("grouped-matmul",
               {{"input", input},
                {"routing", routing},
                {"slots", kSlots},
                {"inputStride", stride},
                {"outputs", outputs},
                {"weighted", 0},
                {"summed", 0},
                {"residual", kNone},
                {"out", out}},
               std::move(stacks));
  one.set_text("activation", "none");
  return one;
}

/// embed → router → gate and up → down → sum with the embedding; the hidden state is the result.
ProgramSpec expert_spec(const ExpertOptions& options) {
  ProgramSpec program;
  program.kernels = options.isa == nullptr ? &kernel_tables().front() : find_kernel_table(options.isa);
  program.threads = options.threads;
  program.deterministic = options.deterministic;
  program.vocabulary_size = kVocabulary;
  program.max_tokens = 1024;
  program.max_outputs = 64;
  program.context_tokens = kContext;
  const Id x = program.value_of(kWidth);
  program.fields.push_back(
      FieldMap("embed", {{"table", program.weight_of(TensorType::f32, kWidth, kVocabulary)}, {"out", x}}));
  const Id logits = program.value_of(kExperts);
  program.add_matmuls(x, {ProgramSpec::matmul_of(program.weight_of(TensorType::f32, kWidth, kExperts), logits)}, {});
  Id routing = program.value_of(2 * kSlots);
  program.fields.push_back(FieldMap("route-experts", {{"input", logits},
                                                      {"bias", program.vector_of(kExperts)},
                                                      {"used", kSlots},
                                                      {"renormalize", 1},
                                                      {"scale", 1.5},
                                                      {"out", routing}}));
  program.fields.back().set_text("gating", "sigmoid");
  if (options.hostile) {
    // The first columns of the embedding as they are, and times a number that makes them large or infinite.
    const Id large = program.value_of(kWidth);
    program.fields.push_back(FieldMap("scale", {{"input", x}, {"factor", 3e38}, {"out", large}}));
    program.values.push_back({static_cast<Id>(large), 0, 2 * kSlots, kWidth, RowKind::tokens});
    program.values.back().slot = program.values[static_cast<size_t>(large)].slot;
    routing = static_cast<Id>(program.values.size() - 1);
  }
  const Id gate = program.weight_of(options.type, kWidth, kExperts * 2 * kExpertWidth);
  const Id up = program.weight_of(TensorType::f16, kWidth, kExperts * kExpertWidth);
  const Id down = program.weight_of(options.type, kExpertWidth, kExperts * kWidth);
  FieldMap gates = stack_of(gate, 2 * kExpertWidth, kExpertWidth);
  FieldMap ups = stack_of(up, kExpertWidth);
  FieldMap downs = stack_of(down, kWidth);
  gates["bias"] = program.weight_of(TensorType::f32, 2 * kExpertWidth, kExperts);
  ups["scale"] = program.vector_of(kExperts);
  downs["bias"] = program.weight_of(TensorType::f16, kWidth, kExperts);
  const Id gated = program.value_of(kSlots * kExpertWidth);
  const Id out = program.value_of(kWidth);
  if (options.joined) {
    program.fields.push_back(grouped_of(x, routing, 0, kExpertWidth, {gates, ups}, gated));
    program.fields.back().set_text("activation", "swiglu-oai");
    program.fields.push_back(grouped_of(gated, routing, kExpertWidth, kWidth, {downs}, out));
    program.fields.back()["weighted"] = program.fields.back()["summed"] = 1;
    program.fields.back()["residual"] = x;
  } else {
    const Id gate_out = program.value_of(kSlots * kExpertWidth), up_out = program.value_of(kSlots * kExpertWidth);
    const Id down_out = program.value_of(kSlots * kWidth), sum = program.value_of(kWidth);
    program.fields.push_back(grouped_of(x, routing, 0, kExpertWidth, {gates}, gate_out));
    program.fields.push_back(grouped_of(x, routing, 0, kExpertWidth, {ups}, up_out));
    program.fields.push_back(FieldMap("glu", {{"gate", gate_out}, {"up", up_out}, {"out", gated}}));
    program.fields.back().set_text("activation", "swiglu-oai");
    program.fields.push_back(grouped_of(gated, routing, kExpertWidth, kWidth, {downs}, down_out));
    program.fields.back()["weighted"] = 1;
    program.fields.push_back(FieldMap("sum-slots", {{"input", down_out}, {"slots", kSlots}, {"out", sum}}));
    program.fields.push_back(FieldMap("add", {{"left", sum}, {"right", x}, {"out", out}}));
  }
  program.hidden = program.value_of(kWidth, RowKind::outputs);
  program.fields.push_back(FieldMap("select-rows", {{"input", out}, {"out", program.hidden}}));
  return program;
}

/// The tokens of a step whose hidden states are asked for: the last 60.
StepInput expert_step(size_t first, size_t tokens) {
  StepInput step;
  step.sequence_offsets = {0, static_cast<int32_t>(tokens)};
  for (size_t index = 0; index < tokens; index++) {
    step.tokens.push_back(token_at(0, first + index));
    step.positions.push_back(static_cast<int32_t>(first + index));
    if (index + 60 < tokens) continue;
    step.outputs.push_back({});
    step.outputs.back().row = index;
  }
  return step;
}

std::vector<OutputRow> run_step(const Model& model, const StepInput& step) {
  check_step(model.executor->program(), nullptr, step);
  const std::atomic<bool> cancelled{false};
  return model.executor->run(step, *model.weights, nullptr, cancelled);
}

/// Weights of a model as numbers.
std::vector<std::vector<double>> weights_of(const Model& model) {
  std::vector<std::vector<double>> all;
  const Program& program = model.executor->program();
  for (size_t id = 0; id < program.weights.size(); id++) {
    const Weight& weight = program.weights[id];
    const Matrix& matrix = model.weights->matrix(static_cast<Id>(id));
    std::vector<float> row(weight.width);
    all.emplace_back();
    for (size_t index = 0; index < weight.rows; index++) {
      kernel_tables().back().matmul->decode_row(weight.type, matrix.data + index * matrix.row_bytes, weight.width,
                                                row.data());
      all.back().insert(all.back().end(), row.begin(), row.end());
    }
  }
  return all;
}

double dot(const std::vector<double>& weight, size_t row, const std::vector<double>& input) {
  double sum = 0;
  for (size_t k = 0; k < input.size(); k++) sum += weight[row * input.size() + k] * input[k];
  return sum;
}

/// One token's result in plain loops. Weights by the order of the spec: table, router, its bias, gate, up, down, then the
/// gate's bias, the up's scales and the down's bias.
std::vector<double> expected_row(const std::vector<std::vector<double>>& weights, int32_t token) {
  const auto start = weights[0].begin() + static_cast<std::ptrdiff_t>(token) * static_cast<std::ptrdiff_t>(kWidth);
  const std::vector<double> x(start, start + kWidth);
  std::vector<double> probabilities, scores;
  for (size_t expert = 0; expert < kExperts; expert++) {
    probabilities.push_back(1 / (1 + std::exp(-dot(weights[1], expert, x))));
    scores.push_back(probabilities.back() + weights[2][expert]);
  }
  std::vector<size_t> chosen;
  double total = 0;
  for (size_t slot = 0; slot < kSlots; slot++) {
    size_t best = kExperts;
    for (size_t expert = 0; expert < kExperts; expert++) {
      if (std::find(chosen.begin(), chosen.end(), expert) != chosen.end()) continue;
      if (best == kExperts || scores[expert] > scores[best]) best = expert;
    }
    chosen.push_back(best);
    total += probabilities[best];
  }
  std::vector<double> out = x;
  for (const size_t expert : chosen) {
    std::vector<double> inner;
    for (size_t row = 0; row < kExpertWidth; row++) {
      const size_t gate_row = expert * 2 * kExpertWidth + kExpertWidth + row;
      const double gate = std::fmin(dot(weights[3], gate_row, x) + weights[6][gate_row], 7);
      const double up = dot(weights[4], expert * kExpertWidth + row, x) * weights[7][expert];
      inner.push_back(gate / (1 + std::exp(-1.702 * gate)) * (std::fmax(-7, std::fmin(up, 7)) + 1));
    }
    for (size_t row = 0; row < kWidth; row++) {
      const double result = dot(weights[5], expert * kWidth + row, inner) + weights[8][expert * kWidth + row];
      out[row] += result * probabilities[expert] / total * 1.5;
    }
  }
  return out;
}

void test_values(const KernelTable& table) {
  for (const TensorType type : {TensorType::f32, TensorType::q8_0}) {
    for (const bool joined : {true, false}) {
      const Model model(expert_spec({type, 3, false, table.name, joined}), 2);
      const std::vector<std::vector<double>> weights = weights_of(model);
      for (const size_t tokens : {1, 2, 9, 40, 300}) {
        const StepInput step = expert_step(0, tokens);
        const std::vector<OutputRow> rows = run_step(model, step);
        double error = 0, size = 0;
        for (size_t index = 0; index < rows.size(); index++) {
          const std::vector<double> expected = expected_row(weights, step.tokens[step.outputs[index].row]);
          for (size_t k = 0; k < kWidth; k++) {
            error += (rows[index].values[k] - expected[k]) * (rows[index].values[k] - expected[k]);
            size += expected[k] * expected[k];
          }
        }
        CHECK(error / size < (type == TensorType::f32 ? 1e-10 : 1e-3), "%s, type %u, joined %d, %zu tokens: error %g",
              table.name, static_cast<unsigned>(type), joined, tokens, error / size);
      }
    }
  }
}

/// The last token's hidden state, whatever else its step holds.
void test_deterministic(const KernelTable& table) {
  for (const TensorType type : {TensorType::f32, TensorType::q8_0}) {
    const Model one(expert_spec({type, 1, true, table.name, true}), 0);
    const Model plain(expert_spec({type, 4, true, table.name, false}), 0);
    const Model four(expert_spec({type, 4, true, table.name, true}), 0);
    const std::vector<float> expected = run_step(one, expert_step(299, 1)).back().values;
    for (const size_t tokens : {1, 2, 8, 9, 77, 300}) {
      for (const Model* model : {&one, &plain, &four}) {
        const std::vector<float> found = run_step(*model, expert_step(300 - tokens, tokens)).back().values;
        CHECK(std::memcmp(found.data(), expected.data(), found.size() * sizeof(float)) == 0,
              "%s, type %u: a step of %zu tokens differs", table.name, static_cast<unsigned>(type), tokens);
      }
    }
  }
}

/// Numbers that no expert has, NaN and infinity among them, read no memory outside of the weights.
void test_hostile(const KernelTable& table) {
  for (const TensorType type : {TensorType::f32, TensorType::q8_0}) {
    for (const bool joined : {true, false}) {
      const Model model(expert_spec({type, 2, false, table.name, joined, true}), 0);
      for (const size_t tokens : {1, 3, 200})
        CHECK(run_step(model, expert_step(0, tokens)).size() == std::min<size_t>(tokens, 60), "rows");
    }
  }
}

FieldMap& nth(ProgramSpec& spec, const char* kind, size_t index) {
  for (FieldMap& one : spec.fields) {
    if (one.text("kind") == kind && index-- == 0) return one;
  }
  abort();
}

void test_refusals() {
  using Change = std::function<void(FieldMap&)>;
  const auto refuse = [](const char* part, const char* kind, size_t index, const Change& change, bool joined = true) {
    ExpertOptions options;
    options.joined = joined;
    ProgramSpec spec = expert_spec(options);
    change(nth(spec, kind, index));
    check_refused(part, [&] {
      Program program = spec.build();
      check_program(program);
    });
  };
  const auto route = [&](const char* part, const Change& change) { refuse(part, "route-experts", 0, change); };
  route("used", [](FieldMap& one) { one["used"] = kExperts + 1; });
  route("used", [](FieldMap& one) { one["used"] = 0; });
  route("out width", [](FieldMap& one) { one["used"] = 2; });
  route("groups", [](FieldMap& one) { one["groups"] = 3; });
  route("groups", [](FieldMap& one) { one["groups"] = 0; });
  route("groupsUsed", [](FieldMap& one) { one["groups"] = 7, one["groupsUsed"] = 8; });
  route("used", [](FieldMap& one) { one["groups"] = 7, one["groupsUsed"] = 2; });
  route("gating", [](FieldMap& one) { one.set_text("gating", "hardmax"); });
  route("bias", [](FieldMap& one) { one["bias"] = 0; });
  route("scale", [](FieldMap& one) { one["scale"] = NAN; });
  route("out", [](FieldMap& one) { one["out"] = 99; });
  const auto gate = [&](const char* part, const Change& change) { refuse(part, "grouped-matmul", 0, change); };
  gate("slots", [](FieldMap& one) { one["slots"] = 0; });
  gate("slots", [](FieldMap& one) { one["slots"] = 5000; });
  gate("routing width", [](FieldMap& one) { one["slots"] = 2; });
  gate("routing", [](FieldMap& one) { one["routing"] = 77; });
  gate("slots without a routing", [](FieldMap& one) { one["routing"] = kNone; });
  gate("input width", [](FieldMap& one) { one["inputStride"] = kWidth; });
  gate("outputs", [](FieldMap& one) { one["outputs"] = kExpertWidth + 1; });
  gate("firstOutput", [](FieldMap& one) { one.matmuls[0]["firstOutput"] = 2 * kExpertWidth; });
  gate("outputs", [](FieldMap& one) { one.matmuls[0]["firstOutput"] = kExpertWidth + 1; });
  gate("matrixRows", [](FieldMap& one) { one.matmuls[0]["matrixRows"] = 0; });
  gate("matrixRows", [](FieldMap& one) { one.matmuls[0]["matrixRows"] = 100; });
  gate("matmuls[1] matrices", [](FieldMap& one) { one.matmuls[1]["matrixRows"] = kExperts * kExpertWidth; });
  gate("matmuls", [](FieldMap& one) { one.matmuls.pop_back(); });
  gate("matmuls.weight", [](FieldMap& one) { one.matmuls[0]["weight"] = 50; });
  gate("matmuls.bias", [](FieldMap& one) { one.matmuls[0]["bias"] = 2; });
  gate("matmuls.scale", [](FieldMap& one) { one.matmuls[1]["scale"] = 6; });
  gate("activation", [](FieldMap& one) { one.set_text("activation", "softmax"); });
  gate("residual", [](FieldMap& one) { one["residual"] = 0; });
  gate("out width", [](FieldMap& one) { one["out"] = 0; });
  const auto down = [&](const char* part, const Change& change) { refuse(part, "grouped-matmul", 1, change); };
  down("input width", [](FieldMap& one) { one["inputStride"] = 32; });
  down("out", [](FieldMap& one) { one["out"] = one["residual"]; });
  down("out width", [](FieldMap& one) { one["summed"] = 0, one["residual"] = kNone; });
  down("residual", [](FieldMap& one) { one["residual"] = 1; });
  refuse("slots", "sum-slots", 0, [](FieldMap& one) { one["slots"] = 0; }, false);
  refuse("input width", "sum-slots", 0, [](FieldMap& one) { one["slots"] = 2; }, false);
  refuse("gate", "glu", 0, [](FieldMap& one) { one["gate"] = 0; }, false);
}

}  // namespace

int main() {
  for (const KernelTable& table : kernel_tables()) {
    test_values(table);
    test_deterministic(table);
    test_hostile(table);
    printf("%s: ok\n", table.name);
  }
  test_refusals();
  printf("experts: ok\n");
}
