// Attention of a few query rows over one span of the paged cache. A span is short, so all its scores are kept: all keys
// first, then the softmax, then all values; only spans are merged by their maxima. Include after a simd/*-float.h and
// exponential.h. Positions outside a row's range [start, limit) do not reach that row: neither their scores nor their
// values, which may be NaN from stale memory.

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "attention-tiles.h"
#include "kernel-table.h"

namespace rocmforge {
namespace {

/// The part of one cell that lies in the span.
struct CellPart {
  const uint8_t* cell;
  /// Of token 0 of the cell, counted from the span's start; negative if the span starts within the cell.
  ptrdiff_t offset;
  size_t first_token;
  size_t end_token;
};

inline const uint8_t* cell_of_block(const AttentionTask& task, size_t block) {
  return task.cells + static_cast<size_t>(task.block_table[block]) * task.block_stride;
}

/// The part that holds `position`.
inline CellPart cell_part(const AttentionTask& task, size_t position, size_t end) {
  const size_t block_tokens = task.cell->block_tokens;
  const size_t block = position / block_tokens;
  const size_t block_start = block * block_tokens;
  CellPart part;
  part.cell = cell_of_block(task, block);
  part.offset = static_cast<ptrdiff_t>(block_start) - static_cast<ptrdiff_t>(task.first);
  part.first_token = position - block_start;
  part.end_token = end - block_start < block_tokens ? end - block_start : block_tokens;
  return part;
}

/// The order in which a task reads memory: the keys of its cells, their values, then (as another task) the next keys.
class ReadingOrder {
 public:
  ReadingOrder(const AttentionTask& task, size_t begin, size_t end) : task_(task) {
    const size_t block_tokens = task.cell->block_tokens;
    first_block_ = begin / block_tokens;
    blocks_ = (end - 1) / block_tokens + 1 - first_block_;
    const size_t table_end = task.table_end < end ? end : task.table_end;
    table_blocks_ = (table_end - 1) / block_tokens + 1;
  }

  /// The address of a later chunk (one cell's keys, or its values), whose scales are prefetched; advances by one.
  const uint8_t* prefetch_next() {
    const size_t chunk = current_++ + kPrefetchDistance;
    const bool is_key = chunk < blocks_ || chunk >= 2 * blocks_;
    size_t block = first_block_ + (chunk < blocks_ ? chunk : chunk - blocks_);
    if (block >= table_blocks_) block = table_blocks_ - 1;
    const uint8_t* cell = cell_of_block(task_, block);
    const KvCell& shape = *task_.cell;
    if (is_key) {
      prefetch_scales(cell + shape.key_scales_offset, shape.values_offset - shape.key_scales_offset);
      return cell;
    }
    prefetch_scales(cell + shape.value_scales_offset, shape.bytes - shape.value_scales_offset);
    return cell + shape.values_offset;
  }

 private:
  /// Of some KB each: far enough that memory answers in time, near enough to stay in the second-level cache.
  static constexpr size_t kPrefetchDistance = 2;

  /// The tiles fetch elements as they go; scales are few.
  static void prefetch_scales(const uint8_t* from, size_t bytes) {
    for (size_t offset = 0; offset < bytes; offset += kCacheLineBytes) prefetch_line(from + offset);
  }

