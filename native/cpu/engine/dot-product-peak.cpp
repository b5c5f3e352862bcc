// Threads claim short runs of dot products as they claim weights, so a thread that loses its core for a while is not the
// measure of the others.

#include "dot-product-peak.h"

#include <algorithm>
#include <chrono>

#include "error.h"
#include "thread-pool.h"

namespace rocmforge {

namespace {

constexpr size_t kPasses = 8;
/// A run takes about 0.1 ms, a pass about 10 ms.
constexpr size_t kRounds = 20000;
constexpr size_t kRunsPerThread = 100;

}  // namespace

double measure_dot_product_peak(const MatmulKernels& kernels, size_t threads, const std::atomic<bool>& cancelled) {
  double best = 0;
  for (size_t pass = 0; pass < kPasses; pass++) {
    if (cancelled.load(std::memory_order_relaxed)) throw EngineError{ErrorCode::cancelled, "peak: cancelled", 0};
    std::atomic<size_t> total{0};
    const auto start = std::chrono::steady_clock::now();
    ThreadPool::instance().run(threads, [&](Member& member) {
      member.phase(kRunsPerThread * threads, {1, 1, 1}, [&](size_t first, size_t end) {
        int32_t sink[kDotSinks];
        for (size_t run = first; run < end; run++)
          total.fetch_add(kernels.dot_products(kRounds, sink), std::memory_order_relaxed);
      });
    });
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (seconds > 0) best = std::max(best, static_cast<double>(total.load()) / seconds);
  }
  return best;
}

}  // namespace rocmforge
