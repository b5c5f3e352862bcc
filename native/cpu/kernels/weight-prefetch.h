// Which weights GEMM prefetches: the rows after a tile, or the next chunk of its rows. To be included after the tiles of
// one instruction set.

#pragma once

#include "prefetch.h"
#include "matmul-interface.h"

namespace rocmforge {
namespace {

inline const uint8_t* end_of(const Matrix& weight) { return weight.data + weight.rows * weight.row_bytes; }

/// Part `part` of `parts` of the rows after a tile, which lie behind one another.
inline Prefetch next_tile(const Matrix& weight, size_t first_row, size_t part, size_t parts) {
  const size_t tile_bytes = kTileRows * weight.row_bytes;
  const uint8_t* from = weight.data + (first_row + kTileRows) * weight.row_bytes + tile_bytes * part / parts;
  const size_t bytes = tile_bytes / parts + kLineBytes;
  return from + bytes < end_of(weight) ? Prefetch{from, bytes / kLineBytes} : Prefetch{};
}

inline void prefetch_pages_of_tile(const Matrix& weight, size_t first_row) {
  const size_t end_row = first_row + kTileRows;
  prefetch_pages(weight.data + first_row * weight.row_bytes,
                 weight.data + (end_row < weight.rows ? end_row : weight.rows) * weight.row_bytes);
}

/// Prefetches one chunk of some rows, some lines with each panel: each row is a stream of its own, too short for the
/// hardware to notice. Asking for all of it at once would stall the core.
template <class Type>
class ChunkPrefetch {
 public:
  ChunkPrefetch() = default;
  ChunkPrefetch(const Matrix& weight, size_t first_row, size_t rows, size_t chunk, size_t panels)
      : row_(weight.data + first_row * weight.row_bytes + chunk * Type::kBytes),
        row_bytes_(weight.row_bytes),
        left_(rows * kRowLines),
        share_((left_ + panels - 1) / panels) {}

  /// Once for each panel.
  void issue() {
    const size_t count = share_ < left_ ? share_ : left_;
    left_ -= count;
    for (size_t index = 0; index < count; index++) {
      __builtin_prefetch(row_ + offset_, 0, 2);
      offset_ += kLineBytes;
      if (offset_ < kRowLines * kLineBytes) continue;
      offset_ = 0;
      row_ += row_bytes_;
    }
  }

 private:
  static constexpr size_t kRowLines = (Type::kBytes + kLineBytes - 1) / kLineBytes;

  const uint8_t* row_ = nullptr;
  size_t row_bytes_ = 0;
  size_t left_ = 0;
  size_t share_ = 0;
  size_t offset_ = 0;
};

}  // namespace
}  // namespace rocmforge
