// A head of queries or keys in the registers of one wave, on its way to attention: norm, rotation, norm. The same
// expressions wherever a head is made ready, so the same bits. Defines: KEY_WIDTH (of a head), those of
// attention/rope.h, and
//   NORM              0 none, 1 each head divided by its root mean square before the rotation, 2 after it
//   QUERY_NORM_TYPE   type of the norm's weights, by its number in the file; -1 if it has none
//   KEY_NORM_TYPE     likewise for keys
//   VALUE_NORM        1: each head of values is divided by its root mean square
#pragma once
#include "attention/rope.h"
#include "device/portable.h"
#ifndef NORM
#define NORM 0
#endif
#ifndef QUERY_NORM_TYPE
#define QUERY_NORM_TYPE -1
#endif
#ifndef KEY_NORM_TYPE
#define KEY_NORM_TYPE -1
#endif
#ifndef VALUE_NORM
#define VALUE_NORM 0
#endif

/** What one lane has at a time: a pair that is rotated, or a column that stays as it is. */
struct Item {
  float left;
  float right;
};

constexpr int kItems = KEY_WIDTH - kPairs;
constexpr int kLaneItems = (kItems + WAVE - 1) / WAVE;

/** Lane l has items l, l + WAVE and so on; past the last one zeros. */
struct HeadItems {
  Item at[kLaneItems];
};

DEVICE int item_of(int index) { return index * WAVE + lane_index(); }

DEVICE HeadItems read_head(const float* head) {
  HeadItems items = {};
#pragma unroll
  for (int index = 0; index < kLaneItems; index++) {
    const int item = item_of(index);
    if (item < kPairs) {
      items.at[index] = {head[left_column(item)], head[right_column(item)]};
    } else if (item < kItems) {
      items.at[index].left = head[still_column(item - kPairs)];
    }
  }
  return items;
}

/** Calls give(column, number) for each column of this lane. */
template <typename Give>
DEVICE void give_head(const HeadItems& items, Give give) {
#pragma unroll
  for (int index = 0; index < kLaneItems; index++) {
    const int item = item_of(index);
    if (item < kPairs) {
      give(left_column(item), items.at[index].left);
      give(right_column(item), items.at[index].right);
    } else if (item < kItems) {
      give(still_column(item - kPairs), items.at[index].left);
    }
  }
}

template <int Type>
DEVICE float norm_weight(const u8* weights, int column) {
  if (Type == 0) return reinterpret_cast<const float*>(weights)[column];
  if (Type == 1) return half_to_float(reinterpret_cast<const u16*>(weights)[column]);
  if (Type == 30) return bfloat_to_float(reinterpret_cast<const u16*>(weights)[column]);
  return 1.0f;
}

/** A norm's weights: they can be read before anything is known of the step. */
template <int Type>
DEVICE HeadItems read_norm_weights(const u8* weights) {
  static_assert(Type == -1 || Type == 0 || Type == 1 || Type == 30, "F32, F16, BF16 or none");
  HeadItems items = {};
  if (NORM == 0) return items;
#pragma unroll
  for (int index = 0; index < kLaneItems; index++) {
    const int item = item_of(index);
    if (item < kPairs) {
      items.at[index] = {norm_weight<Type>(weights, left_column(item)), norm_weight<Type>(weights, right_column(item))};
    } else if (item < kItems) {
      items.at[index].left = norm_weight<Type>(weights, still_column(item - kPairs));
    }
  }
  return items;
}

DEVICE void norm_head(HeadItems& items, const HeadItems& weights, float epsilon) {
  float squares = 0.0f;
#pragma unroll
  for (int index = 0; index < kLaneItems; index++) {
    squares = fma(items.at[index].left, items.at[index].left, squares);
    squares = fma(items.at[index].right, items.at[index].right, squares);
  }
  const float inverse = reciprocal_root(wave_sum(squares) / float(KEY_WIDTH) + epsilon);
#pragma unroll
  for (int index = 0; index < kLaneItems; index++) {
    items.at[index].left = items.at[index].left * inverse * weights.at[index].left;
    items.at[index].right = items.at[index].right * inverse * weights.at[index].right;
  }
}

/** Norm and rotation of a head, by every lane of a wave. */
DEVICE void prepare_head(HeadItems& items, const HeadItems& weights, float epsilon, const float* cosines,
                         const float* sines) {
  if (NORM == 1) norm_head(items, weights, epsilon);
#pragma unroll
  for (int index = 0; index < kLaneItems; index++) {
    const int item = item_of(index);
    if (item < kPairs) rotate_pair(cosines[item], sines[item], items.at[index].left, items.at[index].right);
  }
  if (NORM == 2) norm_head(items, weights, epsilon);
}

constexpr int kLaneValues = VALUE_WIDTH == 0 ? 1 : (VALUE_WIDTH + WAVE - 1) / WAVE;

/** A head of values: lane l has columns l, l + WAVE and so on; past the last one zeros. */
struct HeadValues {
  float at[kLaneValues];
};

DEVICE HeadValues read_values(const float* head) {
  HeadValues values = {};
#pragma unroll
  for (int index = 0; index < kLaneValues; index++) {
    if (index * WAVE + lane_index() < VALUE_WIDTH) values.at[index] = head[index * WAVE + lane_index()];
  }
  return values;
}

/** By every lane of a wave. */
DEVICE void norm_values(HeadValues& values, float epsilon) {
  if (VALUE_NORM == 0) return;
  float squares = 0.0f;
#pragma unroll
  for (int index = 0; index < kLaneValues; index++) squares = fma(values.at[index], values.at[index], squares);
  const float inverse = reciprocal_root(wave_sum(squares) / float(VALUE_WIDTH) + epsilon);
#pragma unroll
  for (int index = 0; index < kLaneValues; index++) values.at[index] *= inverse;
}

template <typename Give>
DEVICE void give_head_values(const HeadValues& values, Give give) {
#pragma unroll
  for (int index = 0; index < kLaneValues; index++) {
    if (index * WAVE + lane_index() < VALUE_WIDTH) give(index * WAVE + lane_index(), values.at[index]);
  }
}

/** Cosines and sines of a token's pairs, by a block of Threads; a barrier is due before they are used. */
template <int Threads, typename Arguments>
DEVICE void compute_rotations(const Arguments& a, int position, float* cosines, float* sines) {
  for (int pair = thread_index(); pair < kPairs; pair += Threads) {
    const Rotation rotation = rotation_of_pair(a, tables_of_pair(a, pair), pair, position);
    cosines[pair] = rotation.cosine;
    sines[pair] = rotation.sine;
  }
}