  const AttentionTask& task_;
  size_t first_block_, blocks_, table_blocks_;
  size_t current_ = 0;
};

/// Scores of one cell's tokens for all rows that see any of them.
template <KvType type, KeyOrder order>
inline void score_cell(const AttentionTask& task, const CellPart& part, const uint8_t* prefetch_from, float* scores) {
  constexpr bool by_token = order == KeyOrder::tokens;
  const KvCell& cell = *task.cell;
  const uint8_t* const keys = part.cell + (by_token ? cell.values_offset : 0);
  const uint8_t* const scales = part.cell + (by_token ? cell.value_scales_offset : cell.key_scales_offset);
  const size_t token_bytes = (by_token ? cell.value_stride : 1) * Elements<type>::bytes;
  const size_t token_scales = by_token ? cell.value_width / kKvScaleBlock : 1;
  // Vectors of tokens lie on the cell's own grid, whose padding makes the last one a whole one.
  constexpr size_t unit_tokens = by_token ? 1 : kLanes;
  constexpr size_t max_rows = score_tile_rows(type, order);
  for (size_t token = part.first_token / unit_tokens * unit_tokens; token < part.end_token;) {
    const size_t units = part.end_token - token > unit_tokens ? kTokenVectors : 1;
    const ptrdiff_t from = part.offset + static_cast<ptrdiff_t>(token);
    size_t row = 0;
    while (row < task.rows && static_cast<ptrdiff_t>(task.limits[row] - task.first) <= from) row++;
    ScoreTile tile;
    tile.cell = task.cell;
    tile.keys = keys + token * token_bytes;
    tile.key_scales = scales + token * token_scales * sizeof(float);
    tile.prefetch_from = prefetch_from + token * token_bytes;
    while (row < task.rows) {
      const size_t rows = task.rows - row < max_rows ? task.rows - row : max_rows;
      tile.queries = task.queries + row;
      tile.scores = scores + row * kScoreStride + from;
      score_rows<type, order>(tile, rows, units);
      tile.prefetch_from = tile.keys;
      row += rows;
    }
    token += units * unit_tokens;
  }
}

/// Values of one cell's tokens for all rows that see any of them. Starts and limits never fall from row to row, so the
/// rows that see a token stand together.
template <KvType type>
inline void value_cell(const AttentionTask& task, const CellPart& part, const uint8_t* prefetch_from,
                       const float* weights) {
  ValueTile tile;
  tile.cell = task.cell;
  tile.values = part.cell + task.cell->values_offset;
  tile.value_scales = part.cell + task.cell->value_scales_offset;
  tile.prefetch_from = prefetch_from;
  tile.first_column = 0;
  tile.first_token = part.first_token;
  // The first token of the cell that is at or past a position of the span.
  const auto token_of = [&](size_t position) {
    const ptrdiff_t token = static_cast<ptrdiff_t>(position - task.first) - part.offset;
    return token < 0 ? 0 : static_cast<size_t>(token) < part.end_token ? static_cast<size_t>(token) : part.end_token;
  };
  size_t first_row = 0;
  size_t end_row = 0;
  while (tile.first_token < part.end_token) {
    while (first_row < task.rows && token_of(task.limits[first_row]) <= tile.first_token) first_row++;
    while (end_row < task.rows && token_of(task.starts[end_row]) <= tile.first_token) end_row++;
    if (first_row == task.rows) return;
    // Up to here the same rows see every token.
    tile.end_token = token_of(task.limits[first_row]);
    if (end_row < task.rows && token_of(task.starts[end_row]) < tile.end_token)
      tile.end_token = token_of(task.starts[end_row]);
    for (size_t row = first_row; row < end_row; row += kTileRows) {
      tile.weights = weights + row * kScoreStride + (part.offset + static_cast<ptrdiff_t>(tile.first_token));
      tile.partials = task.partials + row;
      value_rows<type>(tile, end_row - row < kTileRows ? end_row - row : kTileRows);
      tile.prefetch_from = tile.values;
    }
    tile.first_token = tile.end_token;
  }
}

inline void soft_cap_scores(float* scores, size_t count, float soft_cap) {
  const F cap = set(soft_cap);
  for (size_t index = 0; index < count; index += kLanes) store(scores + index, soft_capped(load(scores + index), cap));
}

/// The scores of one row, and what its softmax leaves of them.
struct SoftmaxRow {
  float* scores;
  size_t count;
  AttentionPartial* partial;

