// Joins two rows head by head: for each head, columns of `left` followed by columns of `right`, which are rotated (rope)
// on the way if ROTARY_WIDTH is not 0: it is all of them then. Defines: those of attention/rope.h, KEY_WIDTH (for that
// file: ROTARY_WIDTH).
// Grid: x blocks of heads_per_block heads, y token.
//
// v1  a thread a column or a pair; not measured.
#include "device/portable.h"
#include "device/step.h"
#ifndef ROTARY_WIDTH
#define ROTARY_WIDTH 0
#endif
#ifndef ADJACENT
#define ADJACENT 0
#endif
#include "attention/rope.h"

constexpr int kThreads = 256;

struct ConcatHeadsArguments {
  const int* positions;
  const float* factors;
  const float* stretches;
  const int* row_count;
  const float* left;
  const float* right;
  float* out;
  int left_stride;
  int right_stride;
  int out_stride;
  int heads;
  int heads_per_block;
  int left_width;
  int right_width;
  /** Columns from one head of `right` to the next, and of the first that is taken. */
  int head_stride;
  int head_offset;
  float ratio;
  float magnitude;
};

KERNEL(concat_heads, ConcatHeadsArguments, kThreads) {
  SHARED float cosines[kPairs + 1];
  SHARED float sines[kPairs + 1];
  dependency_release();
  const int token = block_y();
  if (token >= *a.row_count) return;
  for (int pair = thread_index(); pair < kPairs; pair += kThreads) {
    const Rotation rotation = rotation_of_pair(a, tables_of_pair(a, pair), pair, a.positions[token]);
    cosines[pair] = rotation.cosine;
    sines[pair] = rotation.sine;
  }
  dependency_wait();
  barrier();
  const float* const left = a.left + u64(token) * u64(a.left_stride);
  const float* const right = a.right + u64(token) * u64(a.right_stride);
  float* const out = a.out + u64(token) * u64(a.out_stride);
  const int first = block_x() * a.heads_per_block, end = min(first + a.heads_per_block, a.heads);
  const int items = a.left_width + a.right_width - kPairs, width = a.left_width + a.right_width;
  for (int index = thread_index(); index < (end - first) * items; index += kThreads) {
    const int head = first + index / items, item = index % items;
    float* const to = out + head * width;
    if (item < a.left_width) {
      to[item] = left[head * a.left_width + item];
      continue;
    }
    const float* const from = right + head * a.head_stride + a.head_offset;
    const int place = item - a.left_width;
    if (ROTARY_WIDTH == 0) {
      to[item] = from[place];
      continue;
    }
    float low = from[left_column(place)], high = from[right_column(place)];
    rotate_pair(cosines[place], sines[place], low, high);
    to[a.left_width + left_column(place)] = low;
    to[a.left_width + right_column(place)] = high;
  }
}
