// One token's keys and values on their way into a cell of the cache (layout: KvCell in kernel-table.h).
// Bit-exact with GGUF's F16 and Q8_0 blocks: a cell holds what a file of that type would hold.
// Include after a simd/*-float.h.

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernel-table.h"

namespace rocmforge {
namespace {

/// To the nearest whole number, halves away from zero. Lanes hold -127.5 to 127.5.
inline F round_away(F value) {
  const F even = round(value);
  const F rest = sub(value, even);
  // A tie that went towards zero left a rest of half a step with the value's own sign.
  const F up = select(both(equal(rest, set(0.5f)), greater(value, zero())), set(1), zero());
  const F down = select(both(equal(rest, set(-0.5f)), greater(zero(), value)), set(1), zero());
  return sub(add(even, up), down);
}

/// A block of 32 as Q8_0 has it; gives the scale, already rounded to f16.
inline float quantize_q8(const float* input, int8_t* levels) {
  F largest = zero();
  bool is_finite = true;
  for (size_t k = 0; k < kKvScaleBlock; k += kLanes) {
    const F value = load(input + k);
    is_finite = is_finite && all(finite(value));
    largest = max(abs(value), largest);
  }
  if (!is_finite) {
    memset(levels, 0, kKvScaleBlock);
    return __builtin_nanf("");
  }
  const float scale = reduce_max(largest) / 127.0f;
  uint16_t halves[kLanes];
  float widened[kLanes];
  store_f16(halves, set(scale));
  store(widened, load_f16(halves));
  // A scale that f16 takes for zero makes every level zero; one over it might be infinite.
  const F inverse = set(widened[0] == 0 ? 0 : 1.0f / scale);
  for (size_t k = 0; k < kKvScaleBlock; k += kLanes) {
    store_i8(levels + k, round_to_int(round_away(mul(load(input + k), inverse))));
  }
  return widened[0];
}

/// Columns of keys that a cell stores apart from its values.
inline size_t key_columns(const KvCell& cell) { return cell.values_in_keys ? 0 : cell.key_width; }

inline void store_f32_cell(const KvStore& store_one, uint8_t* keys, uint8_t* values) {
  const KvCell& cell = *store_one.cell;
  for (size_t column = 0; column < key_columns(cell); column++) {
    memcpy(keys + (column * cell.token_stride + store_one.token) * sizeof(float), store_one.key + column,
           sizeof(float));
  }
  uint8_t* row = values + store_one.token * cell.value_stride * sizeof(float);
  memcpy(row, store_one.value, cell.value_width * sizeof(float));
  memset(row + cell.value_width * sizeof(float), 0, (cell.value_stride - cell.value_width) * sizeof(float));
}

inline void store_f16_cell(const KvStore& store_one, uint8_t* keys, uint8_t* values) {
  const KvCell& cell = *store_one.cell;
  for (size_t column = 0; column < key_columns(cell); column += kLanes) {
    const size_t count = cell.key_width - column < kLanes ? cell.key_width - column : kLanes;
    uint16_t halves[kLanes];
    store_f16(halves, load_part(store_one.key + column, count));
    for (size_t k = 0; k < count; k++) {
      const size_t element = (column + k) * cell.token_stride + store_one.token;
      memcpy(keys + element * sizeof(uint16_t), halves + k, sizeof(uint16_t));
    }
  }
  uint8_t* row = values + store_one.token * cell.value_stride * sizeof(uint16_t);
  for (size_t column = 0; column < cell.value_stride; column += kLanes) {
    const size_t left = cell.value_width > column ? cell.value_width - column : 0;
    store_f16(row + column * sizeof(uint16_t), load_part(store_one.value + column, left < kLanes ? left : kLanes));
  }
}

inline void store_q8_cell(const KvStore& store_one, uint8_t* keys, uint8_t* values) {
  const KvCell& cell = *store_one.cell;
  uint8_t* key_scales = store_one.target + cell.key_scales_offset;
  uint8_t* value_scales = store_one.target + cell.value_scales_offset;
  for (size_t block = 0; block < key_columns(cell) / kKvScaleBlock; block++) {
    int8_t levels[kKvScaleBlock];
    const float scale = quantize_q8(store_one.key + block * kKvScaleBlock, levels);
    for (size_t k = 0; k < kKvScaleBlock; k++) {
      keys[(block * kKvScaleBlock + k) * cell.token_stride + store_one.token] = static_cast<uint8_t>(levels[k]);
    }
    memcpy(key_scales + (block * cell.token_stride + store_one.token) * sizeof(float), &scale, sizeof scale);
  }
  const size_t value_blocks = cell.value_width / kKvScaleBlock;
  uint8_t* row = values + store_one.token * cell.value_stride;
  for (size_t block = 0; block < value_blocks; block++) {
    int8_t levels[kKvScaleBlock];
    const float scale = quantize_q8(store_one.value + block * kKvScaleBlock, levels);
    memcpy(row + block * kKvScaleBlock, levels, kKvScaleBlock);
    memcpy(value_scales + (store_one.token * value_blocks + block) * sizeof(float), &scale, sizeof scale);
  }
}

void store_kv(const KvStore& given) {
  KvStore store_one = given;
  if (store_one.cell->values_in_keys) store_one.value = store_one.key;
  uint8_t* keys = store_one.target;
  uint8_t* values = store_one.target + store_one.cell->values_offset;
  switch (store_one.cell->type) {
    case KvType::f32: return store_f32_cell(store_one, keys, values);
    case KvType::f16: return store_f16_cell(store_one, keys, values);
    case KvType::q8_0: return store_q8_cell(store_one, keys, values);
  }
}

}  // namespace
}  // namespace rocmforge
