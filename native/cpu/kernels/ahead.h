// Lines of memory that will be read soon. They are asked for a few at a time, between multiplications: all at once would
// be more than a core can have on their way, and it would wait for them. They go to the second-level cache: the first is
// full of tokens.

#pragma once

#include <cstddef>
#include <cstdint>

namespace rocmforge {
namespace {

constexpr size_t kLineBytes = 64;
constexpr size_t kPageBytes = 4096;

struct Ahead {
  const uint8_t* from = nullptr;
  size_t lines = 0;

  /// Part `part` of `parts`.
  void ask(size_t part, size_t parts) const {
    const size_t share = (lines + parts - 1) / parts;
    for (size_t line = part * share; line < (part + 1) * share; line++)
      __builtin_prefetch(from + line * kLineBytes, 0, 1);
  }
};

/// Looks up where the pages of a range are: together, because a core waits for the first line of each page that it asks
/// for alone, and hardly longer for several.
inline void ask_pages(const uint8_t* from, const uint8_t* end) {
  for (; from < end; from += kPageBytes) __builtin_prefetch(from, 0, 1);
}

}  // namespace
}  // namespace rocmforge
