// What the engine's tests share: a check, and a small model with every kind of instruction that real ones use.

#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "../engine/bound-weights.h"
#include "../engine/error.h"
#include "../engine/executor.h"
#include "../engine/isa.h"
#include "../engine/kv-cache.h"
#include "../engine/program.h"
#include "../engine/region.h"
#include "../engine/step.h"
#include "check.h"
#include "field-map.h"

namespace rocmforge {

/// Numbers that are the same in every run.
class Numbers {
 public:
  explicit Numbers(uint64_t seed) : state_(seed * 2862933555777941757u + 3037000493u) {}
  uint32_t next() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<uint32_t>(state_ >> 33);
  }
  /// Between -1 and 1.
  float signed_unit() { return static_cast<float>(next()) / 1073741824.0f - 1.0f; }

 private:
  uint64_t state_;
};

/// The message and code of what `work` throws; fails when it throws nothing.
inline EngineError thrown(const char* what, const std::function<void()>& work) {
  try {
    work();
  } catch (const EngineError& error) {
    return error;
  }
  fprintf(stderr, "%s was not refused\n", what);
  exit(1);
}

inline void check_refused(const char* part, const std::function<void()>& work) {
  const EngineError error = thrown(part, work);
  CHECK(error.code == ErrorCode::invalid, "%s: code %s", part, error_code_name(error.code));
  CHECK(error.message.find(part) != std::string::npos, "%s: message is \"%s\"", part, error.message.c_str());
  CHECK(error.message.find("expected") != std::string::npos, "%s: message is \"%s\"", part, error.message.c_str());
}

constexpr size_t kVocabulary = 300;
constexpr size_t kWidth = 64;
constexpr size_t kHeads = 4;
constexpr size_t kKvHeads = 2;
constexpr size_t kHeadWidth = 32;
constexpr size_t kInner = 96;
constexpr size_t kLayers = 2;
constexpr size_t kContext = 2048;
constexpr size_t kWindow = 77;

struct ModelOptions {
  TensorType type = TensorType::f32;
  size_t threads = 2;
  bool deterministic = false;
  const char* isa = nullptr;
  /// Window, soft-caps, sinks, GELU and embedding scale.
  bool attributes = false;
};

/// A program whose instructions are still fields. One slot per value, for clarity.
struct ProgramSpec : Program {
  std::vector<FieldMap> fields;

  Id value_of(size_t width, RowKind rows = RowKind::tokens) {
    slots.push_back({rows, width});
    values.push_back({static_cast<Id>(slots.size() - 1), 0, width, width, rows});
    return static_cast<Id>(values.size() - 1);
  }
  Id weight_of(TensorType type, size_t width, size_t rows) {
    weights.push_back({type, width, rows});
    return static_cast<Id>(weights.size() - 1);
  }
  Id vector_of(size_t width) { return weight_of(TensorType::f32, width, 1); }

  static FieldMap matmul_of(Id weight, Id out) {
    return FieldMap({{"weight", weight}, {"scale", kNone}, {"bias", kNone}, {"softCap", 0}, {"out", out}});
  }
  struct MatmulOptions {
    Id norm = kNone;
    const char* activation = "none";
    Id gated_out = kNone;
    Id residual = kNone;
  };
  void add_matmuls(Id input, std::vector<FieldMap> matmuls, const MatmulOptions& options) {
    fields.push_back(FieldMap("matmul",
                              {{"input", input},
                               {"norm", options.norm},
                               {"epsilon", 1e-5},
                               {"gatedOut", options.gated_out},
                               {"residual", options.residual}},
                              std::move(matmuls)));
    fields.back().set_text("activation", options.activation);
  }

  /// The first instruction of a kind.
  FieldMap& first(const char* kind) {
    for (FieldMap& one : fields) {
      if (one.text("kind") == kind) return one;
    }
    abort();
  }

  /// Reads the instructions; nothing of the spec may be used afterwards but its fields.
  Program build() {
    for (const FieldMap& one : fields) instructions.push_back(read_instruction(one));
    return std::move(static_cast<Program&>(*this));
  }
};

