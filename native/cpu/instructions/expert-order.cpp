// A counting sort of pairs by matrix, and the groups of activations that follow from it.

#include "expert-order.h"

#include <algorithm>
#include <cstring>

#include "../engine/error.h"
#include "../engine/scratch.h"

namespace rocmforge {

namespace {

struct Offsets {
  size_t counts, pairs, active, groups, totals, size_bytes;

  explicit Offsets(const ExpertOrderShape& shape) {
    ScratchOffsets scratch;
    counts = scratch.take(checked_multiply(shape.matrices, sizeof(uint32_t), "scratch"));
    pairs = scratch.take(checked_multiply(shape.pairs(), sizeof(uint32_t), "scratch"));
    active = scratch.take(checked_multiply(shape.most_active(), sizeof(ActiveMatrix), "scratch"));
    groups = scratch.take(checked_multiply(shape.most_groups(), sizeof(PairGroup), "scratch"));
    totals = scratch.take(2 * sizeof(uint32_t));
    size_bytes = scratch.used();
  }
};

}  // namespace

size_t ExpertOrderShape::most_rows() const {
  const size_t few = max_gemv_pairs < pairs() ? max_gemv_pairs : pairs();
  return std::min(pairs(), checked_multiply(most_active(), few, "scratch"));
}

size_t ExpertOrderShape::most_panels() const {
  if (max_gemv_pairs >= pairs()) return 0;
  // Every matrix may have one panel that is not full.
  return pairs() / panel_tokens + std::min(most_active(), pairs() / (max_gemv_pairs + 1));
}

size_t ExpertOrder::size_bytes(const ExpertOrderShape& shape) { return Offsets(shape).size_bytes; }

ExpertOrder::ExpertOrder(const ExpertOrderShape& shape, uint8_t* memory) {
  const Offsets offsets(shape);
  counts = reinterpret_cast<uint32_t*>(memory + offsets.counts);
  pairs = reinterpret_cast<uint32_t*>(memory + offsets.pairs);
  active = reinterpret_cast<ActiveMatrix*>(memory + offsets.active);
  groups = reinterpret_cast<PairGroup*>(memory + offsets.groups);
  active_count = reinterpret_cast<uint32_t*>(memory + offsets.totals);
  group_count = active_count + 1;
}

void ExpertOrder::fill(const ExpertOrderShape& shape, const Rows& routing) const {
  const auto matrix = [&](size_t token, size_t slot) {
    return matrix_of(routing.data == nullptr ? nullptr : routing.row(token), slot, shape.matrices);
  };
  std::memset(counts, 0, shape.matrices * sizeof(uint32_t));
  for (size_t token = 0; token < shape.tokens; token++) {
    for (size_t slot = 0; slot < shape.slots; slot++) counts[matrix(token, slot)]++;
  }
  uint32_t first = 0, rows = 0, panels = 0, actives = 0, group = 0;
  for (size_t index = 0; index < shape.matrices; index++) {
    const uint32_t count = counts[index];
    if (count == 0) continue;
    const bool gemm = count > shape.max_gemv_pairs;
    active[actives] = {static_cast<uint32_t>(index), first, count, gemm, rows, panels};
    const uint32_t step = gemm ? static_cast<uint32_t>(shape.panel_tokens) : 1;
    for (uint32_t pair = 0; pair < count; pair += step)
      groups[group++] = {actives, first + pair, std::min(step, count - pair)};
    (gemm ? panels : rows) += (count + step - 1) / step;
    // From here on, where the next pair of the matrix goes.
    counts[index] = first;
    first += count;
    actives++;
  }
  for (size_t token = 0; token < shape.tokens; token++) {
    for (size_t slot = 0; slot < shape.slots; slot++)
      pairs[counts[matrix(token, slot)]++] = static_cast<uint32_t>(token * shape.slots + slot);
  }
  *active_count = actives;
  *group_count = group;
}

}  // namespace rocmforge
