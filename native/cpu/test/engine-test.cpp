// The engine without a model: threads that share phases, a queue, memory that is checked. What it refuses to run is in
// engine-check-test.cpp.

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "../engine/bandwidth.h"
#include "../engine/step-queue.h"
#include "../engine/thread-pool.h"
#include "engine-fixture.h"

using namespace rocmforge;

namespace {

/// Every unit of every phase is done exactly once, and no phase starts before the one before it is done.
void test_phases(size_t threads, const ChunkSizes& chunks) {
  constexpr size_t kPhases = 400;
  std::vector<uint32_t> done(1000, 0);
  std::atomic<size_t> wrong{0};
  ThreadPool::instance().run(threads, [&](Member& member) {
    for (size_t phase = 0; phase < kPhases; phase++) {
      const size_t count = phase % 7 == 3 ? 0 : phase % 5 == 1 ? 1 : 1 + phase * 13 % done.size();
      member.phase(count, chunks, [&](size_t first, size_t end) {
        for (size_t unit = first; unit < end; unit++) done[unit]++;
      });
      // Plain memory: a phase that began too early would be a data race, and a unit too few.
      member.phase(1, {}, [&](size_t, size_t) {
        for (size_t unit = 0; unit < count; unit++) {
          if (done[unit] != 1) wrong++;
          done[unit] = 0;
        }
      });
    }
  });
  CHECK(wrong == 0, "%zu units were not done exactly once with %zu threads", wrong.load(), threads);
}

/// Each member begins with its own share, and a member that waits in the middle of one keeps nothing of the rest.
void test_shares() {
  constexpr size_t kThreads = 4, kUnits = 4000;
  std::atomic<size_t> arrived{0}, done{0};
  std::vector<size_t> begun(kThreads, SIZE_MAX), sizes(kThreads, 0);
  ThreadPool::instance().run(kThreads, [&](Member& member) {
    member.phase(kUnits, {10, 10, SIZE_MAX}, [&](size_t first, size_t end) {
      if (begun[member.index()] == SIZE_MAX) {
        begun[member.index()] = first;
        sizes[member.index()] = end - first;
        arrived++;
        while (arrived < kThreads) std::this_thread::yield();
        // The last member comes back when the others have done all of its share but this.
        while (member.index() == kThreads - 1 && done + (end - first) < kUnits) std::this_thread::yield();
      }
      done += end - first;
    });
  });
  CHECK(done == kUnits, "%zu units", done.load());
  for (size_t index = 0; index < kThreads; index++) {
    CHECK(begun[index] == index * kUnits / kThreads, "member %zu begins at %zu", index, begun[index]);
    CHECK(sizes[index] > 10 && sizes[index] < kUnits / kThreads, "member %zu takes %zu units", index, sizes[index]);
  }
}

/// More threads than cores, and now and then a unit that makes all other threads wait: some members sleep, others come
/// late.
void test_crowd() {
  std::atomic<uint64_t> done{0};
  ThreadPool::instance().run(16, [&](Member& member) {
    for (size_t phase = 0; phase < 300; phase++) {
      member.phase(64, {}, [&](size_t first, size_t end) {
        for (size_t unit = first; unit < end; unit++) {
          const auto until =
              std::chrono::steady_clock::now() + std::chrono::microseconds(phase % 40 == 7 && unit == 5 ? 2000 : 3);
          while (std::chrono::steady_clock::now() < until) {
          }
        }
        done += end - first;
      });
    }
  });
  CHECK(done == 300 * 64, "%llu", static_cast<unsigned long long>(done.load()));
}

/// A member may leave between phases: the others epilogue without it.
void test_leaving() {
  std::atomic<size_t> done{0};
  ThreadPool::instance().run(4, [&](Member& member) {
    for (size_t phase = 0; phase < 50; phase++) {
      if (member.index() != 0 && phase == 10 + member.index()) return;
      member.phase(100, {}, [&](size_t first, size_t end) { done += end - first; });
    }
  });
  CHECK(done == 5000, "%zu", done.load());
}

/// Long waits sleep: the processor time of a team that waits for one member stays far below its wall time.
void test_sleeping() {
  const auto processor_seconds = [] {
    timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
  };
  const double before = processor_seconds();
  ThreadPool::instance().run(4, [&](Member& member) {
    member.phase(1, {}, [](size_t, size_t) { std::this_thread::sleep_for(std::chrono::milliseconds(200)); });
  });
  const double spent = processor_seconds() - before;
  CHECK(spent < 0.1, "%f s of processor time while waiting for 0.2 s", spent);
}

void test_queue() {
  struct Count : Job {
    std::atomic<int>* counter;
    int expected;
    std::atomic<int>* wrong;
    void run() noexcept override {
      if (counter->fetch_add(1) != expected) (*wrong)++;
    }
  };
  std::atomic<int> counter{0};
  std::atomic<int> wrong{0};
  for (int index = 0; index < 200; index++) {
    auto job = std::make_shared<Count>();
    job->counter = &counter;
    job->expected = index;
    job->wrong = &wrong;
    StepQueue::instance().push(job);
  }
  for (int pass = 0; pass < 5000 && counter != 200; pass++) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  CHECK(counter == 200 && wrong == 0, "%d jobs, %d out of order", counter.load(), wrong.load());
}

void test_region() {
  const std::shared_ptr<Region> own = Region::allocate(100);
  CHECK(own->range(40, 60, "all") == own->buffer() + 40, "range");
  check_refused("beyond", [&] { own->range(41, 60, "beyond"); });
  check_refused("beyond", [&] { own->range(SIZE_MAX, 2, "beyond"); });
  check_refused("beyond", [&] { own->range(101, 0, "beyond"); });
  check_refused("region.address", [] { Region::map(0, 10); });
  check_refused("region.address", [] { Region::map(UINT64_MAX - 4096, 8192); });
  void* page = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const uint64_t address = reinterpret_cast<uintptr_t>(page);
  CHECK(Region::map(address, 4096)->size_bytes() == 4096, "a mapped page");
  munmap(page, 4096);
  check_refused("region.address", [&] { Region::map(address, 4096); });
  const EngineError error = thrown("a petabyte", [] { Region::allocate(size_t{1} << 50); });
  CHECK(error.code == ErrorCode::memory && error.needed_bytes == 1125899906842624.0, "%s", error.message.c_str());
}

void test_kv_sizes() {
  KvOptions options = tiny_cache();
  CHECK(KvCache::size_bytes(options) == kLayers * kKvHeads * 400 * kv_cell(KvType::f16, 32, 32, 16).bytes, "size");
  const KvCache cache(options);
  CHECK(cache.cells(1, 1) - cache.cells(0, 0) ==
            static_cast<std::ptrdiff_t>(cache.size_bytes() / 2 + cache.cell(1).bytes),
        "layout");
  options.blocks = (size_t{1} << 31) - 1;
  options.block_tokens = 65536;
  CHECK(thrown("petabytes", [&] { KvCache huge(options); }).code == ErrorCode::memory, "too large for the machine");
  options.layers.assign(65536, {size_t{1} << 31, 65536, 65536});
  CHECK(thrown("overflow", [&] { KvCache::size_bytes(options); }).code == ErrorCode::memory, "too large for 64 bits");
  options = tiny_cache(KvType::q8_0);
  options.layers[1].value_width = 48;
  check_refused("kvCache.valueWidth", [&] { KvCache::size_bytes(options); });
  options.layers[1].value_width = 65537;
  check_refused("kvCache.valueWidth", [&] { KvCache::size_bytes(options); });
  options.layers[1].key_width = 0;
  check_refused("kvCache.keyWidth", [&] { KvCache::size_bytes(options); });
  options.layers.assign(65537, {1, 32, 32});
  check_refused("kvCache.layers", [&] { KvCache::size_bytes(options); });
}

/// Layers of different shapes follow one another; without values of its own a layer stores its keys once.
void test_kv_layers() {
  KvOptions options = tiny_cache();
  options.layers = {{2, 32, 64}, {1, 576, 0}, {4, 48, 16}};
  const size_t sizes[] = {2 * kv_cell(KvType::f16, 32, 64, 16).bytes, kv_cell(KvType::f16, 576, 0, 16).bytes,
                          4 * kv_cell(KvType::f16, 48, 16, 16).bytes};
  CHECK(sizes[1] == 576 * 16 * 2, "keys alone are %zu bytes", sizes[1]);
  const KvCache cache(options);
  CHECK(cache.size_bytes() == 400 * (sizes[0] + sizes[1] + sizes[2]), "size");
  for (size_t layer = 0; layer < 3; layer++) CHECK(cache.block_stride(layer) == sizes[layer], "layer %zu", layer);
  CHECK(cache.cells(1, 0) == cache.cells(0, 0) + 400 * sizes[0], "second layer");
  CHECK(cache.cells(2, 3) == cache.cells(1, 0) + 400 * sizes[1] + sizes[2] / 4 * 3, "third layer");
}

/// The layers of a group have its number of blocks, and a copy touches no other group.
void test_kv_groups() {
  KvOptions options = tiny_cache();
  options.layers = {{2, 32, 32, 0}, {2, 32, 32, 1}, {2, 32, 32, 0}};
  options.blocks = 7;
  options.blocks_by_group = {7, 3};
  const size_t block = 2 * kv_cell(KvType::f16, 32, 32, 16).bytes;
  KvCache cache(options);
  CHECK(cache.size_bytes() == (7 + 3 + 7) * block, "size");
  CHECK(cache.cells(2, 0) == cache.cells(0, 0) + 10 * block, "third layer");
  for (size_t index = 0; index < cache.size_bytes(); index++) cache.cells(0, 0)[index] = uint8_t(index / block);
  cache.check_copies({0, 2}, 1);
  check_refused("pairs[1]", [&] { cache.check_copies({0, 3}, 1); });
  check_refused("group", [&] { cache.check_copies({0, 1}, 2); });
  cache.copy_blocks({0, 2}, 1);
  for (size_t index = 0; index < 17; index++) {
    const uint8_t expected = uint8_t(index == 9 ? 7 : index);
    CHECK(cache.cells(0, 0)[index * block] == expected, "block %zu", index);
  }
  options.blocks = 9;
  options.blocks_by_group = {9, 4};
  KvCache grown(options);
  check_refused("blocks", [&] { grown.check_copy_from(cache, {7}); });
  check_refused("blocks", [&] { grown.check_copy_from(cache, {7, 4}); });
  check_refused("blocks", [&] { grown.check_copy_from(cache, {-1, 3}); });
  grown.check_copy_from(cache, {7, 3});
  grown.copy_from(cache, {7, 3});
  CHECK(grown.cells(1, 0)[2 * block] == 7 && grown.cells(2, 0)[6 * block] == 16, "grown");
  options.blocks_by_group = {9};
  check_refused("kvCache.blocksByGroup", [&] { KvCache::size_bytes(options); });
  options.blocks_by_group = {9, 10};
  check_refused("kvCache.blocksByGroup", [&] { KvCache::size_bytes(options); });
  options.blocks_by_group = {9, 0};
  check_refused("kvCache.blocksByGroup", [&] { KvCache::size_bytes(options); });
}

std::vector<uint8_t> block_bytes(const KvCache& cache, size_t layer, size_t block) {
  const uint8_t* const start = cache.cells(layer, 0) + block * cache.block_stride(layer);
  return {start, start + cache.block_stride(layer)};
}

/// Every byte of the targets becomes its source's, in every layer, and no byte of another block changes.
void test_block_copies(KvType type) {
  KvOptions options = tiny_cache(type);
  options.blocks = 9;
  options.layers = {{2, 32, 64}, {1, 96, 0}};
  KvCache cache(options);
  Numbers numbers(static_cast<uint64_t>(type));
  for (size_t index = 0; index < cache.size_bytes(); index++)
    cache.cells(0, 0)[index] = static_cast<uint8_t>(numbers.next());
  const std::vector<int32_t> pairs = {2, 8, 0, 5, 2, 1, 7, 3};
  const std::vector<size_t> sources = {0, 2, 2, 7, 4, 0, 6, 7, 2};
  std::vector<std::vector<uint8_t>> before;
  for (size_t layer = 0; layer < kLayers; layer++) {
    for (size_t block = 0; block < options.blocks; block++) before.push_back(block_bytes(cache, layer, block));
  }
  cache.check_copies(pairs);
  cache.copy_blocks(pairs);
  for (size_t layer = 0; layer < kLayers; layer++) {
    for (size_t block = 0; block < options.blocks; block++) {
      CHECK(block_bytes(cache, layer, block) == before[layer * options.blocks + sources[block]],
            "block %zu of layer %zu", block, layer);
    }
  }
}

void test_copy_check() {
  KvCache cache(tiny_cache());
  cache.check_copies({});
  cache.check_copies({0, 399, 0, 1});
  check_refused("pairs", [&] { cache.check_copies({0}); });
  check_refused("pairs[0]", [&] { cache.check_copies({-1, 3}); });
  check_refused("pairs[1]", [&] { cache.check_copies({3, 400}); });
  check_refused("pairs[2]", [&] { cache.check_copies({3, 4, INT32_MIN, 5}); });
  check_refused("pairs[0]", [&] { cache.check_copies({7, 7}); });
  check_refused("pairs[2]", [&] { cache.check_copies({1, 2, 2, 3}); });
  check_refused("pairs[0]", [&] { cache.check_copies({1, 2, 3, 1}); });
  check_refused("pairs[3]", [&] { cache.check_copies({1, 2, 3, 2}); });
  // A refused copy leaves no mark behind.
  cache.check_copies({1, 2, 3, 4});
  Program program = tiny_program({});
  check_program(program);
  check_step(program, &cache, make_step({{0, 0, 20}}));
}

}  // namespace

int main() {
  for (const size_t threads : {1, 2, 3, 16}) {
    test_phases(threads, {1, 1, SIZE_MAX});
    test_phases(threads, {32, 64, 256});
  }
  test_shares();
  test_crowd();
  test_leaving();
  test_sleeping();
  test_queue();
  test_region();
  test_kv_sizes();
  test_kv_layers();
  test_kv_groups();
  for (const KvType type : {KvType::f32, KvType::f16, KvType::q8_0}) test_block_copies(type);
  test_copy_check();
  std::atomic<bool> cancelled{false};
  CHECK(measure_read_bandwidth(1 << 22, 2, cancelled) > 1e6, "bandwidth");
  printf("engine: ok\n");
  return 0;
}
