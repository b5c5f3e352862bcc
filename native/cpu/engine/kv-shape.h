// What one layer of a KV cache stores of a token; programs and caches have a list of them.

#pragma once

#include <cstddef>

namespace rocmforge {

struct KvLayerShape {
  size_t kv_heads = 0;
  size_t key_width = 0;
  /// 0 if the values are columns of the keys.
  size_t value_width = 0;

  /// Columns of a stored row of values.
  size_t stored_value_width() const { return value_width == 0 ? key_width : value_width; }
  bool operator==(const KvLayerShape& other) const {
    return kv_heads == other.kv_heads && key_width == other.key_width && value_width == other.value_width;
  }
};

}  // namespace rocmforge
