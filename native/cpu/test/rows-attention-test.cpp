// Storing into cells and attending over them, for every cache type, against plain code in double precision; and that
// what a row gets depends on that row alone. All memory that was never stored to is NaN.

#include "rows-test.h"

#include <cstring>
#include <memory>

namespace rocmforge {

void test_attention(const RowIsa& isa, size_t parity);

namespace {

const char* name_of(KvType type) { return type == KvType::f32 ? "f32" : type == KvType::f16 ? "f16" : "q8_0"; }

/// What a block of 32 becomes as Q8_0.
void through_q8(const float* input, float* out) {
  float largest = 0;
  for (size_t k = 0; k < 32; k++) largest = std::fmax(largest, std::fabs(input[k]));
  const float scale = largest / 127.0f;
  const float inverse = scale == 0 ? 0 : 1.0f / scale;
  const float kept = through_half(scale);
  for (size_t k = 0; k < 32; k++) out[k] = kept == 0 ? 0 : kept * std::round(input[k] * inverse);
}

std::vector<float> stored_as(KvType type, const std::vector<float>& input) {
  std::vector<float> out = input;
  if (type == KvType::f16) std::transform(input.begin(), input.end(), out.begin(), through_half);
  if (type == KvType::q8_0) {
    for (size_t k = 0; k < input.size(); k += 32) through_q8(&input[k], &out[k]);
  }
  return out;
}

struct FreeMemory {
  void operator()(uint8_t* memory) const { free(memory); }
};
using Memory = std::unique_ptr<uint8_t, FreeMemory>;
Memory allocate(size_t bytes) {
  void* memory = nullptr;
  CHECK(posix_memalign(&memory, 64, bytes) == 0, "no memory");
  memset(memory, 0xff, bytes);
  return Memory(static_cast<uint8_t*>(memory));
}

/// One sequence of one KV head, its blocks scattered among those of another head.
struct Sequence {
  KvCell cell;
  size_t length, block_stride;
  std::vector<int32_t> table;
  Memory memory;
  std::vector<std::vector<float>> keys, values;

  Sequence(KvType type, size_t key_width, size_t value_width, size_t block_tokens, size_t tokens)
      : cell(kv_cell(type, key_width, value_width, block_tokens)), length(tokens), block_stride(2 * cell.bytes) {
    const size_t blocks = (tokens + block_tokens - 1) / block_tokens;
    for (size_t block = 0; block < blocks; block++) table.push_back(static_cast<int32_t>(blocks - 1 - block));
    if (blocks > 3) std::swap(table[0], table[2]);
    // Ends with this head's last cell, so that reading on is found out.
    memory = allocate((blocks - 1) * block_stride + cell.bytes);
  }

  uint8_t* cell_of(size_t position) {
    return memory.get() + static_cast<size_t>(table[position / cell.block_tokens]) * block_stride;
  }

  void append(const RowIsa& isa, const std::vector<float>& key, const std::vector<float>& value) {
    const size_t position = keys.size();
    isa.kernels->store_kv({&cell, cell_of(position), position % cell.block_tokens, key.data(), value.data()});
    keys.push_back(stored_as(cell.type, key));
    values.push_back(cell.values_in_keys ? keys.back() : stored_as(cell.type, value));
  }

