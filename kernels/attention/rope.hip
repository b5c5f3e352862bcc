// Rope, and the write to the KV cache, of steps that bring several tokens of a sequence. Angles (attention/rope.h)
// depend on the step's positions alone, so they are computed before the kernel waits for the queries and keys, behind
// the end of the launch before.
// Defines: KEY_WIDTH (the head's width), ROTARY_WIDTH, ADJACENT (1 rotates 2i with 2i + 1, 0 rotates i with i + half);
// for the kernels that store also VALUE_WIDTH, KV_TYPE, BLOCK_TOKENS.
//
// v1  one wave a head, angles once a block in shared memory, keys through shared memory to the cache's type; not
// measured.
#include "device/portable.h"
#include "device/step.h"
#ifndef ROTARY_WIDTH
#define ROTARY_WIDTH 0
#endif
#ifndef ADJACENT
#define ADJACENT 0
#endif
#ifndef KV_TYPE
#define KV_TYPE 1
#endif
#ifndef VALUE_WIDTH
#define VALUE_WIDTH KEY_WIDTH
#endif
#ifndef BLOCK_TOKENS
#define BLOCK_TOKENS 1
#endif
#include "attention/kv-cache.h"
#include "attention/rope.h"

constexpr int kThreads = 128;
constexpr int kWaves = kThreads / WAVE;
constexpr int kWidest = KEY_WIDTH > VALUE_WIDTH ? KEY_WIDTH : VALUE_WIDTH;

struct RotateArguments {
  const StepHead* step;
  const int* positions;
  /** One for each pair, or null. */
  const float* factors;
  /** Two for each pair: the f32 nearest to the stretch, and what is left. */
  const float* stretches;
  /** In place where `out` is `input`. */
  const float* input;
  float* out;
  int input_stride;
  int out_stride;
  int heads;
  int heads_per_block;
  float ratio;
  float magnitude;
};

struct RotateStoreArguments {
  const StepHead* step;
  const int* positions;
  const int* cells;
  const float* factors;
  const float* stretches;
  const float* query;
  const float* key;
  const float* value;
  float* query_out;
  int query_stride;
  int key_stride;
  int value_stride;
  int query_out_stride;
  int heads;
  int kv_heads;
  /** Query heads first, then those of keys and values. */
  int heads_per_block;
  int layer;
  float ratio;
  float magnitude;
};

struct KvStoreArguments {
  const StepHead* step;
  const int* cells;
  const float* key;
  const float* value;
  int key_stride;
  int value_stride;
  int kv_heads;
  int heads_per_block;
  int layer;
};

/** Cosines and sines of the pairs, by the whole block; a barrier is due before they are used. */
template <typename Arguments>
DEVICE void compute_rotations(const Arguments& a, int token, float* cosines, float* sines) {
  for (int pair = thread_index(); pair < kPairs; pair += kThreads) {
    const Rotation rotation = rotation_of_pair(a, tables_of_pair(a, pair), pair, a.positions[token]);
    cosines[pair] = rotation.cosine;
    sines[pair] = rotation.sine;
  }
}

/** One head by one wave; input and output may be the same. */
DEVICE void rotate_head(const float* input, const float* cosines, const float* sines, float* out) {
  for (int pair = lane_index(); pair < kPairs; pair += WAVE) {
    float left = input[left_column(pair)], right = input[right_column(pair)];
    rotate_pair(cosines[pair], sines[pair], left, right);
    out[left_column(pair)] = left;
    out[right_column(pair)] = right;
  }
  for (int column = kPairs * 2 + lane_index(); column < KEY_WIDTH; column += WAVE) out[column] = input[column];
}

DEVICE void copy_head(const float* input, int width, float* out) {
  for (int column = lane_index(); column < width; column += WAVE) out[column] = input[column];
}

/** A token's own place in one head of a layer. */
struct Place {
  CacheLayer layer;
  u64 row;
};

DEVICE Place place_of(const StepHead* step, int cell, int layer, int kv_head, int kv_heads) {
  return {cache_layer(step, layer, kv_heads), cache_row(cell / BLOCK_TOKENS, cell % BLOCK_TOKENS, kv_head, kv_heads)};
}

