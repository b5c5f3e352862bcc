// Offsets into scratch memory: 64-byte aligned ranges, one after the other.

#pragma once

#include <cstddef>

#include "error.h"

namespace rocmforge {

constexpr size_t kScratchAlignment = 64;

class ScratchOffsets {
 public:
  /// Throws `memory` if the sum passes 64 bits.
  size_t take(size_t size_bytes) {
    const size_t start = used_;
    const size_t end = checked_add(start, size_bytes, "scratch");
    used_ = checked_add(end, kScratchAlignment - 1, "scratch") / kScratchAlignment * kScratchAlignment;
    return start;
  }
  size_t used() const { return used_; }

 private:
  size_t used_ = 0;
};

}  // namespace rocmforge
