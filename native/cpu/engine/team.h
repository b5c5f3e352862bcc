// How several threads walk one list of phases. Every member walks the whole list by itself; within a phase each claims
// chunks of its own share of the work, from front to back, and then what is left of the others' shares. A phase is over
// when all its work is done, not when all members have come by. So a member that the system has put to sleep between two
// chunks delays no other member: the others do its share, and it skips what is over when it wakes. A member may also
// leave for good between two phases. Shares are contiguous because memory is: with chunks that threads took in turns,
// each prefetcher ran ahead into what another thread was reading (Zen 5, two threads, Q4_K: 25 GB/s in chunks of 36 KB,
// 51 of 288 KB and 62 with two shares, whatever the chunks).

#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

namespace rocmforge {

/// How a share of a phase is cut: guided, from large chunks to small ones for the tail. Counts are in units of the phase.
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

  /// What is claimed of a member's share: the phase in the upper half, and in the lower half the number of units. In an
  /// earlier phase than the current one it means none.
  struct alignas(64) Share {
    std::atomic<uint64_t> claimed{0};
    /// Units that are done.
    std::atomic<uint64_t> done{0};
  };

  std::unique_ptr<Share[]> shares_;
  size_t most_threads_ = 0;
  alignas(64) std::atomic<uint32_t> phase_{0};
  /// Units of the shares that are done as a whole: a chunk alone is nothing that all members have to hear of.
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
    Chunk chunk;
    exhausted_ = 0;
    const Division division(count, chunks.granule, team_.threads_);
    while (claim(division, chunks, chunk)) {
      work(chunk.first, chunk.end);
      complete(chunk, count);
    }
    if (team_.phase_.load(std::memory_order_acquire) == phase_) wait();
    phase_++;
  }

 private:
  struct Chunk {
    size_t first;
    size_t end;
    size_t share;
    size_t share_units;
  };

  /// A phase in shares of whole granules, as equal as possible; none of them is empty.
  struct Division {
    size_t count;
    size_t granule;
    size_t shares;
    /// Granules of each share, and how many are left, one more for each of the first shares.
    size_t granules;
    size_t rest;

    Division(size_t units, size_t granule_units, size_t threads) : count(units), granule(granule_units) {
      const size_t all = (count + granule - 1) / granule;
      shares = all < threads ? all : threads;
      granules = all / shares;
      rest = all % shares;
    }
    size_t begin(size_t share) const {
      const size_t unit = (share * granules + (share < rest ? share : rest)) * granule;
      return unit < count ? unit : count;
    }
  };

  bool claim(const Division& division, const ChunkSizes& chunks, Chunk& chunk);
  bool claim_from(size_t share, const Division& division, const ChunkSizes& chunks, Chunk& chunk);
  void complete(const Chunk& chunk, size_t count);
  void wait();

  Team& team_;
  size_t index_;
  uint32_t phase_ = 0;
  /// Shares that have nothing left, counted from its own one on.
  size_t exhausted_ = 0;
  uint64_t waited_ns_ = 0;
};

}  // namespace rocmforge
