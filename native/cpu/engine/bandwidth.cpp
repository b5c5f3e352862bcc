// Threads claim chunks in order, as they do with weights, and add up what they read so that no read can be left out.

#include "bandwidth.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>

#include "error.h"
#include "memory.h"
#include "thread-pool.h"

namespace rocmforge {

namespace {

constexpr size_t kPasses = 6;
constexpr size_t kChunkBytes = size_t{1} << 20;
constexpr size_t kLanes = 32;

/// Four cache lines at a time into independent sums; the compiler makes vectors of it.
uint64_t sum_words(const uint64_t* words, size_t count) {
  uint64_t sums[kLanes] = {};
  for (size_t index = 0; index + kLanes <= count; index += kLanes) {
    for (size_t lane = 0; lane < kLanes; lane++) sums[lane] += words[index + lane];
  }
  uint64_t total = 0;
  for (const uint64_t sum : sums) total += sum;
  return total;
}

}  // namespace

double measure_read_bandwidth(size_t size_bytes, size_t threads, const std::atomic<bool>& cancelled) {
  const size_t chunks = (size_bytes + kChunkBytes - 1) / kChunkBytes;
  const SystemMemory memory(checked_multiply(chunks, kChunkBytes, "bandwidth"), "bandwidth");
  std::atomic<uint64_t> total{0};
  double best = 0;
  for (size_t pass = 0; pass <= kPasses; pass++) {
    if (cancelled.load(std::memory_order_relaxed)) throw EngineError{ErrorCode::cancelled, "bandwidth: cancelled", 0};
    const auto start = std::chrono::steady_clock::now();
    ThreadPool::instance().run(threads, [&](Member& member) {
      member.phase(chunks, {1, 1, 4}, [&](size_t first, size_t end) {
        uint8_t* const data = memory.data() + first * kChunkBytes;
        const size_t bytes = (end - first) * kChunkBytes;
        if (pass == 0) {
          std::memset(data, 1, bytes);
        } else {
          total.fetch_add(sum_words(reinterpret_cast<const uint64_t*>(data), bytes / sizeof(uint64_t)),
                          std::memory_order_relaxed);
        }
      });
    });
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    // A sum of ones cannot be zero: the comparison keeps the reads.
    if (pass > 0 && total.load() != 0 && seconds > 0)
      best = std::max(best, static_cast<double>(memory.size_bytes()) / seconds);
  }
  return best;
}

}  // namespace rocmforge
