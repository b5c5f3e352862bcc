// How the engine scales: steps of a model with the shapes of Llama 3.2 1B over constant weights, for several numbers of
// threads, beside the read bandwidth with the same threads. Usage: engine-bench [TOKENS] [DEPTH] [THREADS…]

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ctime>

#include "../engine/bandwidth.h"
#include "engine-fixture.h"

using namespace rocmforge;

namespace {

constexpr size_t kBenchLayers = 16;
constexpr size_t kBenchWidth = 2048;
constexpr size_t kBenchInner = 8192;
constexpr size_t kBenchHeads = 32;
constexpr size_t kBenchKvHeads = 8;
constexpr size_t kBenchHeadWidth = 64;
constexpr size_t kBenchVocabulary = 128256;
constexpr size_t kBenchContext = 8192;
constexpr size_t kBlockTokens = 32;

Program bench_program(size_t threads) {
  ProgramSpec program;
  program.kernels = &kernel_tables().front();
  program.threads = threads;
  program.kv_layers.assign(kBenchLayers, {kBenchKvHeads, kBenchHeadWidth, kBenchHeadWidth});
  program.vocabulary_size = kBenchVocabulary;
  program.max_tokens = 1024;
  program.max_outputs = 16;
  program.context_tokens = kBenchContext;
  program.ropes.push_back({0.66f, std::vector<double>(kBenchHeadWidth / 2, 1.0), 1.0});
  Id x = program.value_of(kBenchWidth);
  const Id table = program.weight_of(TensorType::q6_k, kBenchWidth, kBenchVocabulary);
  const Id norm = program.vector_of(kBenchWidth);
  program.fields.push_back(FieldMap("embed", {{"table", table}, {"out", x}}));
  for (size_t layer = 0; layer < kBenchLayers; layer++) {
    const auto matmul = [&](TensorType type, size_t width, size_t rows, Id out) {
      return ProgramSpec::matmul_of(program.weight_of(type, width, rows), out);
    };
    const size_t kv_width = kBenchKvHeads * kBenchHeadWidth;
    const Id q = program.value_of(kBenchWidth);
    const Id k = program.value_of(kv_width);
    const Id v = program.value_of(kv_width);
    const Id rotated = program.value_of(kBenchWidth);
    const Id attended = program.value_of(kBenchWidth);
    const Id middle = program.value_of(kBenchWidth);
    const Id gated = program.value_of(kBenchInner);
    const Id out = program.value_of(kBenchWidth);
    program.add_matmuls(
        x,
        {matmul(TensorType::q4_k, kBenchWidth, kBenchWidth, q), matmul(TensorType::q4_k, kBenchWidth, kv_width, k),
         matmul(TensorType::q6_k, kBenchWidth, kv_width, v)},
        {norm});
    program.fields.push_back(FieldMap("rope-store", {{"layer", layer},
                                                     {"query", q},
                                                     {"queryHeads", kBenchHeads},
                                                     {"queryOut", rotated},
                                                     {"key", k},
                                                     {"keyHeads", kBenchKvHeads},
                                                     {"headWidth", kBenchHeadWidth},
                                                     {"rotaryWidth", kBenchHeadWidth},
                                                     {"rope", 0},
                                                     {"value", v}}));
    program.fields.back().set_text("style", "adjacent");
    program.fields.push_back(FieldMap("attention", {{"layer", layer},
                                                    {"query", rotated},
                                                    {"heads", kBenchHeads},
                                                    {"kvHeads", kBenchKvHeads},
                                                    {"keyWidth", kBenchHeadWidth},
                                                    {"valueWidth", kBenchHeadWidth},
                                                    {"scale", 0.125},
                                                    {"out", attended}}));
    program.add_matmuls(attended, {matmul(TensorType::q4_k, kBenchWidth, kBenchWidth, middle)},
                        {kNone, "none", kNone, x});
    program.add_matmuls(middle,
                        {matmul(TensorType::q4_k, kBenchWidth, kBenchInner, kNone),
                         matmul(TensorType::q4_k, kBenchWidth, kBenchInner, kNone)},
                        {norm, "silu", gated});
    const TensorType down = layer % 2 == 0 ? TensorType::q6_k : TensorType::q4_k;
    program.add_matmuls(gated, {matmul(down, kBenchInner, kBenchWidth, out)}, {kNone, "none", kNone, middle});
    x = out;
  }
  const Id hidden = program.value_of(kBenchWidth, RowKind::outputs);
  const Id scored = program.value_of(kBenchWidth, RowKind::scored);
  const Id logits = program.value_of(kBenchVocabulary, RowKind::scored);
  program.fields.push_back(FieldMap("select-rows", {{"input", x}, {"out", hidden}}));
  program.fields.push_back(FieldMap("select-rows", {{"input", hidden}, {"out", scored}}));
  program.add_matmuls(scored, {ProgramSpec::matmul_of(table, logits)}, {norm});
  program.hidden = hidden;
  program.logits = logits;
  return program.build();
}

StepInput bench_step(size_t start, size_t tokens) {
  StepInput step;
  for (size_t index = 0; index < tokens; index++) {
    step.tokens.push_back(static_cast<int32_t>((start + index) * 7919 % kBenchVocabulary));
    step.positions.push_back(static_cast<int32_t>(start + index));
  }
  for (size_t block = 0; block < kBenchContext / kBlockTokens; block++)
    step.block_tables.push_back(static_cast<int32_t>(block));
  step.sequence_offsets = {0, static_cast<int32_t>(tokens)};
  step.table_offsets = {0, static_cast<int32_t>(step.block_tables.size())};
  OutputRequest output;
  output.row = tokens - 1;
  output.want = Want::candidates;
  output.count = 40;
  step.outputs.push_back(output);
  return step;
}

/// What the calling thread has computed, in milliseconds: on a busy machine it says more than the time on the wall.
double processor_milliseconds() {
  timespec spent;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent);
  return static_cast<double>(spent.tv_sec) * 1e3 + static_cast<double>(spent.tv_nsec) * 1e-6;
}

