// Whole steps of a small model: against plain loops in double precision, bit-exact across chunks, batches and threads
// in deterministic mode, with a file that shrinks, with cancellation, and from several threads at once.

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <map>
#include <thread>
#include <utility>

#include "../engine/step-queue.h"
#include "engine-fixture.h"
#include "engine-oracle.h"

using namespace rocmforge;

namespace {

/// The last row's logits after the sequence has been run in chunks.
std::vector<float> in_chunks(const Model& model, size_t tokens, const std::vector<size_t>& chunks,
                             KvType type = KvType::f16) {
  KvCache cache(tiny_cache(type));
  std::vector<OutputRow> rows;
  size_t start = 0;
  for (size_t index = 0; start < tokens; index++) {
    const size_t count = std::min(chunks[index % chunks.size()], tokens - start);
    rows = model.run(make_step({{0, start, count}}), cache);
    start += count;
  }
  CHECK(rows.size() == 1 && rows[0].kind == OutputRow::Kind::logits, "a row of logits");
  return rows[0].values;
}

/// What is right for every instruction set, computed for the first of them: their models differ in nothing else.
const Vector& expected_logits(const Model& model, TensorType type, bool attributes) {
  static std::map<std::pair<TensorType, bool>, Vector> known;
  Vector& logits = known[{type, attributes}];
  if (logits.empty()) logits = Oracle(model).logits(0, 300);
  return logits;
}

void test_values_of(const KernelTable& table, TensorType type, bool attributes) {
  const Model model({type, 3, false, table.name, attributes}, 2);
  const Vector& expected = expected_logits(model, type, attributes);
  for (const std::vector<size_t>& chunks : std::vector<std::vector<size_t>>{{300}, {1}, {7, 64}}) {
    const std::vector<float> found = in_chunks(model, 300, chunks, KvType::f32);
    double error = 0;
    double size = 0;
    for (size_t k = 0; k < expected.size(); k++) {
      error += (found[k] - expected[k]) * (found[k] - expected[k]);
      size += expected[k] * expected[k];
    }
    // Activations quantized to 8 bits in every matmul of two layers, or single precision alone.
    const double allowed = type == TensorType::q8_0 ? 1e-3 : 1e-9;
    CHECK(error / size < allowed, "%s, type %u, attributes %d: normalised squared error %g", table.name,
          static_cast<unsigned>(type), attributes, error / size);
  }
}

void test_values(const KernelTable& table) {
  for (const TensorType type : {TensorType::f32, TensorType::q8_0}) {
    for (const bool attributes : {false, true}) test_values_of(table, type, attributes);
  }
}

bool is_full_run() {
  const char* full = getenv("ROCMFORGE_TEST_FULL");
  return full != nullptr && strcmp(full, "1") == 0;
}

/// Every second way to run the sequence, from the first or from the second on by `parity`, and all of them in full runs:
/// under sanitizers each takes seconds.
void test_deterministic(const KernelTable& table, TensorType type, bool attributes, size_t parity) {
  const size_t tokens = 560;
  const Model one({type, 1, true, table.name, attributes});
  const Model five({type, 5, true, table.name, attributes});
  const std::vector<float> expected = in_chunks(one, tokens, {512});
  const auto same = [&](const char* how, const std::function<std::vector<float>()>& run) {
    if (parity++ % 2 == 1 && !is_full_run()) return;
    CHECK(std::memcmp(run().data(), expected.data(), expected.size() * 4) == 0, "%s, type %u: %s differs", table.name,
          static_cast<unsigned>(type), how);
  };
  same("five threads", [&] { return in_chunks(five, tokens, {512}); });
  same("one step", [&] { return in_chunks(five, tokens, {1024}); });
  same("token by token", [&] { return in_chunks(five, tokens, {1}); });
  same("steps of 8", [&] { return in_chunks(one, tokens, {8}); });
  same("steps of 9", [&] { return in_chunks(five, tokens, {9}); });
  same("steps of mixed lengths", [&] { return in_chunks(five, tokens, {1, 300, 2, 40}); });
  same("in a batch", [&] {
    KvCache cache(tiny_cache());
    five.run(make_step({{1, 0, 30}, {0, 0, 500}, {2, 0, 3}}), cache);
    return five.run(make_step({{2, 3, 1}, {0, 500, 60}, {1, 30, 7}}), cache)[1].values;
  });
}

/// Whichever way is left out for one type is taken for the other, and the other way round with attributes and for the next
/// instruction set.
void test_deterministic_models(const KernelTable& table, size_t parity) {
  for (const bool attributes : {false, true}) {
    test_deterministic(table, TensorType::f32, attributes, parity++);
    test_deterministic(table, TensorType::q8_0, attributes, parity);
  }
}

void test_outputs(const KernelTable& table) {
  const Model model({TensorType::f32, 2, false, table.name});
  KvCache cache(tiny_cache());
  StepInput step = make_step({{0, 0, 6}});
  step.outputs.clear();
  const auto want = [&](size_t row, Want kind, size_t count) -> OutputRequest& {
    step.outputs.push_back({});
    step.outputs.back().row = row;
    step.outputs.back().want = kind;
    step.outputs.back().count = count;
    return step.outputs.back();
  };
  want(0, Want::hidden, 0);
  want(1, Want::logits, 0);
  want(2, Want::candidates, 7);
  want(3, Want::candidates, 200);
  OutputRequest& changed = want(4, Want::candidates, 1000);
  changed.bias_ids = {3, 250, 3, 9, 9, 9};
  changed.bias_values = {50, 60, 5, 3e38f, 3e38f, -std::numeric_limits<float>::infinity()};
  changed.masked = true;
  changed.allow_mask.assign((kVocabulary + 31) / 32, 0xffffffff);
  changed.allow_mask[250 / 32] &= ~(1u << (250 % 32));
  const std::vector<OutputRow> rows = model.run(step, cache);
  // As many scored rows as before: other numbers may be multiplied another way.
  for (size_t index = 1; index < step.outputs.size(); index++) step.outputs[index].want = Want::logits;
  const std::vector<OutputRow> plain = model.run(step, cache);

  CHECK(rows[0].values.size() == kWidth && rows[0].kind == OutputRow::Kind::hidden, "hidden");
  CHECK(rows[1].values == plain[1].values, "logits");
  CHECK(rows[2].ids.size() == 7 && rows[3].ids.size() == 200 && rows[4].ids.size() == kVocabulary, "counts");
  for (size_t index = 2; index < 5; index++) {
    double sum = 0;
    for (const float logit : plain[index].values) sum += std::exp(static_cast<double>(logit));
    CHECK(std::abs(plain[index].log_sum - std::log(sum)) < 1e-5, "log-sum");
    for (size_t rank = 0; rank < rows[index].ids.size(); rank++) {
      const size_t id = static_cast<size_t>(rows[index].ids[rank]);
      CHECK(rows[index].values[rank] == plain[index].values[id], "candidate %zu of %zu", rank, index);
      const bool sorted = rank == 0 || rows[index].values[rank - 1] > rows[index].values[rank] ||
                          (rows[index].values[rank - 1] == rows[index].values[rank] &&
                           rows[index].ids[rank - 1] < rows[index].ids[rank]);
      CHECK(sorted, "order at %zu of %zu", rank, index);
    }
  }
  CHECK(rows[4].ids[0] == 3 && rows[4].values[kVocabulary - 1] == -std::numeric_limits<float>::infinity(),
        "bias and mask");
  CHECK(rows[4].ids[kVocabulary - 2] == 9 && rows[4].ids[kVocabulary - 1] == 250, "banned ones last, by rising id");

  // A row that is not finite says so, and leaves its neighbours alone.
  const float infinite = std::numeric_limits<float>::infinity();
  std::memcpy(model.region->buffer() + static_cast<size_t>(token_at(1, 0)) * kWidth * 4 + 8, &infinite, 4);
  KvCache fresh(tiny_cache());
  const std::vector<OutputRow> stray = model.run(make_step({{1, 0, 1}, {0, 0, 1}}, Want::candidates), fresh);
  CHECK(stray[0].kind == OutputRow::Kind::not_finite && stray[1].kind == OutputRow::Kind::candidates, "not-finite");
}

void test_truncation() {
  Model model({TensorType::f32, 2, false, nullptr});
  char path[] = "/tmp/rocmforge-engine-XXXXXX";
  const int file = mkstemp(path);
  CHECK(file >= 0, "a temporary file");
  unlink(path);
  const size_t size_bytes = model.region->size_bytes();
  CHECK(write(file, model.region->buffer(), size_bytes) == static_cast<ssize_t>(size_bytes), "writing the file");
  void* const mapped = mmap(nullptr, size_bytes, PROT_READ, MAP_SHARED, file, 0);
  CHECK(mapped != MAP_FAILED, "mapping the file");
  {
    const std::shared_ptr<Region> region = Region::map(reinterpret_cast<uintptr_t>(mapped), size_bytes);
    const std::shared_ptr<Region> twin = Region::map(reinterpret_cast<uintptr_t>(mapped), size_bytes);
    for (WeightLocation& location : model.locations) location.region = region;
    model.weights = std::make_shared<BoundWeights>(model.executor->program(), model.locations);
    KvCache cache(tiny_cache());
    model.run(make_step({{0, 0, 20}}), cache);
    CHECK(ftruncate(file, 4096) == 0, "truncating the file");
    for (int pass = 0; pass < 2; pass++) {
      const EngineError error = thrown("a shrunken file", [&] { model.run(make_step({{0, 0, 20}}), cache); });
      CHECK(error.code == ErrorCode::truncated, "%s", error.message.c_str());
    }
    CHECK(region->truncated() && twin->truncated(), "every region over the page is marked");
    // What the faults were mended with, so that the mapping can be looked at and given back.
    CHECK(static_cast<const uint8_t*>(mapped)[0] == model.region->buffer()[0], "pages that are left stay");
  }
  munmap(mapped, size_bytes);
  close(file);
}

void test_cancellation() {
  const Model model({TensorType::f32, 2, false, nullptr});
  KvCache cache(tiny_cache());
  const StepInput step = make_step({{0, 0, 1000}});
  std::atomic<bool> cancelled{true};
  CHECK(thrown("cancelled", [&] { model.executor->run(step, *model.weights, &cache, cancelled); }).code ==
            ErrorCode::cancelled,
        "before");
  size_t ended = 0;
  for (int pass = 0; pass < 30; pass++) {
    cancelled = false;
    std::thread other([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(pass * 100));
      cancelled = true;
    });
    try {
      model.executor->run(step, *model.weights, &cache, cancelled);
    } catch (const EngineError& error) {
      CHECK(error.code == ErrorCode::cancelled, "%s", error.message.c_str());
      ended++;
    }
    other.join();
  }
  CHECK(ended > 0, "no step was cancelled on its way");
  const std::vector<float> after = in_chunks(model, 40, {40});
  CHECK(after == in_chunks(model, 40, {40}), "steps after cancelled ones");
}