/** By one wave; `row` is its own shared memory. Returns whether a value was not finite. */
DEVICE bool store_value(const Place& place, const float* value, float* row) {
  copy_head(value, VALUE_WIDTH, row);
  wave_barrier();
  const bool invalid = store_row<ValueRow, true>(place.layer.values, place.row, row);
  wave_barrier();
  return invalid;
}

/** The key in `row`, which becomes NaN if its value was not finite. */
DEVICE void store_key(const Place& place, bool invalid, float* row) {
  if (invalid) row[lane_index() % KEY_WIDTH] = float_of(0x7fc00000u);
  wave_barrier();
  store_row<KeyRow, false>(place.layer.keys, place.row, row);
  wave_barrier();
}

KERNEL(rotate, RotateArguments, kThreads) {
  SHARED float cosines[kPairs + 1];
  SHARED float sines[kPairs + 1];
  dependency_release();
  const int token = block_y();
  if (token >= a.step->tokens) return;
  compute_rotations(a, token, cosines, sines);
  dependency_wait();
  barrier();
  const float* const input = a.input + u64(token) * a.input_stride;
  float* const out = a.out + u64(token) * a.out_stride;
  const int end = min((block_x() + 1) * a.heads_per_block, a.heads);
  for (int head = block_x() * a.heads_per_block + wave_index(); head < end; head += kWaves) {
    rotate_head(input + head * KEY_WIDTH, cosines, sines, out + head * KEY_WIDTH);
  }
}

KERNEL(rotate_store, RotateStoreArguments, kThreads) {
  SHARED float cosines[kPairs + 1];
  SHARED float sines[kPairs + 1];
  SHARED float rows[kWaves][kWidest];
  dependency_release();
  const int token = block_y();
  if (token >= a.step->tokens) return;
  compute_rotations(a, token, cosines, sines);
  const int cell = a.cells[token];
  dependency_wait();
  barrier();
  const float* const query = a.query + u64(token) * a.query_stride;
  float* const query_out = a.query_out + u64(token) * a.query_out_stride;
  const float* const key = a.key + u64(token) * a.key_stride;
  const float* const value = a.value + u64(token) * a.value_stride;
  float* const row = rows[wave_index()];
  const int end = min((block_x() + 1) * a.heads_per_block, a.heads + a.kv_heads);
  for (int head = block_x() * a.heads_per_block + wave_index(); head < end; head += kWaves) {
    const int kv_head = head - a.heads;
    if (kv_head < 0) {
      rotate_head(query + head * KEY_WIDTH, cosines, sines, query_out + head * KEY_WIDTH);
      continue;
    }
    const Place place = place_of(a.step, cell, a.layer, kv_head, a.kv_heads);
    const bool invalid = store_value(place, value + kv_head * VALUE_WIDTH, row);
    rotate_head(key + kv_head * KEY_WIDTH, cosines, sines, row);
    wave_barrier();
    store_key(place, invalid, row);
  }
}

KERNEL(kv_store, KvStoreArguments, kThreads) {
  SHARED float rows[kWaves][kWidest];
  dependency_release();
  const int token = block_y();
  if (token >= a.step->tokens) return;
  const int cell = a.cells[token];
  dependency_wait();
  const float* const key = a.key + u64(token) * a.key_stride;
  const float* const value = a.value + u64(token) * a.value_stride;
  float* const row = rows[wave_index()];
  const int end = min((block_x() + 1) * a.heads_per_block, a.kv_heads);
  for (int kv_head = block_x() * a.heads_per_block + wave_index(); kv_head < end; kv_head += kWaves) {
    const Place place = place_of(a.step, cell, a.layer, kv_head, a.kv_heads);
    const bool invalid = store_value(place, value + kv_head * VALUE_WIDTH, row);
    copy_head(key + kv_head * KEY_WIDTH, KEY_WIDTH, row);
    wave_barrier();
    store_key(place, invalid, row);
  }
}