void measure(size_t threads, size_t tokens, size_t depth, const std::shared_ptr<Region>& region) {
  Executor executor(bench_program(threads));
  std::vector<WeightLocation> locations;
  size_t offset = 0;
  for (const Weight& weight : executor.program().weights) {
    locations.push_back({region, offset, weight.size_bytes});
    offset += weight.size_bytes;
  }
  BoundWeights weights(executor.program(), locations);
  KvCache cache({std::vector<KvLayerShape>(kBenchLayers, {kBenchKvHeads, kBenchHeadWidth, kBenchHeadWidth}),
                 kBenchContext / kBlockTokens, kBlockTokens, KvType::f16});
  std::memset(cache.cells(0, 0), 0, cache.size_bytes());
  const StepInput step = bench_step(depth, tokens);
  const std::atomic<bool> cancelled{false};
  const size_t steps = std::max<size_t>(4, 60 / tokens);
  std::vector<double> milliseconds;
  double least_processor = 1e9;
  for (size_t pass = 0; pass < steps + 2; pass++) {
    const auto start = std::chrono::steady_clock::now();
    const double processor = processor_milliseconds();
    executor.run(step, weights, &cache, cancelled);
    least_processor = std::min(least_processor, processor_milliseconds() - processor);
    if (pass >= 2)
      milliseconds.push_back(
          std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
  }
  std::sort(milliseconds.begin(), milliseconds.end());
  const double median = milliseconds[milliseconds.size() / 2];
  const double bandwidth = measure_read_bandwidth(size_t{1} << 30, threads, cancelled);
  const double read = static_cast<double>(offset) / median * 1e3;
  printf(
      "%2zu threads, %4zu tokens at %5zu: %8.2f ms (best %.2f, worst %.2f; processor %.2f), %7.1f tokens/s, weights at "
      "%5.1f GB/s of "
      "%5.1f\n",
      threads, tokens, depth, median, milliseconds.front(), milliseconds.back(), least_processor,
      static_cast<double>(tokens) / median * 1e3, read / 1e9, bandwidth / 1e9);
  for (const ProfileEntry& entry : executor.profile()) {
    printf("     %-14s %8.3f ms a step\n", entry.kind, entry.milliseconds / static_cast<double>(steps + 2));
  }
  fflush(stdout);
}

}  // namespace

int main(int count, char** arguments) {
  const auto argument = [&](int index, size_t fallback) {
    return index < count ? static_cast<size_t>(atoll(arguments[index])) : fallback;
  };
  Program program = bench_program(1);
  check_program(program);
  size_t size_bytes = 0;
  for (const Weight& weight : program.weights) size_bytes += weight.size_bytes;
  const std::shared_ptr<Region> region = Region::allocate(size_bytes);
  // Small halves wherever a block keeps its scales. Norms are 1: results that underflow take several times as long.
  std::memset(region->buffer(), 0x11, size_bytes);
  size_t offset = 0;
  for (const Weight& weight : program.weights) {
    float* const floats = reinterpret_cast<float*>(region->buffer() + offset);
    if (weight.type == TensorType::f32) std::fill_n(floats, weight.width * weight.rows, 1.0f);
    offset += weight.size_bytes;
  }
  if (count <= 3) measure(2, argument(1, 1), argument(2, 0), region);
  for (int index = 3; index < count; index++) measure(argument(index, 2), argument(1, 1), argument(2, 0), region);
  return 0;
}
