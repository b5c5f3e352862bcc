// What one layer of a KV cache stores of a token, and how long queries need it; programs and caches have lists of them.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace rocmforge {

struct KvLayerShape {
  size_t kv_heads = 0;
  size_t key_width = 0;
  /// 0 if the values are columns of the keys.
  size_t value_width = 0;
  /// The cache group, whose tables have the layer's blocks.
  size_t group = 0;

  /// Columns of a stored row of values.
  size_t stored_value_width() const { return value_width == 0 ? key_width : value_width; }
  bool operator==(const KvLayerShape& other) const {
    return kv_heads == other.kv_heads && key_width == other.key_width && value_width == other.value_width &&
           group == other.group;
  }
};

/// How far back queries see the layers of a cache group: SIZE_MAX is no limit.
struct KvReach {
  size_t window = SIZE_MAX;
  size_t chunk = SIZE_MAX;

  size_t first_visible(size_t position) const {
    const size_t chunk_start = position - position % chunk;
    const size_t window_start = position < window ? 0 : position + 1 - window;
    return chunk == SIZE_MAX ? window_start : std::max(window_start, chunk_start);
  }
};

}  // namespace rocmforge