  size_t whole() const { return count / kLanes * kLanes; }
  M rest() const { return first_lanes(count % kLanes); }
};

inline F exp_score(float* score, F shift) {
  const F weight = exp(sub(load(score), shift));
  store(score, weight);
  return weight;
}

/// Replaces the scores of each row by exp(score - max), and leaves their maximum and sum in its partial. Rows go together
/// as far as the shortest one: the sum of a row's lanes takes longer than a few vectors, and other rows fill the time.
template <size_t rows>
__attribute__((noinline)) void softmax(const SoftmaxRow* row) {
  const F nothing = set(-__builtin_inff());
  size_t shared = row[0].whole();
  for (size_t r = 1; r < rows; r++) shared = row[r].whole() < shared ? row[r].whole() : shared;
  F best[rows], shift[rows], total[rows];
#pragma GCC unroll 8
  for (size_t r = 0; r < rows; r++) best[r] = nothing;
  for (size_t index = 0; index < shared; index += kLanes) {
#pragma GCC unroll 8
    for (size_t r = 0; r < rows; r++) best[r] = max(load(row[r].scores + index), best[r]);
  }
#pragma GCC unroll 8
  for (size_t r = 0; r < rows; r++) {
    const size_t whole = row[r].whole();
    for (size_t index = shared; index < whole; index += kLanes) best[r] = max(load(row[r].scores + index), best[r]);
    best[r] = max(select(row[r].rest(), load(row[r].scores + whole), nothing), best[r]);
    const float largest = reduce_max(best[r]);
    row[r].partial->max = largest;
    // A row of -infinity alone has weights of 0; subtracting it from itself would be NaN.
    shift[r] = set(largest == -__builtin_inff() ? 0 : largest);
    total[r] = zero();
  }
  for (size_t index = 0; index < shared; index += kLanes) {
#pragma GCC unroll 8
    for (size_t r = 0; r < rows; r++) total[r] = add(total[r], exp_score(row[r].scores + index, shift[r]));
  }
#pragma GCC unroll 8
  for (size_t r = 0; r < rows; r++) {
    const size_t whole = row[r].whole();
    for (size_t index = shared; index < whole; index += kLanes)
      total[r] = add(total[r], exp_score(row[r].scores + index, shift[r]));
    const F weight = select(row[r].rest(), exp(sub(load(row[r].scores + whole), shift[r])), zero());
    store(row[r].scores + whole, weight);
    row[r].partial->sum = sum(add(total[r], weight));
  }
}

/// As many rows as leave registers for the exponential.
constexpr size_t kSoftmaxRows = kRegisters / 8;

inline void softmax_rows(const SoftmaxRow* rows, size_t count) {
  size_t row = 0;
  for (; row + kSoftmaxRows <= count; row += kSoftmaxRows) softmax<kSoftmaxRows>(rows + row);
  for (; row < count; row++) softmax<1>(rows + row);
}

/// Not inlined: one function of all three types is up to 1.5 % slower at prompts.
template <KvType type>
__attribute__((noinline)) void attend_typed(AttentionTask& task, float* scores) {
  const size_t last_limit = task.limits[task.rows - 1];
  const size_t end = task.end < last_limit ? task.end : last_limit;
  const size_t begin = task.starts[0];
  ReadingOrder reading(task, begin, end);
  for (size_t position = begin; position < end;) {
    const CellPart part = cell_part(task, position, end);
    if (task.cell->values_in_keys) {
      score_cell<type, KeyOrder::tokens>(task, part, reading.prefetch_next(), scores);
    } else {
      score_cell<type, KeyOrder::columns>(task, part, reading.prefetch_next(), scores);
    }
    position += part.end_token - part.first_token;
  }
  SoftmaxRow rows[kAttentionRows];
  for (size_t row = 0; row < task.rows; row++) {
    const size_t limit = task.limits[row] < end ? task.limits[row] : end;
    rows[row] = {scores + row * kScoreStride + (task.starts[row] - task.first), limit - task.starts[row],
                 &task.partials[row]};
    if (task.soft_cap != 0) soft_cap_scores(rows[row].scores, rows[row].count, task.soft_cap);
    for (size_t column = 0; column < task.cell->value_stride; column += kLanes)
      store(task.partials[row].values + column, zero());
  }
  softmax_rows(rows, task.rows);
  for (size_t position = begin; position < end;) {
    const CellPart part = cell_part(task, position, end);
    value_cell<type>(task, part, reading.prefetch_next(), scores);
    position += part.end_token - part.first_token;
  }
}

size_t attention_scratch_bytes() { return kAttentionRows * kScoreStride * sizeof(float); }

void attend(AttentionTask& task, uint8_t* scratch) {
  float* scores = reinterpret_cast<float*>(scratch) + kScoreMargin;
  switch (task.cell->type) {
    case KvType::f32: return attend_typed<KvType::f32>(task, scores);
    case KvType::f16: return attend_typed<KvType::f16>(task, scores);
    case KvType::q8_0: return attend_typed<KvType::q8_0>(task, scores);
  }
}

void merge_attention(const AttentionPartial* spans, size_t count, size_t width, const float* sink, float* out) {
  float max_of_all = spans[0].max;
  for (size_t span = 1; span < count; span++) {
    if (spans[span].max > max_of_all) max_of_all = spans[span].max;
  }
  if (sink != nullptr && *sink > max_of_all) max_of_all = *sink;
  // A single span keeps its weight of 1 to the bit: exp(0) is 1.
  const auto weight_of = [&](size_t span) {
    const float distance = spans[span].max - max_of_all;
    return distance == 0 ? 1 : exp_one(distance);
  };
  float total = 0;
  for (size_t span = 0; span < count; span++) total += weight_of(span) * spans[span].sum;
  if (sink != nullptr) total += exp_one(*sink - max_of_all);
  const F divisor = set(total);
  constexpr size_t vectors = 4;
  for (size_t column = 0; column < width; column += vectors * kLanes) {
    F sums[vectors] = {zero(), zero(), zero(), zero()};
    for (size_t span = 0; span < count; span++) {
      const F weight = set(weight_of(span));
      for (size_t v = 0; v < vectors && column + v * kLanes < width; v++) {
        sums[v] = fma(weight, load(spans[span].values + column + v * kLanes), sums[v]);
      }
    }
    for (size_t v = 0; v < vectors && column + v * kLanes < width; v++) {
      const size_t left = width - column - v * kLanes;
      store_part(out + column + v * kLanes, div(sums[v], divisor), left < kLanes ? left : kLanes);
    }
  }
}

}  // namespace
}  // namespace rocmforge
