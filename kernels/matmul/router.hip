// The logits of a router from rows that are not normed yet: logits = norm(row) · weightsᵀ + bias, for few tokens.
// A block makes one logit of one token, because routers have few rows: its part of the weights and of the norm's weights
// is in registers before the row is there, and the root mean square is applied to the sum.
// Defines: TYPE0 of the weights, WEIGHT_TYPE of the norm's weights, BIAS_TYPE: 0 (F32), 1 (F16) or 30 (BF16). THREADS;
//   HELD: quads of a row that a thread takes, ⌈width ÷ (4 × THREADS)⌉. The width is a multiple of 4, rows lie at
//   multiples of 16 bytes.
// A shared expert's weight is one logit more, from a row of its own.
// Grid: x = experts (+ 1 with a shared expert's weight), y = tokens.
// v1 one block a logit, one barrier. Not measured yet.
#include "device/quad.h"
#include "weights/weights.h"

#ifndef BIAS_TYPE
#define BIAS_TYPE 0
#endif
#ifndef THREADS
#define THREADS 128
#endif

struct RouterArguments {
  const float* input;
  const u8* norm_weight;
  const u8* weights;
  const u8* bias;
  const u8* shared;
  const int* row_count;
  float* out;
  float* shared_out;
  int experts;
  int width;
  int input_stride;
  int out_stride;
  float epsilon;
};

template <int Type>
DEVICE Quad plain_quad(const u8* row, int quad) {
  if (Type == kF32) return reinterpret_cast<const Quad*>(row)[quad];
  const Words2 words = load_words2(row + quad * 8);
  const u16 halves[4] = {u16(words.x), u16(words.x >> 16), u16(words.y), u16(words.y >> 16)};
  Quad result;
#pragma unroll
  for (int i = 0; i < 4; i++) result.at[i] = Type == kF16 ? half_to_float(halves[i]) : bfloat_to_float(halves[i]);
  return result;
}

KERNEL(normed_router, RouterArguments, THREADS) {
  constexpr int Waves = THREADS / WAVE;
  SHARED float partial[2][Waves];
  dependency_release();
  const int expert = block_x(), token = block_y();
  const int quads = a.width / 4;
  const bool is_shared = expert == a.experts;
  const u8* const row = is_shared ? a.shared : a.weights + u64(expert) * u64(a.width) * Plain<TYPE0>::element_bytes;
  // Weight × norm weight: what the row's columns are multiplied with.
  Quad factors[HELD];
#pragma unroll
  for (int i = 0; i < HELD; i++) {
    const int quad = i * THREADS + thread_index();
    const Quad weight = plain_quad<TYPE0>(row, min(quad, quads - 1));
    const Quad norm = plain_quad<WEIGHT_TYPE>(a.norm_weight, min(quad, quads - 1));
#pragma unroll
    for (int k = 0; k < 4; k++) factors[i].at[k] = weight.at[k] * norm.at[k];
  }
  const float bias = a.bias == nullptr || is_shared ? 0.0f : Plain<BIAS_TYPE>::value(a.bias, expert);
  const int count = *a.row_count;
  dependency_wait();
  if (token >= count) return;
  const Quad* const input = reinterpret_cast<const Quad*>(a.input + u64(token) * u64(a.input_stride));
  Quad values[HELD];
#pragma unroll
  for (int i = 0; i < HELD; i++) values[i] = input[min(i * THREADS + thread_index(), quads - 1)];
  float sum = 0, squares = 0;
#pragma unroll
  for (int i = 0; i < HELD; i++) {
    const bool inside = i * THREADS + thread_index() < quads;
#pragma unroll
    for (int k = 0; k < 4; k++) {
      const float value = inside ? values[i].at[k] : 0.0f;
      sum = fma(value, factors[i].at[k], sum);
      squares = fma(value, value, squares);
    }
  }
  sum = wave_sum(sum);
  squares = wave_sum(squares);
  if (lane_index() == 0) {
    partial[0][wave_index()] = sum;
    partial[1][wave_index()] = squares;
  }
  barrier();
  if (thread_index() != 0) return;
  sum = squares = 0;
#pragma unroll
  for (int wave = 0; wave < Waves; wave++) {
    sum += partial[0][wave];
    squares += partial[1][wave];
  }
  const float inverse = reciprocal_root(squares / float(a.width) + a.epsilon);
  float* const out = is_shared ? a.shared_out + token : a.out + u64(token) * u64(a.out_stride) + u64(expert);
  *out = fma(sum, inverse, bias);
}