inline ProgramSpec tiny_spec(const ModelOptions& options) {
  ProgramSpec program;
  program.kernels = options.isa == nullptr ? &kernel_tables().front() : find_kernel_table(options.isa);
  program.threads = options.threads;
  program.deterministic = options.deterministic;
  program.kv_layers.assign(kLayers, {kKvHeads, kHeadWidth, kHeadWidth});
  program.vocabulary_size = kVocabulary;
  program.max_tokens = 1024;
  program.max_outputs = 64;
  program.context_tokens = kContext;
  program.ropes.push_back({0.75f, std::vector<double>(kHeadWidth / 2, 1.0), 1.0});
  const TensorType type = options.type;
  const bool attributes = options.attributes;

  Id x = program.value_of(kWidth);
  const Id table = program.weight_of(type, kWidth, kVocabulary);
  program.fields.push_back(FieldMap("embed", {{"table", table}, {"out", x}}));
  if (attributes) program.fields.back()["scale"] = 1.75;
  const Id factors = program.vector_of(kHeadWidth / 2);
  for (size_t layer = 0; layer < kLayers; layer++) {
    const Id q = program.value_of(kHeads * kHeadWidth);
    const Id k = program.value_of(kKvHeads * kHeadWidth);
    const Id v = program.value_of(kKvHeads * kHeadWidth);
    const Id rotated = program.value_of(kHeads * kHeadWidth);
    const Id attended = program.value_of(kHeads * kHeadWidth);
    const Id middle = program.value_of(kWidth);
    const Id gated = program.value_of(kInner);
    const Id out = program.value_of(kWidth);
    const auto matmul = [&](TensorType weight_type, size_t width, size_t rows, Id result) {
      return ProgramSpec::matmul_of(program.weight_of(weight_type, width, rows), result);
    };
    FieldMap query = matmul(type, kWidth, kHeads * kHeadWidth, q);
    query["bias"] = program.vector_of(kHeads * kHeadWidth);
    FieldMap key = matmul(type, kWidth, kKvHeads * kHeadWidth, k);
    key["scale"] = program.vector_of(1);
    // A matmul of plain floats beside quantized ones: both forms of activations in one instruction.
    const FieldMap value = matmul(TensorType::f16, kWidth, kKvHeads * kHeadWidth, v);
    program.add_matmuls(x, {query, key, value}, {program.vector_of(kWidth)});
    program.fields.push_back(FieldMap("rope-store", {{"layer", layer},
                                                     {"query", q},
                                                     {"queryHeads", kHeads},
                                                     {"queryOut", rotated},
                                                     {"key", k},
                                                     {"keyHeads", kKvHeads},
                                                     {"headWidth", kHeadWidth},
                                                     {"rotaryWidth", kHeadWidth},
                                                     {"rope", 0},
                                                     {"factors", factors},
                                                     {"value", v}}));
    program.fields.back().set_text("style", layer == 0 ? "adjacent" : "halves");
    // The first layer has a window that ends within spans and blocks, the second sees all positions.
    program.fields.push_back(FieldMap("attention", {{"layer", layer},
                                                    {"query", rotated},
                                                    {"heads", kHeads},
                                                    {"kvHeads", kKvHeads},
                                                    {"keyWidth", kHeadWidth},
                                                    {"valueWidth", kHeadWidth},
                                                    {"scale", 0.2},
                                                    {"out", attended}}));
    if (attributes) {
      FieldMap& attention = program.fields.back();
      if (layer == 0) attention["window"] = kWindow;
      attention["softCap"] = 1.5;
      attention["sinks"] = program.vector_of(kHeads);
    }
    program.add_matmuls(attended, {matmul(type, kHeads * kHeadWidth, kWidth, middle)}, {kNone, "none", kNone, x});
    FieldMap gate = matmul(type, kWidth, kInner, kNone);
    FieldMap up = matmul(type, kWidth, kInner, kNone);
    gate["scale"] = program.vector_of(1);
    up["bias"] = program.vector_of(kInner);
    program.add_matmuls(middle, {gate, up}, {program.vector_of(kWidth), attributes ? "gelu" : "silu", gated});
    program.add_matmuls(gated, {matmul(type, kInner, kWidth, out)}, {kNone, "none", kNone, middle});
    x = out;
  }
  const Id kept = program.value_of(kWidth, RowKind::outputs);
  const Id hidden = program.value_of(kWidth, RowKind::outputs);
  const Id scored = program.value_of(kWidth, RowKind::scored);
  const Id logits = program.value_of(kVocabulary, RowKind::scored);
  program.fields.push_back(FieldMap("select-rows", {{"input", x}, {"out", kept}}));
  program.fields.push_back(FieldMap("rms-norm", {{"input", kept},
                                                 {"weight", program.vector_of(kWidth)},
                                                 {"groupWidth", kWidth},
                                                 {"epsilon", 1e-5},
                                                 {"out", hidden}}));
  program.fields.push_back(FieldMap("select-rows", {{"input", hidden}, {"out", scored}}));
  FieldMap output = ProgramSpec::matmul_of(program.weight_of(type, kWidth, kVocabulary), logits);
  output["softCap"] = attributes ? 2 : 0;
  program.add_matmuls(scored, {output}, {});
  program.hidden = hidden;
  program.logits = logits;
  return program;
}

