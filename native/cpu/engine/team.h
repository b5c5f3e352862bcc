// How several threads walk one list of phases. Every member walks the whole list by itself; within a phase they claim
// chunks of work from one counter, and a phase is over when all its work is done, not when all members have come by. So
// a member that the system has put to sleep between two chunks delays no other member: the others do its share, and it
// skips what is over when it wakes. A member may also leave for good between two phases.

#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace rocmforge {

/// How a phase is cut: guided, from large chunks to small ones for the tail. Counts are in units of the phase.
struct ChunkSizes {
  /// Chunks are multiples of this, except the last.
  size_t granule = 1;
  size_t smallest = 1;
  size_t largest = SIZE_MAX;
};

class Team {
 public:
  /// Prepares for a new list of phases; no member may be at work.
  void reset(size_t threads);

 private:
  friend class Member;

  /// The phase in the upper half and the first unit that is not claimed yet in the lower half.
  alignas(64) std::atomic<uint64_t> claimed_{0};
  /// Units of the phase that are done.
  alignas(64) std::atomic<uint64_t> done_{0};
  alignas(64) std::atomic<uint32_t> sleepers_{0};
  size_t threads_ = 1;
  std::mutex mutex_;
  std::condition_variable advanced_;
};

class Member {
 public:
  Member(Team& team, size_t index) : team_(team), index_(index) {}
  size_t index() const { return index_; }
  /// Time spent waiting for others, in nanoseconds.
  uint64_t waited_ns() const { return waited_ns_; }

  /// Runs work(first, end) over chunks of [0, count) together with the other members, and returns when all of it is
  /// done. `count` is below 2³² and the same for every member.
  template <typename Work>
  void phase(size_t count, const ChunkSizes& chunks, Work&& work) {
    if (count == 0) return;
    size_t first = 0;
    size_t end = 0;
    while (claim(count, chunks, first, end)) {
      work(first, end);
      complete(end - first, count);
    }
    if (static_cast<uint32_t>(team_.claimed_.load(std::memory_order_acquire) >> 32) == phase_) wait();
    phase_++;
  }

 private:
  bool claim(size_t count, const ChunkSizes& chunks, size_t& first, size_t& end);
  void complete(size_t units, size_t count);
  void wait();

  Team& team_;
  size_t index_;
  uint32_t phase_ = 0;
  uint64_t waited_ns_ = 0;
};

}  // namespace rocmforge
