// The key of latent attention, from its compressed form to the cache: the latent columns divided by their root mean
// square and multiplied by the norm's weights, then the rotated columns (rope).
// Grid: x tokens, kWaves of them to a block. Defines: KV_TYPE, KEY_WIDTH, BLOCK_TOKENS, ROTARY_WIDTH, ADJACENT, NORM_TYPE
// (of the norm's weights, by its number in the file; -1 if it has none).
//
// v1  one wave a token, in place of four launches; not measured.
#include "device/portable.h"
#include "device/step.h"
#define VALUE_WIDTH 0
#include "attention/kv-cache.h"
#include "attention/rope.h"

constexpr int kThreads = 128;
constexpr int kWaves = kThreads / WAVE;
constexpr int kLatentWidth = KEY_WIDTH - ROTARY_WIDTH;
constexpr int kLaneColumns = (kLatentWidth + WAVE - 1) / WAVE;
constexpr int kLanePairs = (kPairs + WAVE - 1) / WAVE;

struct LatentStoreArguments {
  const StepHead* step;
  const int* positions;
  const int* cells;
  const float* factors;
  const float* stretches;
  const u8* norm;
  const float* latent;
  const float* rotated;
  int latent_stride;
  int rotated_stride;
  u64 layer_bytes;
  int layer_padding;
  float ratio;
  float magnitude;
  float epsilon;
};

DEVICE float norm_weight(const u8* weights, int column) {
  if (NORM_TYPE == 0) return reinterpret_cast<const float*>(weights)[column];
  if (NORM_TYPE == 1) return half_to_float(reinterpret_cast<const u16*>(weights)[column]);
  if (NORM_TYPE == 30) return bfloat_to_float(reinterpret_cast<const u16*>(weights)[column]);
  return 1.0f;
}

KERNEL(latent_store, LatentStoreArguments, kThreads) {
  SHARED float rows[kWaves][KEY_WIDTH];
  dependency_release();
  const int token = block_x() * kWaves + wave_index();
  if (token >= a.step->tokens) return;
  const int position = a.positions[token], cell = a.cells[token];
  float weights[kLaneColumns];
#pragma unroll
  for (int index = 0; index < kLaneColumns; index++) {
    const int column = index * WAVE + lane_index();
    weights[index] = column < kLatentWidth ? norm_weight(a.norm, column) : 0.0f;
  }
  Rotation rotations[kLanePairs];
#pragma unroll
  for (int index = 0; index < kLanePairs; index++) {
    const int pair = min(index * WAVE + lane_index(), kPairs - 1);
    rotations[index] = rotation_of_pair(a, tables_of_pair(a, pair), pair, position);
  }
  dependency_wait();
  const float* const latent = a.latent + u64(token) * u64(a.latent_stride);
  const float* const rotated = a.rotated + u64(token) * u64(a.rotated_stride);
  float* const row = rows[wave_index()];
  float columns[kLaneColumns];
  float squares = 0.0f;
#pragma unroll
  for (int index = 0; index < kLaneColumns; index++) {
    const int column = index * WAVE + lane_index();
    columns[index] = column < kLatentWidth ? latent[column] : 0.0f;
  }
#pragma unroll
  for (int index = 0; index < kLanePairs; index++) {
    const int pair = index * WAVE + lane_index();
    if (pair >= kPairs) continue;
    float left = rotated[left_column(pair)], right = rotated[right_column(pair)];
    rotate_pair(rotations[index].cosine, rotations[index].sine, left, right);
    row[kLatentWidth + left_column(pair)] = left;
    row[kLatentWidth + right_column(pair)] = right;
  }
#pragma unroll
  for (int index = 0; index < kLaneColumns; index++) squares = fma(columns[index], columns[index], squares);
  const float inverse = reciprocal_root(wave_sum(squares) / float(kLatentWidth) + a.epsilon);
#pragma unroll
  for (int index = 0; index < kLaneColumns; index++) {
    const int column = index * WAVE + lane_index();
    if (column < kLatentWidth) row[column] = columns[index] * inverse * weights[index];
  }
  wave_barrier();
  store_shared_row<KeyRow>(cache_layer(a, 1).keys, cache_row(cell / BLOCK_TOKENS, cell % BLOCK_TOKENS, 0, 1), row);
}
