// Heads on their way to attention: norm of each head, rope, and the write to the KV cache, of steps that bring several
// tokens of a sequence. Angles (attention/rope.h) depend on the step's positions alone, so they are computed before the
// kernel waits for the queries and keys, behind the end of the launch before.
// Defines: KEY_WIDTH (the head's width), those of attention/heads.h; for the kernels that store also VALUE_WIDTH (0: the
// values are columns of the keys), KV_TYPE, BLOCK_TOKENS.
//
// v1  one wave a head, angles once a block in shared memory, keys through shared memory to the cache's type; not
//     measured.
// v2  heads in registers, with their norms, which were two launches more; not measured.
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
#include "attention/heads.h"

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

struct HeadStoreArguments {
  const StepHead* step;
  const int* positions;
  const int* cells;
  const float* factors;
  const float* stretches;
  /** Weights of the norms, or null. */
  const u8* query_norm;
  const u8* key_norm;
  const float* query;
  const float* key;
  const float* value;
  float* query_out;
  int query_stride;
  int key_stride;
  int value_stride;
  int query_out_stride;
  /** 0: nothing happens to the queries. */
  int heads;
  int kv_heads;
  /** Query heads first, then those of keys and values. */
  int heads_per_block;
  u64 layer_bytes;
  int layer_padding;
  float ratio;
  float magnitude;
  float epsilon;
  float value_epsilon;
};

/** A token's own place in one head of a layer. */
struct Place {
  CacheLayer layer;
  u64 row;
};

DEVICE Place place_of(const HeadStoreArguments& a, int cell, int kv_head) {
  return {cache_layer(a, a.kv_heads), cache_row(cell / BLOCK_TOKENS, cell % BLOCK_TOKENS, kv_head, a.kv_heads)};
}

/** By one wave; `row` is its own shared memory. Returns whether a value was not finite. */
DEVICE bool store_value(const HeadStoreArguments& a, const Place& place, const float* value, float* row) {
  HeadValues values = read_values(value);
  norm_values(values, a.value_epsilon);
  give_head_values(values, [&](int column, float number) { row[column] = number; });
  wave_barrier();
  const bool invalid = store_row<ValueRow, true>(place.layer.values, place.row, row);
  wave_barrier();
  return invalid;
}

/** The key in `row`, which becomes NaN if its value was not finite. */
DEVICE void store_key(const Place& place, bool invalid, float* row) {
  if (invalid) row[lane_index() % KEY_WIDTH] = float_of(0x7fc00000u);
  wave_barrier();
  if (VALUE_WIDTH == 0) {
    store_shared_row<KeyRow>(place.layer.keys, place.row, row);
  } else {
    store_row<KeyRow, false>(place.layer.keys, place.row, row);
  }
  wave_barrier();
}

KERNEL(rotate, RotateArguments, kThreads) {
  SHARED float cosines[kPairs + 1];
  SHARED float sines[kPairs + 1];
  dependency_release();
  const int token = block_y();
  if (token >= a.step->tokens) return;
  compute_rotations<kThreads>(a, a.positions[token], cosines, sines);
  dependency_wait();
  barrier();
  const float* const input = a.input + u64(token) * a.input_stride;
  float* const out = a.out + u64(token) * a.out_stride;
  const int end = min((block_x() + 1) * a.heads_per_block, a.heads);
  for (int head = block_x() * a.heads_per_block + wave_index(); head < end; head += kWaves) {
    HeadItems items = read_head(input + head * KEY_WIDTH);
    prepare_head(items, items, 0.0f, cosines, sines);
    give_head(items, [&](int column, float number) { out[head * KEY_WIDTH + column] = number; });
  }
}

KERNEL(head_store, HeadStoreArguments, kThreads) {
  SHARED float cosines[kPairs + 1];
  SHARED float sines[kPairs + 1];
  SHARED float rows[kWaves][kWidest];
  dependency_release();
  const int token = block_y();
  if (token >= a.step->tokens) return;
  const int first = block_x() * a.heads_per_block, end = min(first + a.heads_per_block, a.heads + a.kv_heads);
  const int cell = a.cells[token];
  compute_rotations<kThreads>(a, a.positions[token], cosines, sines);
  // A block has query heads, keys or, at the border, both.
  HeadItems query_weights = {}, key_weights = {};
  if (first < a.heads) query_weights = read_norm_weights<QUERY_NORM_TYPE>(a.query_norm);
  if (end > a.heads) key_weights = read_norm_weights<KEY_NORM_TYPE>(a.key_norm);
  dependency_wait();
  barrier();
  const float* const query = a.query + u64(token) * a.query_stride;
  float* const query_out = a.query_out + u64(token) * a.query_out_stride;
  const float* const key = a.key + u64(token) * a.key_stride;
  float* const row = rows[wave_index()];
  for (int head = first + wave_index(); head < end; head += kWaves) {
    const int kv_head = head - a.heads;
    if (kv_head < 0) {
      HeadItems items = read_head(query + head * KEY_WIDTH);
      prepare_head(items, query_weights, a.epsilon, cosines, sines);
      give_head(items, [&](int column, float number) { query_out[head * KEY_WIDTH + column] = number; });
      continue;
    }
    const Place place = place_of(a, cell, kv_head);
    HeadItems items = read_head(key + kv_head * KEY_WIDTH);
    bool invalid = false;
    if (VALUE_WIDTH > 0)
      invalid = store_value(a, place, a.value + u64(token) * a.value_stride + kv_head * VALUE_WIDTH, row);
    prepare_head(items, key_weights, a.epsilon, cosines, sines);
    give_head(items, [&](int column, float number) { row[column] = number; });
    wave_barrier();
    store_key(place, invalid, row);
  }
}
