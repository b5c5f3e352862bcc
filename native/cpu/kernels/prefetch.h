// Software prefetch of weights that will be read soon. Lines are prefetched a few at a time, between multiplications:
// all at once would be more than a core can have in flight, and it would stall. They go to the second-level cache: the
// first holds the activations.

#pragma once

#include <cstddef>
#include <cstdint>

namespace rocmforge {
namespace {

constexpr size_t kLineBytes = 64;
constexpr size_t kPageBytes = 4096;

struct Prefetch {
  const uint8_t* from = nullptr;
  size_t lines = 0;

  /// Part `part` of `parts`.
  void issue(size_t part, size_t parts) const {
    const size_t share = (lines + parts - 1) / parts;
    for (size_t line = part * share; line < (part + 1) * share; line++)
      __builtin_prefetch(from + line * kLineBytes, 0, 1);
  }
};

/// Resolves the addresses of a range's pages together: a core waits for the first line of each page that it reads
/// alone, and hardly longer for several.
inline void prefetch_pages(const uint8_t* from, const uint8_t* end) {
  for (; from < end; from += kPageBytes) __builtin_prefetch(from, 0, 1);
}

}  // namespace
}  // namespace rocmforge
