// Claims are a compare-and-swap on (phase, next unit) in one word, so that a late member can never take a unit of a
// phase it is not in. The member that completes the last unit opens the next phase and wakes the members that sleep.

#include "team.h"

#include <algorithm>
#include <chrono>

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif

namespace rocmforge {

namespace {

using Clock = std::chrono::steady_clock;

/// Longer than the tail of a well cut phase, much shorter than a time slice that another process may have taken.
constexpr auto kSpinTime = std::chrono::microseconds(40);
constexpr int kPausesPerLook = 16;
/// A chunk is at most this part of a thread's even share of the rest.
constexpr size_t kRoundsLeft = 4;

inline void pause() {
#if defined(__x86_64__) || defined(__i386__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

inline uint32_t phase_of(uint64_t word) { return static_cast<uint32_t>(word >> 32); }

}  // namespace

void Team::reset(size_t threads) {
  threads_ = threads;
  done_.store(0, std::memory_order_relaxed);
  claimed_.store(0, std::memory_order_release);
}

bool Member::claim(size_t count, const ChunkSizes& chunks, size_t& first, size_t& end) {
  uint64_t word = team_.claimed_.load(std::memory_order_acquire);
  for (;;) {
    const size_t next = static_cast<uint32_t>(word);
    if (phase_of(word) != phase_ || next >= count) return false;
    const size_t rest = count - next;
    const size_t share =
        std::clamp(rest / (kRoundsLeft * team_.threads_), chunks.smallest, std::max(chunks.smallest, chunks.largest));
    const size_t taken = std::min(rest, (share + chunks.granule - 1) / chunks.granule * chunks.granule);
    if (team_.claimed_.compare_exchange_weak(word, word + taken, std::memory_order_acq_rel,
                                             std::memory_order_acquire)) {
      first = next;
      end = next + taken;
      return true;
    }
  }
}

void Member::complete(size_t units, size_t count) {
  if (team_.done_.fetch_add(units, std::memory_order_acq_rel) + units != count) return;
  team_.done_.store(0, std::memory_order_relaxed);
  // Sequentially consistent with the sleeper's own order (count itself, then look again): one of the two sees the
  // other.
  team_.claimed_.store(uint64_t{phase_ + 1} << 32, std::memory_order_seq_cst);
  if (team_.sleepers_.load(std::memory_order_seq_cst) == 0) return;
  std::lock_guard<std::mutex> lock(team_.mutex_);
  team_.advanced_.notify_all();
}

void Member::wait() {
  const auto start = Clock::now();
  const auto over = [this](std::memory_order order) { return phase_of(team_.claimed_.load(order)) != phase_; };
  auto now = start;
  while (!over(std::memory_order_acquire)) {
    if (now - start >= kSpinTime) {
      std::unique_lock<std::mutex> lock(team_.mutex_);
      team_.sleepers_.fetch_add(1, std::memory_order_seq_cst);
      while (!over(std::memory_order_seq_cst)) team_.advanced_.wait(lock);
      team_.sleepers_.fetch_sub(1, std::memory_order_relaxed);
      break;
    }
    for (int pauses = 0; pauses < kPausesPerLook && !over(std::memory_order_relaxed); pauses++) pause();
    now = Clock::now();
  }
  waited_ns_ +=
      static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count());
}

}  // namespace rocmforge
