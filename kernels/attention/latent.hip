// The key of latent attention, from its compressed form to the cache: the latent columns divided by their root mean
// square and multiplied by the norm's weights, then the rotated columns (rope).
//   latent_store   that alone. Grid: x tokens, kWaves of them to a block.
//   latent_query   the same, and the queries as far as no matmul is needed: their rotated columns go to where attention reads
//                  them, and the others become halves for the matmul of one matrix a head. Grid: x = ⌈(1 + heads) ÷ kWaves⌉,
//                  y token: a wave has the key or a head.
// Defines: KV_TYPE, KEY_WIDTH, BLOCK_TOKENS, ROTARY_WIDTH, ADJACENT, NORM_TYPE (of the norm's weights, by its number in the
// file; -1 if it has none). Of latent_query: HALVES 0 makes none, 1 a row of halves for each head, 2 the same in the order of
// rows/wide-order.h (GROUP_CHUNKS); UNROTATED, the columns of a head that become halves, and HALF_STRIDE, a multiple of 4.
//
// v1  one wave a token, in place of four launches; not measured.
// v2  latent_query: two launches less for each layer; part of 2 % with 64 sequences of GLM-4.7-Flash on an H200.
#include "device/portable.h"
#include "device/step.h"
#include "rows/prepared-row.h"
#include "rows/wide-order.h"
#define VALUE_WIDTH 0
#include "attention/kv-cache.h"
#include "attention/rope.h"

#ifndef HALVES
#define HALVES 0
#endif
#ifndef UNROTATED
#define UNROTATED 4
#endif
#ifndef HALF_STRIDE
#define HALF_STRIDE UNROTATED
#endif

constexpr int kThreads = 128;
constexpr int kWaves = kThreads / WAVE;
constexpr int kLatentWidth = KEY_WIDTH - ROTARY_WIDTH;
constexpr int kLaneColumns = (kLatentWidth + WAVE - 1) / WAVE;
constexpr int kLanePairs = (kPairs + WAVE - 1) / WAVE;
constexpr int kLaneQuads = (HALF_STRIDE / 4 + WAVE - 1) / WAVE;

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

/** Of the pairs of this lane. */
template <typename Arguments>
DEVICE void find_rotations(const Arguments& a, int position, Rotation (&rotations)[kLanePairs]) {
#pragma unroll
  for (int index = 0; index < kLanePairs; index++) {
    const int pair = min(index * WAVE + lane_index(), kPairs - 1);
    rotations[index] = rotation_of_pair(a, tables_of_pair(a, pair), pair, position);
  }
}

/** By one wave. */
DEVICE void rotate_row(const Rotation (&rotations)[kLanePairs], const float* from, float* to) {
#pragma unroll
  for (int index = 0; index < kLanePairs; index++) {
    const int pair = index * WAVE + lane_index();
    if (pair >= kPairs) continue;
    float left = from[left_column(pair)], right = from[right_column(pair)];
    rotate_pair(rotations[index].cosine, rotations[index].sine, left, right);
    to[left_column(pair)] = left;
    to[right_column(pair)] = right;
  }
}

/** By one wave, which has `row` for itself. */
template <typename Arguments>
DEVICE void store_key(const Arguments& a, int token, float* row) {
  const int position = a.positions[token], cell = a.cells[token];
  float weights[kLaneColumns];
#pragma unroll
  for (int index = 0; index < kLaneColumns; index++) {
    const int column = index * WAVE + lane_index();
    weights[index] = column < kLatentWidth ? norm_weight(a.norm, column) : 0.0f;
  }
  Rotation rotations[kLanePairs];
  find_rotations(a, position, rotations);
  dependency_wait();
  const float* const latent = a.latent + u64(token) * u64(a.latent_stride);
  const float* const rotated = a.rotated + u64(token) * u64(a.rotated_stride);
  float columns[kLaneColumns];
  float squares = 0.0f;
#pragma unroll
  for (int index = 0; index < kLaneColumns; index++) {
    const int column = index * WAVE + lane_index();
    columns[index] = column < kLatentWidth ? latent[column] : 0.0f;
  }
  rotate_row(rotations, rotated, row + kLatentWidth);
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

KERNEL(latent_store, LatentStoreArguments, kThreads) {
  SHARED float rows[kWaves][KEY_WIDTH];
  dependency_release();
  const int token = block_x() * kWaves + wave_index();
  if (token < a.step->tokens) store_key(a, token, rows[wave_index()]);
}

/** Halves are [token][head][HALF_STRIDE], and have a scale each; `out` has heads of KEY_WIDTH columns. */
struct LatentQueryArguments {
  const StepHead* step;
  const int* positions;
  const int* cells;
  const float* factors;
  const float* stretches;
  const u8* norm;
  const float* latent;
  const float* rotated;
  const float* query;
  float* out;
  u16* halves;
  float* row_scales;
  int latent_stride;
  int rotated_stride;
  int query_stride;
  int out_stride;
  int heads;
  /** Columns from one head of `query` to the next, and of the first that is rotated. */
  int head_stride;
  int head_offset;
  u64 layer_bytes;
  int layer_padding;
  float ratio;
  float magnitude;
  float epsilon;
};

#if HALVES

/** The columns of a head that are not rotated, by one wave, with zeros up to HALF_STRIDE. */
DEVICE void halve_head(const LatentQueryArguments& a, const float* query, int row) {
  static_assert(HALF_STRIDE % 4 == 0, "a row of whole quads");
  const Row source = row_of(query, UNROTATED);
  Quad quads[kLaneQuads];
  u32 largest = 0;
#pragma unroll
  for (int index = 0; index < kLaneQuads; index++) {
    quads[index] = read_quad(source, index * WAVE + lane_index());
#pragma unroll
    for (int i = 0; i < 4; i++) largest = max(largest, magnitude_bits(quads[index].at[i]));
  }
  const float scale = half_scale(wave_max(largest)), inverse = 1.0f / scale;
  if (lane_index() == 0) a.row_scales[row] = scale;
  u32* const words = reinterpret_cast<u32*>(a.halves + u64(row) * HALF_STRIDE);
#pragma unroll
  for (int index = 0; index < kLaneQuads; index++) {
    const int quad = index * WAVE + lane_index();
    if (quad >= HALF_STRIDE / 4) continue;
    const float* const values = quads[index].at;
    const int word = HALVES == 2 ? wide_word(quad) : quad * 2;
    words[word] = float2_to_half2(values[0] * inverse, values[1] * inverse);
    words[word + (HALVES == 2 ? 4 : 1)] = float2_to_half2(values[2] * inverse, values[3] * inverse);
  }
}

#endif

KERNEL(latent_query, LatentQueryArguments, kThreads) {
  SHARED float key[KEY_WIDTH];
  dependency_release();
  const int token = block_y(), head = block_x() * kWaves + wave_index() - 1;
  if (token >= a.step->tokens || head >= a.heads) return;
  if (head < 0) return store_key(a, token, key);
  Rotation rotations[kLanePairs];
  find_rotations(a, a.positions[token], rotations);
  dependency_wait();
  const float* const query = a.query + u64(token) * u64(a.query_stride) + head * a.head_stride;
  float* const out = a.out + u64(token) * u64(a.out_stride) + head * KEY_WIDTH;
  rotate_row(rotations, query + a.head_offset, out + kLatentWidth);
#if HALVES
  halve_head(a, query, token * a.heads + head);
#endif
}
