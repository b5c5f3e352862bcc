// How fast attention reads the cache when it writes one token (beside a plain read of the same memory), and how fast it
// computes when it reads a prompt. Best of several passes.
//   rows-bench [isa]

#include "rows-test.h"

#include <sys/mman.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>

namespace rocmforge {
namespace {

constexpr size_t kDepth = 4096, kHeads = 8, kGroup = 4, kBlockTokens = 32, kBlocks = kDepth / kBlockTokens;
constexpr size_t kSpans = kDepth / kAttentionSpan;

double seconds_of(size_t threads, const std::function<void(size_t)>& work) {
  double best = 1e9;
  for (int pass = 0; pass < 7; pass++) {
    const auto start = std::chrono::steady_clock::now();
    std::vector<std::thread> others;
    for (size_t thread = 1; thread < threads; thread++) others.emplace_back(work, thread);
    work(0);
    for (std::thread& other : others) other.join();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

struct Cache {
  KvCell cell;
  size_t layers, layer_bytes;
  std::unique_ptr<uint8_t, void (*)(void*)> memory{nullptr, free};
  std::vector<int32_t> table;

  Cache(KvType type, size_t width, size_t layer_count)
      : cell(kv_cell(type, width, width, kBlockTokens)), layers(layer_count) {
    layer_bytes = kBlocks * kHeads * cell.bytes;
    constexpr size_t large_page = 2 << 20;
    const size_t whole = (bytes() + large_page - 1) / large_page * large_page;
    memory.reset(static_cast<uint8_t*>(aligned_alloc(large_page, whole)));
#if defined(MADV_HUGEPAGE)
    madvise(memory.get(), whole, MADV_HUGEPAGE);
#endif
    for (size_t block = 0; block < kBlocks; block++) table.push_back(static_cast<int32_t>(block));
  }
  size_t bytes() const { return layers * layer_bytes; }

  void fill(const RowKernels& kernels) {
    Numbers numbers(1);
    const std::vector<float> row = numbers.row(4096, 1);
    for (size_t index = 0; index < layers * kBlocks * kHeads; index++) {
      for (size_t token = 0; token < kBlockTokens; token++) {
        const float* from = row.data() + numbers.bits() % 2048;
        kernels.store_kv({&cell, memory.get() + index * cell.bytes, token, from, from + 512});
      }
    }
  }

  AttentionTask task(size_t layer, size_t head, size_t span) const {
    AttentionTask task = {};
    task.cell = &cell;
    task.cells = memory.get() + layer * layer_bytes + head * cell.bytes;
    task.block_stride = kHeads * cell.bytes;
    task.block_table = table.data();
    task.first = span * kAttentionSpan;
    task.end = task.first + kAttentionSpan;
    task.table_end = kDepth;
    return task;
  }
};

/// A thread's own room.
struct Desk {
  std::vector<float> queries, values;
  std::unique_ptr<uint8_t, void (*)(void*)> scratch{nullptr, free};

  Desk(const RowKernels& kernels, size_t width)
      : queries(Numbers(2).row(kAttentionRows * width, 0.3f)), values(kAttentionRows * width) {
    scratch.reset(static_cast<uint8_t*>(aligned_alloc(64, (kernels.attention_scratch_bytes() + 63) / 64 * 64)));
  }
  void seat(AttentionTask& task, size_t rows, size_t width) {
    task.rows = rows;
    for (size_t row = 0; row < rows; row++) {
      task.queries[row] = queries.data() + row * width;
      task.starts[row] = task.first;
      task.limits[row] = task.end;
      task.partials[row].values = values.data() + row * width;
    }
  }
};

double read_gigabytes(const Cache& cache, size_t threads) {
  volatile uint64_t sink = 0;
  const double seconds = seconds_of(threads, [&](size_t thread) {
    const size_t share = cache.bytes() / threads / 64 * 64;
    const uint8_t* from = cache.memory.get() + thread * share;
    uint64_t sums[8] = {};
    for (size_t at = 0; at < share; at += 64) {
      uint64_t line[8];
      memcpy(line, from + at, 64);
      for (size_t k = 0; k < 8; k++) sums[k] += line[k];
    }
    sink = sink + sums[0] + sums[1] + sums[2] + sums[3] + sums[4] + sums[5] + sums[6] + sums[7];
  });
  return static_cast<double>(cache.bytes()) / seconds / 1e9;
}

double decode_gigabytes(const RowKernels& kernels, const Cache& cache, size_t threads) {
  const double seconds = seconds_of(threads, [&](size_t thread) {
    const size_t width = cache.cell.key_width;
    Desk desk(kernels, width);
    for (size_t layer = 0; layer < cache.layers; layer++) {
      const size_t tasks = kHeads * kSpans;
      for (size_t index = tasks * thread / threads; index < tasks * (thread + 1) / threads; index++) {
        AttentionTask task = cache.task(layer, index / kSpans, index % kSpans);
        desk.seat(task, kGroup, width);
        kernels.attend(task, desk.scratch.get());
      }
    }
  });
  return static_cast<double>(cache.bytes()) / seconds / 1e9;
}

/// One head over and over, as the tokens of a prompt do: the cells come from the caches.
double prompt_gigaflops(const RowKernels& kernels, const Cache& cache, size_t rows) {
  const size_t width = cache.cell.key_width, passes = 64;
  const double seconds = seconds_of(1, [&](size_t) {
    Desk desk(kernels, width);
    for (size_t pass = 0; pass < passes; pass++) {
      for (size_t span = 0; span < 2; span++) {
        AttentionTask task = cache.task(0, 0, span);
        desk.seat(task, rows, width);
        kernels.attend(task, desk.scratch.get());
      }
    }
  });
  return static_cast<double>(passes * 2 * kAttentionSpan * rows * width * 4) / seconds / 1e9;
}

void bench(const RowIsa& isa) {
  const RowKernels& kernels = *isa.kernels;
  for (const KvType type : {KvType::f16, KvType::q8_0, KvType::f32}) {
    for (const size_t width : {64, 128}) {
      Cache cache(type, width, 16);
      cache.fill(kernels);
      const char* name = type == KvType::f16 ? "f16" : type == KvType::q8_0 ? "q8_0" : "f32";
      printf("%-8s %-4s width %3zu, depth %zu:", isa.name, name, width, kDepth);
      for (const size_t threads : {1, 2}) {
        printf("  %zu thread%s: decode %5.1f GB/s, plain read %5.1f", threads, threads == 1 ? "" : "s",
               decode_gigabytes(kernels, cache, threads), read_gigabytes(cache, threads));
      }
      printf("  prompt: 8 rows %5.1f GFLOP/s, 4 rows %5.1f\n", prompt_gigaflops(kernels, cache, 8),
             prompt_gigaflops(kernels, cache, 4));
      fflush(stdout);
    }
  }
}

}  // namespace
}  // namespace rocmforge

int main(int count, char** words) {
  for (const rocmforge::RowIsa& isa : rocmforge::row_isas()) {
    if (count < 2 || strcmp(words[1], isa.name) == 0) rocmforge::bench(isa);
  }
}
