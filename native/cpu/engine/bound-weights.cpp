// Binding touches no byte of a file: what must be converted is converted by the first step.

#include "bound-weights.h"

#include <string>
#include <unordered_set>

#include "error.h"

namespace rocmforge {

namespace {

constexpr size_t kAlignment = 64;

bool readable_in_place(const Weight& weight, const uint8_t* data) {
  return weight.type == TensorType::f32 && reinterpret_cast<uintptr_t>(data) % alignof(float) == 0;
}

}  // namespace

BoundWeights::BoundWeights(const Program& program, const std::vector<WeightLocation>& locations) {
  const size_t count = program.weights.size();
  if (locations.size() != count)
    refuse("weights", std::to_string(count) + " locations", std::to_string(locations.size()));
  std::unordered_set<const Region*> known;
  matrices_.reserve(count);
  vectors_.assign(count, nullptr);
  std::vector<size_t> offsets(count, 0);
  size_t converted_bytes = 0;
  for (size_t id = 0; id < count; id++) {
    const Weight& weight = program.weights[id];
    const WeightLocation& location = locations[id];
    const std::string where = "weights[" + std::to_string(id) + "]";
    if (location.region->closed()) refuse(where + ".region", "a region in use", "one that was disposed");
    if (location.size_bytes != weight.size_bytes) {
      refuse(where + ".sizeBytes", std::to_string(weight.size_bytes), std::to_string(location.size_bytes));
    }
    const uint8_t* data = location.region->range(location.byte_offset, location.size_bytes, where.c_str());
    matrices_.push_back({data, weight.row_bytes, weight.width, weight.rows, weight.type});
    if (known.insert(location.region.get()).second) regions_.push_back(location.region);
    if (!program.is_vector[id]) continue;
    if (readable_in_place(weight, data)) {
      vectors_[id] = reinterpret_cast<const float*>(data);
      continue;
    }
    conversions_.push_back({id, nullptr});
    offsets[id] = converted_bytes;
    converted_bytes = checked_add(
        converted_bytes, round_up(checked_multiply(weight.rows, weight.width * sizeof(float), "vectors"), kAlignment),
        "vectors");
  }
  converted_ = SystemMemory(converted_bytes, "vectors");
  for (Conversion& conversion : conversions_) {
    conversion.target = reinterpret_cast<float*>(converted_.data() + offsets[conversion.weight]);
    vectors_[conversion.weight] = conversion.target;
  }
}

void BoundWeights::prepare(const RowKernels& rows) {
  if (conversions_.empty()) return;
  const BusFaultGuard guard;
  for (const Conversion& conversion : conversions_) {
    const Matrix& weight = matrices_[conversion.weight];
    rows.convert(weight.type, weight.data, weight.rows * weight.width, conversion.target);
  }
  conversions_.clear();
}

bool BoundWeights::truncated() const {
  for (const std::shared_ptr<Region>& region : regions_) {
    if (region->truncated()) return true;
  }
  return false;
}

bool BoundWeights::closed() const {
  for (const std::shared_ptr<Region>& region : regions_) {
    if (region->closed()) return true;
  }
  return false;
}

}  // namespace rocmforge