inline Program tiny_program(const ModelOptions& options) { return tiny_spec(options).build(); }

/// Bytes of a weight: small numbers, whatever the type's blocks look like (f32, f16 and q8_0 are enough here).
inline void fill_weight(const Weight& weight, Numbers& numbers, uint8_t* target) {
  if (weight.type == TensorType::f32) {
    const float around = weight.rows == 1 ? 1.0f : 0.0f;
    for (size_t index = 0; index < weight.width * weight.rows; index++) {
      const float value = around + numbers.signed_unit() * 0.3f;
      std::memcpy(target + index * 4, &value, 4);
    }
    return;
  }
  const uint16_t small_half = 0x1400;  // 2^-10
  const bool blocks = weight.type == TensorType::q8_0;
  for (size_t offset = 0; offset < weight.size_bytes; offset += blocks ? 34 : 2) {
    const uint16_t half = static_cast<uint16_t>((numbers.next() & 0x83ff) | 0x3000);  // ±2^-3 to ±2^-2
    std::memcpy(target + offset, blocks ? &small_half : &half, 2);
    for (size_t byte = 2; blocks && byte < 34; byte++) target[offset + byte] = static_cast<uint8_t>(numbers.next());
  }
}

/// A program with weights of its own, bound.
struct Model {
  std::vector<FieldMap> fields;
  std::shared_ptr<Executor> executor;
  std::shared_ptr<Region> region;
  std::shared_ptr<BoundWeights> weights;
  std::vector<WeightLocation> locations;

  explicit Model(const ModelOptions& options, size_t misalignment = 0) : Model(tiny_spec(options), misalignment) {}

  Model(ProgramSpec spec, size_t misalignment)
      : fields(spec.fields), executor(std::make_shared<Executor>(spec.build())) {
    size_t size_bytes = misalignment;
    for (const Weight& weight : executor->program().weights) size_bytes += weight.size_bytes;
    region = Region::allocate(size_bytes);
    Numbers numbers(7);
    size_t offset = misalignment;
    for (const Weight& weight : executor->program().weights) {
      fill_weight(weight, numbers, region->buffer() + offset);
      locations.push_back({region, offset, weight.size_bytes});
      offset += weight.size_bytes;
    }
    weights = std::make_shared<BoundWeights>(executor->program(), locations);
  }

  std::vector<OutputRow> run(const StepInput& step, KvCache& cache) const {
    check_step(executor->program(), &cache, step);
    const std::atomic<bool> cancelled{false};
    return executor->run(step, *weights, &cache, cancelled);
  }
};

inline KvOptions tiny_cache(KvType type = KvType::f16) {
  return {std::vector<KvLayerShape>(kLayers, {kKvHeads, kHeadWidth, kHeadWidth}), 400, 16, type, {}};
}

/// One sequence in a step: `tokens` of them from position `start` on.
struct Part {
  size_t sequence;
  size_t start;
  size_t tokens;
};

inline int32_t token_at(size_t sequence, size_t position) {
  return static_cast<int32_t>((sequence * 131 + position * 17 + 5) % kVocabulary);
}

/// Sequence s has 128 blocks of its own, in no order, so that there is room for three.
inline StepInput make_step(const std::vector<Part>& parts, Want want = Want::logits) {
  StepInput step;
  step.sequence_offsets.push_back(0);
  step.table_offsets.push_back(0);
  for (const Part& part : parts) {
    for (size_t index = 0; index < part.tokens; index++) {
      step.tokens.push_back(token_at(part.sequence, part.start + index));
      step.positions.push_back(static_cast<int32_t>(part.start + index));
    }
    for (size_t block = 0; block < 128; block++)
      step.block_tables.push_back(static_cast<int32_t>((block * 37 % 128) * 3 + part.sequence));
    step.sequence_offsets.push_back(static_cast<int32_t>(step.tokens.size()));
    step.table_offsets.push_back(static_cast<int32_t>(step.block_tables.size()));
    OutputRequest output;
    output.row = step.tokens.size() - 1;
    output.want = want;
    output.count = want == Want::candidates ? 5 : 0;
    step.outputs.push_back(output);
  }
  return step;
}

}  // namespace rocmforge
