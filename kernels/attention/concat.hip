// Joins two rows head by head: for each head, columns of `left` followed by columns of `right`, which are rotated (rope)
// on the way if ROTARY_WIDTH is not 0: it is all of them then. Defines: those of attention/rope.h, KEY_WIDTH (for that
// file: ROTARY_WIDTH).
// Grid: x blocks of heads_per_block heads, y token.
//
// v1  a thread a column or a pair: 12.6 µs on an H200 for 16 tokens of 20 heads of 512 + 64 columns, 8 heads a block.
// v2  blocks of one head unless there are very many: 8 µs for 64 tokens. Four columns of `left` at a time where places
//     allow it; that was not measured by itself.
#include "device/quad.h"
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

/** Item `item` of a head's left part: a column, or four of them. */
DEVICE void copy_left(const float* from, float* to, int item, bool aligned) {
  if (aligned) {
    reinterpret_cast<Quad*>(to)[item] = reinterpret_cast<const Quad*>(from)[item];
  } else {
    to[item] = from[item];
  }
}

/** Item `item` of a head's right part: a column, or a pair that is rotated. */
DEVICE void to_right(const float* from, float* to, int item, const float* cosines, const float* sines) {
  if (ROTARY_WIDTH == 0) {
    to[item] = from[item];
    return;
  }
  float low = from[left_column(item)], high = from[right_column(item)];
  rotate_pair(cosines[item], sines[item], low, high);
  to[left_column(item)] = low;
  to[right_column(item)] = high;
}

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
  const int width = a.left_width + a.right_width;
  const bool aligned =
      ((reinterpret_cast<u64>(left) | reinterpret_cast<u64>(out)) & 15) == 0 && ((a.left_width | width) & 3) == 0;
  const int left_items = aligned ? a.left_width / 4 : a.left_width;
  const int items = left_items + a.right_width - kPairs;
  for (int index = thread_index(); index < (end - first) * items; index += kThreads) {
    const int head = first + index / items, item = index % items;
    float* const to = out + head * width;
    if (item < left_items) {
      copy_left(left + head * a.left_width, to, item, aligned);
      continue;
    }
    to_right(right + head * a.head_stride + a.head_offset, to + a.left_width, item - left_items, cosines, sines);
  }
}