  /// An element as the layout in kernel-table.h says.
  float stored(size_t position, size_t column, bool wants_key) {
    const bool is_key = wants_key && !cell.values_in_keys;
    const uint8_t* base = cell_of(position);
    const size_t token = position % cell.block_tokens;
    const size_t index = is_key ? column * cell.token_stride + token : token * cell.value_stride + column;
    const uint8_t* elements = is_key ? base : base + cell.values_offset;
    if (cell.type == KvType::f32) return reinterpret_cast<const float*>(elements)[index];
    if (cell.type == KvType::f16) return half_value(reinterpret_cast<const uint16_t*>(elements)[index]);
    const size_t scales_offset = is_key ? cell.key_scales_offset : cell.value_scales_offset;
    const size_t scale =
        is_key ? column / 32 * cell.token_stride + token : token * (cell.value_width / 32) + column / 32;
    const float level = static_cast<float>(reinterpret_cast<const int8_t*>(elements)[index]);
    return level * reinterpret_cast<const float*>(base + scales_offset)[scale];
  }
};

struct QueryRow {
  std::vector<float> query;
  size_t limit;
  size_t start = 0;
};

/// Of all rows of a group.
struct Attributes {
  float soft_cap = 0;
  /// Null for none.
  const float* sink = nullptr;
};

/// All rows in one group, span by span as the engine does it.
std::vector<std::vector<float>> attend(const RowIsa& isa, Sequence& sequence, const std::vector<QueryRow>& rows,
                                       const Attributes& attributes = {}) {
  const KvCell& cell = sequence.cell;
  Memory scratch = allocate(isa.kernels->attention_scratch_bytes());
  std::vector<std::vector<AttentionPartial>> partials(rows.size());
  std::vector<std::vector<float>> buffers;
  buffers.reserve(rows.size() * 8);
  std::vector<std::vector<float>> queries;
  for (const QueryRow& row : rows) {
    queries.push_back(row.query);
    queries.back().resize((row.query.size() + kKvPadding - 1) / kKvPadding * kKvPadding);
  }
  for (size_t first = rows[0].start / kAttentionSpan * kAttentionSpan; first < rows.back().limit;
       first += kAttentionSpan) {
    AttentionTask task = {};
    task.cell = &cell;
    task.cells = sequence.memory.get();
    task.block_stride = sequence.block_stride;
    task.block_table = sequence.table.data();
    task.first = first;
    task.end = std::min(first + kAttentionSpan, rows.back().limit);
    task.soft_cap = attributes.soft_cap;
    task.table_end = rows.size() % 2 == 0 ? sequence.length : 0;
    std::vector<size_t> members;
    for (size_t row = 0; row < rows.size(); row++) {
      if (rows[row].limit <= first || rows[row].start >= task.end) continue;
      buffers.emplace_back(cell.value_stride, 12345.0f);
      task.queries[task.rows] = queries[row].data();
      task.starts[task.rows] = std::max(first, rows[row].start);
      task.limits[task.rows] = rows[row].limit;
      task.partials[task.rows++].values = buffers.back().data();
      members.push_back(row);
    }
    isa.kernels->attend(task, scratch.get());
    for (size_t k = 0; k < members.size(); k++) partials[members[k]].push_back(task.partials[k]);
  }
  std::vector<std::vector<float>> out;
  for (const std::vector<AttentionPartial>& spans : partials) {
    out.emplace_back(cell.value_width);
    isa.kernels->merge_attention(spans.data(), spans.size(), cell.value_width, attributes.sink, out.back().data());
    if (spans.size() == 1 && attributes.sink == nullptr) {
      for (size_t k = 0; k < cell.value_width; k++) {
        const float found = out.back()[k], expected = spans[0].values[k] / spans[0].sum;
        CHECK(found == expected || (std::isnan(found) && std::isnan(expected)), "one span: %g, not %g", found,
              expected);
      }
    }
  }
  return out;
}

void check_row(const Sequence& sequence, const QueryRow& row, const std::vector<float>& found, const char* name,
               const Attributes& attributes = {}) {
  std::vector<double> weights(row.limit);
  double highest = attributes.sink == nullptr ? -HUGE_VAL : static_cast<double>(*attributes.sink);
  for (size_t position = row.start; position < row.limit; position++) {
    // Pointers, because under sanitizers every index into a vector is a call.
    const float* const key = sequence.keys[position].data();
    const float* const query = row.query.data();
    double score = 0;
    for (size_t k = 0; k < row.query.size(); k++) score += static_cast<double>(query[k]) * key[k];
    if (attributes.soft_cap != 0) score = attributes.soft_cap * std::tanh(score / attributes.soft_cap);
    weights[position] = score;
    highest = std::fmax(highest, score);
  }
  double total = attributes.sink == nullptr ? 0 : std::exp(*attributes.sink - highest);
  std::vector<double> expected(found.size(), 0.0);
  for (size_t position = row.start; position < row.limit; position++) {
    const double weight = std::exp(weights[position] - highest);
    total += weight;
    const float* const value = sequence.values[position].data();
    double* const sum = expected.data();
    for (size_t k = 0; k < found.size(); k++) sum[k] += weight * value[k];
  }
  for (size_t k = 0; k < found.size(); k++) {
    const double mean = expected[k] / total;
    CHECK(std::fabs(found[k] - mean) < 1e-5, "%s: %s, width %zu, blocks of %zu, limit %zu, column %zu: %.9g, not %.9g",
          name, name_of(sequence.cell.type), found.size(), sequence.cell.block_tokens, row.limit, k, found[k], mean);
  }
}

/// A value width of 0: the values are the keys.
void test_shape(const RowIsa& isa, KvType type, size_t key_width, size_t value_width, size_t block_tokens,
                Numbers& numbers) {
  const size_t length = 300;
  Sequence sequence(type, key_width, value_width, block_tokens, length);
  for (size_t position = 0; position < length; position++) {
    sequence.append(isa, numbers.row(key_width, 1), numbers.row(value_width, 2));
  }
  value_width = sequence.cell.value_width;
  for (size_t position = 0; position < length; position += 7) {
    for (size_t k = 0; k < key_width; k++) {
      CHECK(sequence.stored(position, k, true) == sequence.keys[position][k], "key %zu of %zu", k, position);
    }
    for (size_t k = 0; k < value_width; k++) {
      CHECK(sequence.stored(position, k, false) == sequence.values[position][k], "value %zu of %zu", k, position);
    }
  }
  const std::vector<size_t> limits[] = {{1, 2, 3, 4, 5, 6, 7, 8},
                                        {31, 31, 32, 32, 33, 33, 34, 34},
                                        {255, 255, 255, 256, 256, 257, 257, 300},
                                        {270, 270, 270, 270, 271, 271, 299, 300}};
  for (const std::vector<size_t>& group : limits) {
    std::vector<QueryRow> rows;
    // Scores stay small for wide heads.
    const float range = key_width > 256 ? 0.3f : 0.8f;
    for (const size_t limit : group) rows.push_back({numbers.row(key_width, range), limit});
    const std::vector<std::vector<float>> together = attend(isa, sequence, rows);
    for (size_t row = 0; row < rows.size(); row++) check_row(sequence, rows[row], together[row], isa.name);
    for (size_t first = 0; first < rows.size(); first++) {
      for (size_t end = first + 1; end <= rows.size(); end++) {
        const auto from = rows.begin() + static_cast<ptrdiff_t>(first), to = rows.begin() + static_cast<ptrdiff_t>(end);
        const std::vector<std::vector<float>> some = attend(isa, sequence, std::vector<QueryRow>(from, to));
        for (size_t row = first; row < end; row++) {
          CHECK(memcmp(some[row - first].data(), together[row].data(), value_width * sizeof(float)) == 0,
                "row %zu differs in the group %zu to %zu of %s, blocks of %zu", row, first, end, name_of(type),
                block_tokens);
        }
      }
    }
  }
}

/// Windows of every kind of beginning and end; positions outside of them are NaN, so that looking at them is found out.
void test_windows(const RowIsa& isa, KvType type, size_t block_tokens) {
  Numbers numbers(13);
  const size_t length = 600;
  const float sink = 0.7f;
  const Attributes attributes[] = {{}, {1.25f, nullptr}, {0, &sink}, {2, &sink}};
  for (const size_t window : {1, 2, 31, 64, 200, 256, 257, 300}) {
    for (const size_t last : {window, size_t{300}, size_t{517}, length}) {
      if (last < 4) continue;
      std::vector<QueryRow> rows;
      // Two heads of four tokens.
      for (size_t row = 0; row < 8; row++) {
        const size_t limit = last - 3 + row / 2;
        if (limit <= length) rows.push_back({numbers.row(32, 0.8f), limit, limit > window ? limit - window : 0});
      }
      Sequence sequence(type, 32, 64, block_tokens, length);
      for (size_t position = 0; position < length; position++) {
        const bool seen = position >= rows[0].start && position < rows.back().limit;
        const std::vector<float> key = numbers.row(32, 1), value = numbers.row(64, 2);
        sequence.append(isa, seen ? key : std::vector<float>(32, NAN), seen ? value : std::vector<float>(64, NAN));
      }
      for (const Attributes& one : attributes) {
        const std::vector<std::vector<float>> together = attend(isa, sequence, rows, one);
        for (size_t row = 0; row < rows.size(); row++) {
          check_row(sequence, rows[row], together[row], isa.name, one);
          const std::vector<std::vector<float>> alone = attend(isa, sequence, {rows[row]}, one);
          CHECK(memcmp(alone[0].data(), together[row].data(), 64 * sizeof(float)) == 0,
                "row %zu of a window of %zu differs alone", row, window);
        }
      }
    }
  }
}

/// A value that one row of a group sees and the next does not reaches only the first.
void test_window_edges(const RowIsa& isa) {
  for (const KvType type : {KvType::f32, KvType::f16}) {
    Numbers numbers(17);
    Sequence sequence(type, 16, 16, 16, 40);
    for (size_t position = 0; position < 40; position++) {
      std::vector<float> value = numbers.row(16, 1);
      if (position == 20) value[3] = NAN;
      sequence.append(isa, numbers.row(16, 1), value);
    }
    const std::vector<QueryRow> rows = {
        {numbers.row(16, 1), 30, 20}, {numbers.row(16, 1), 31, 21}, {numbers.row(16, 1), 32, 22}};
    const std::vector<std::vector<float>> out = attend(isa, sequence, rows);
    CHECK(std::isnan(out[0][3]) && std::isfinite(out[1][3]) && std::isfinite(out[2][3]), "NaN at the edge of a window");
  }
}

/// Quantization at the edges of what f16 and Q8_0 can hold.
void test_store_edges(const RowIsa& isa) {
  for (const KvType type : {KvType::f16, KvType::q8_0}) {
    for (const float range : {1e-42f, 1e-9f, 6e-8f, 3e-5f, 1.0f, 65519.0f, 65520.0f, 1e6f}) {
      Numbers numbers(9);
      Sequence sequence(type, 32, 64, 4, 8);
      for (size_t position = 0; position < 8; position++) {
        std::vector<float> key = numbers.row(32, range), value = numbers.row(64, range);
        // Ties of Q8_0, both signs, where the scale is exactly `range`; and a block of zeros.
        key[0] = 127 * range;
        for (size_t k = 1; k < 32 && position == 1; k++) {
          key[k] = (static_cast<float>(k) + 0.5f) * range * (k % 2 == 0 ? 1.0f : -1.0f);
        }
        if (position == 2) std::fill(value.begin(), value.begin() + 32, 0.0f);
        if (type == KvType::f16 && range == 1.0f) key[1] = 1.00048828125f, key[2] = 1.00146484375f;
        sequence.append(isa, key, value);
        for (size_t k = 0; k < 32; k++) {
          const float found = sequence.stored(position, k, true), expected = sequence.keys[position][k];
          const bool same = found == expected || (std::isnan(found) && std::isnan(expected));
          CHECK(same, "key %zu near %g: %g, not %g", k, range, found, expected);
        }
        for (size_t k = 0; k < 64; k++) {
          const float found = sequence.stored(position, k, false), expected = sequence.values[position][k];
          CHECK(found == expected, "value %zu near %g: %g, not %g", k, range, found, expected);
        }
      }
    }
  }
}

void test_not_finite(const RowIsa& isa) {
  for (const KvType type : {KvType::f32, KvType::f16, KvType::q8_0}) {
    for (const float odd : {std::numeric_limits<float>::quiet_NaN(), HUGE_VALF}) {
      for (const bool in_key : {false, true}) {
        Numbers numbers(11);
        Sequence sequence(type, 64, 32, 16, 40);
        for (size_t position = 0; position < 40; position++) {
          std::vector<float> key = numbers.row(64, 1), value = numbers.row(32, 1);
          if (position == 21) (in_key ? key : value)[3] = odd;
          sequence.append(isa, key, value);
        }
        std::vector<QueryRow> rows;
        for (const size_t limit : {20, 21, 22, 40}) rows.push_back({std::vector<float>(64, 0.25f), limit});
        const std::vector<std::vector<float>> out = attend(isa, sequence, rows);
        for (size_t row = 0; row < 4; row++) {
          CHECK(std::isfinite(out[row][3]) == (row < 2), "%g in position 21 of %s, row of limit %zu: %g", odd,
                name_of(type), rows[row].limit, out[row][3]);
        }
      }
    }
  }
  // A whole span of scores that are -infinity counts for nothing beside one that is finite.
  Sequence sequence(KvType::f32, 16, 16, 32, 300);
  for (size_t position = 0; position < 300; position++) {
    const std::vector<float> key(16, position < 256 ? -1e30f : 1e-30f), value(16, static_cast<float>(position));
    sequence.append(isa, key, value);
  }
  const std::vector<std::vector<float>> out = attend(isa, sequence, {{std::vector<float>(16, 1e30f), 300}});
  CHECK(std::fabs(out[0][0] - 277.5f) < 1e-3f, "beside -infinity: %g", out[0][0]);
}

/// Every second size of blocks for every second instruction set, the others for the rest, and all of them in full runs:
/// under sanitizers each takes seconds.
std::vector<size_t> block_sizes(const std::vector<size_t>& all, size_t parity) {
  const char* full = getenv("ROCMFORGE_TEST_FULL");
  if (full != nullptr && strcmp(full, "1") == 0) return all;
  std::vector<size_t> some;
  for (size_t index = parity % 2; index < all.size(); index += 2) some.push_back(all[index]);
  return some;
}

}  // namespace

void test_attention(const RowIsa& isa, size_t parity) {
  test_store_edges(isa);
  test_not_finite(isa);
  test_window_edges(isa);
  for (const size_t block_tokens : block_sizes({1, 16, 33}, parity)) {
    for (const KvType type : {KvType::f32, KvType::f16, KvType::q8_0}) test_windows(isa, type, block_tokens);
  }
  Numbers numbers(7);
  for (const KvType type : {KvType::f32, KvType::f16, KvType::q8_0}) {
    for (const size_t block_tokens : block_sizes({1, 5, 16, 33}, parity)) {
      test_shape(isa, type, 64, 64, block_tokens, numbers);
      test_shape(isa, type, 64, 0, block_tokens, numbers);
    }
    const size_t block_tokens = 32;
    test_shape(isa, type, 64, 64, block_tokens, numbers);
    test_shape(isa, type, 64, 0, block_tokens, numbers);
    test_shape(isa, type, 128, 96, block_tokens, numbers);
    test_shape(isa, type, 256, 256, block_tokens, numbers);
    test_shape(isa, type, 512, 512, block_tokens, numbers);
    test_shape(isa, type, 576, 0, block_tokens, numbers);
    if (type == KvType::q8_0) continue;
    test_shape(isa, type, 20, 20, block_tokens, numbers);
    test_shape(isa, type, 1, 3, block_tokens, numbers);
    test_shape(isa, type, 80, 100, block_tokens, numbers);
    test_shape(isa, type, 83, 0, block_tokens, numbers);
  }
}

}  // namespace rocmforge