/// Steps of several models from several threads; each step runs on the queue's own thread.
void test_batch_mates() {
  struct Step : Job {
    const Model* model;
    KvCache* cache;
    StepInput input;
    std::vector<OutputRow> rows;
    std::atomic<bool> done{false};
    void run() noexcept override {
      const std::atomic<bool> cancelled{false};
      rows = model->executor->run(input, *model->weights, cache, cancelled);
      done.store(true, std::memory_order_release);
    }
  };
  const Model narrow({TensorType::f32, 1, true, nullptr});
  const Model wide({TensorType::q8_0, 7, true, nullptr});
  std::vector<std::thread> threads;
  std::atomic<size_t> wrong{0};
  for (size_t thread = 0; thread < 4; thread++) {
    threads.emplace_back([&, thread] {
      const Model& model = thread % 2 == 0 ? narrow : wide;
      std::vector<float> first;
      for (int pass = 0; pass < 15; pass++) {
        KvCache cache(tiny_cache());
        auto step = std::make_shared<Step>();
        step->model = &model;
        step->cache = &cache;
        step->input = make_step({{thread % 3, 0, 40 + static_cast<size_t>(thread)}});
        StepQueue::instance().push(step);
        while (!step->done.load(std::memory_order_acquire)) std::this_thread::yield();
        if (first.empty()) first = step->rows[0].values;
        if (first != step->rows[0].values) wrong++;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0, "%zu steps gave other results in a batch", wrong.load());
}

}  // namespace

int main() {
  size_t parity = 0;
  for (const KernelTable& table : kernel_tables()) {
    test_values(table);
    test_deterministic_models(table, parity++);
    test_outputs(table);
  }
  test_truncation();
  test_cancellation();
  test_batch_mates();
  const Model model({});
  CHECK(model.executor->scratch_bytes(512, 1, 1) > 512 * kInner * 4, "scratch");
  printf("engine runs: ok\n");
  return 0;
}
