// Claims are a compare-and-swap on (phase, units claimed) in one word, so that a late member can never take a unit of a
// phase it is not in. The words need no reset: a phase ends when all of its shares are claimed, so the word of an earlier
// phase stands for a share that is not claimed yet. The member that completes the last unit opens the next phase and
// wakes the members that sleep.

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
/// A chunk is at most this part of what is left of a share.
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
  if (threads > most_threads_) {
    shares_.reset(new Share[threads]);
    most_threads_ = threads;
  }
  for (size_t share = 0; share < threads; share++) {
    shares_[share].claimed.store(0, std::memory_order_relaxed);
    shares_[share].done.store(0, std::memory_order_relaxed);
  }
  threads_ = threads;
  done_.store(0, std::memory_order_relaxed);
  phase_.store(0, std::memory_order_release);
}

bool Member::claim(const Division& division, const ChunkSizes& chunks, Chunk& chunk) {
  for (; exhausted_ < division.shares; exhausted_++) {
    if (claim_from((index_ + exhausted_) % division.shares, division, chunks, chunk)) return true;
    if (team_.phase_.load(std::memory_order_relaxed) != phase_) return false;
  }
  return false;
}

bool Member::claim_from(size_t share, const Division& division, const ChunkSizes& chunks, Chunk& chunk) {
  const size_t begin = division.begin(share);
  const size_t units = division.begin(share + 1) - begin;
  std::atomic<uint64_t>& claimed = team_.shares_[share].claimed;
  uint64_t word = claimed.load(std::memory_order_acquire);
  for (;;) {
    const size_t next = phase_of(word) < phase_ ? 0 : static_cast<uint32_t>(word);
    if (phase_of(word) > phase_ || next >= units) return false;
    const size_t rest = units - next;
    const size_t wanted = std::clamp(rest / kRoundsLeft, chunks.smallest, std::max(chunks.smallest, chunks.largest));
    const size_t taken = std::min(rest, (wanted + chunks.granule - 1) / chunks.granule * chunks.granule);
    if (claimed.compare_exchange_weak(word, uint64_t{phase_} << 32 | (next + taken), std::memory_order_acq_rel,
                                      std::memory_order_acquire)) {
      chunk = {begin + next, begin + next + taken, share, units};
      return true;
    }
  }
}

void Member::complete(const Chunk& chunk, size_t count) {
  std::atomic<uint64_t>& share = team_.shares_[chunk.share].done;
  const size_t units = chunk.end - chunk.first;
  if (share.fetch_add(units, std::memory_order_acq_rel) + units != chunk.share_units) return;
  share.store(0, std::memory_order_relaxed);
  if (team_.done_.fetch_add(chunk.share_units, std::memory_order_acq_rel) + chunk.share_units != count) return;
  team_.done_.store(0, std::memory_order_relaxed);
  // Sequentially consistent with the sleeper's own order (count itself, then look again): one of the two sees the
  // other.
  team_.phase_.store(phase_ + 1, std::memory_order_seq_cst);
  if (team_.sleepers_.load(std::memory_order_seq_cst) == 0) return;
  std::lock_guard<std::mutex> lock(team_.mutex_);
  team_.advanced_.notify_all();
}

void Member::wait() {
  const auto start = Clock::now();
  const auto over = [this](std::memory_order order) { return team_.phase_.load(order) != phase_; };
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
