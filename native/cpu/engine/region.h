// Memory that weights are read from: a mapping of a file that the caller owns, or a buffer of the addon's own. Access
// is by (offset, length), checked; no other file makes a pointer of an address from the bindings.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "bus-fault.h"
#include "memory.h"

namespace rocmforge {

class Region {
 public:
  /// A mapping that the caller keeps alive; refused if the address range is not mapped at all.
  static std::shared_ptr<Region> map(uint64_t address, size_t size_bytes);
  static std::shared_ptr<Region> allocate(size_t size_bytes);

  size_t size_bytes() const { return size_bytes_; }
  bool owned() const { return !watch_.has_value(); }
  /// The buffer of an owned region, to be filled.
  uint8_t* buffer() const { return memory_.data(); }
  /// Throws `invalid` when the range leaves the region; `where` names it.
  const uint8_t* range(size_t byte_offset, size_t size_bytes, const char* where) const;
  bool truncated() const { return watch_.has_value() && watch_->truncated(); }

  /// Set when the owner has given the region up: its mapping may be gone.
  void close() { closed_.store(true, std::memory_order_release); }
  bool closed() const { return closed_.load(std::memory_order_acquire); }

 private:
  Region() = default;

  const uint8_t* data_ = nullptr;
  size_t size_bytes_ = 0;
  SystemMemory memory_;
  std::optional<WatchedRange> watch_;
  std::atomic<bool> closed_{false};
};

}  // namespace rocmforge
