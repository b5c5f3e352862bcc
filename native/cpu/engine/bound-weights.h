// The weights that a program is bound to: matrices in the layout of their regions, vectors as f32. A step holds a
// share, so a program may be bound anew while steps of the old binding are under way.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "../kernels/kernel-table.h"
#include "program.h"
#include "region.h"

namespace rocmforge {

struct WeightLocation {
  std::shared_ptr<Region> region;
  size_t byte_offset;
  size_t size_bytes;
};

class BoundWeights {
 public:
  /// Throws `invalid` for a location that is not exactly its weight's size inside its region.
  BoundWeights(const Program& program, const std::vector<WeightLocation>& locations);

  /// Converts the vectors that cannot be read in place; once, on the runner's thread, because it reads the file.
  void prepare(const RowKernels& rows);

  const Matrix& matrix(Id id) const { return matrices_[static_cast<size_t>(id)]; }
  /// Null for -1.
  const float* vector(Id id) const { return id == kNone ? nullptr : vectors_[static_cast<size_t>(id)]; }
  /// True when a file has shrunk under its mapping.
  bool truncated() const;
  /// True when the owner has given up one of the regions.
  bool closed() const;

 private:
  struct Conversion {
    size_t weight;
    float* target;
  };

  std::vector<std::shared_ptr<Region>> regions_;
  std::vector<Matrix> matrices_;
  std::vector<const float*> vectors_;
  std::vector<Conversion> conversions_;
  SystemMemory converted_;
};

}  // namespace rocmforge
