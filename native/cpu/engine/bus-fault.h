// What happens when a mapped file shrinks while it is being read: the page that is gone becomes zeros, the region that
// it belongs to is marked, and the step that met it ends as an error. Faults anywhere else go to the handler that was
// installed before.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace rocmforge {

/// Marks the calling thread as one that computes: only there is a fault ours to mend.
class BusFaultGuard {
 public:
  BusFaultGuard();
  ~BusFaultGuard();
  BusFaultGuard(const BusFaultGuard&) = delete;
  BusFaultGuard& operator=(const BusFaultGuard&) = delete;
};

/// A mapping that the handler knows, for as long as this object lives.
class WatchedRange {
 public:
  /// Throws `memory` when too many are watched already.
  WatchedRange(const uint8_t* data, size_t size_bytes);
  ~WatchedRange();
  WatchedRange(const WatchedRange&) = delete;
  WatchedRange& operator=(const WatchedRange&) = delete;

  bool truncated() const;

 private:
  size_t entry_;
};

}  // namespace rocmforge
