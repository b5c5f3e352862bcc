// Where the results of a tile go if they are complete and none of its rows and tokens is missing: to their place, instead
// of waiting for the others in scratch memory.

#pragma once

#include <cstddef>

namespace rocmforge {
namespace {

struct TileTarget {
  /// Of the first token; null for none.
  float* rows = nullptr;
  /// Floats from token to token.
  size_t stride = 0;
};

}  // namespace
}  // namespace rocmforge
