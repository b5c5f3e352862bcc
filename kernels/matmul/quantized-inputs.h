// The quantized rows that a block of matmul/gemv.hip multiplies with: brought to shared memory (STAGED 1), made there
// from f32 rows and their norm (NORMED n, matmul/normed-row.h), or read where they are.
#pragma once
#include "matmul/row-stream.h"
#include "matmul/staged-row.h"

#ifndef STAGED
#define STAGED 1
#endif
#ifndef NORMED
#define NORMED 0
#endif
#if NORMED
#include "matmul/normed-row.h"
#endif

/** Quantized rows of this block's tokens: where they come from, and where the block has them. */
struct QuantizedInputs {
  const u8* values;
  const float* scales;
  const float* sums;
  u8* scratch;
  int width;
  int first_token;
  int live;
  int tokens;
  bool with_sums;
  /** Where they are normed here: the f32 rows, the norm, and each wave's sum of squares of each row. */
  const float* normed_rows;
  int normed_stride;
  const u8* norm_weight;
  float norm_epsilon;
  const float* squares;
};

#if NORMED
DEVICE void arrive(QuantizedInputs& inputs) {
  SHARED float squares[8][kStreamWaves];
  const NormedWeights weights = hold_norm_weights(inputs.norm_weight, inputs.width);
  dependency_wait();
  const int chunks = inputs.width / 16;
  float* const sums = reinterpret_cast<float*>(inputs.scratch + staged_value_bytes(inputs.tokens, inputs.width));
  float* const scales = sums + inputs.tokens * chunks;
#pragma unroll
  for (int token = 0; token < inputs.tokens; token++) {
    if (token >= inputs.live) continue;
    const float* const row = inputs.normed_rows + u64(inputs.first_token + token) * u64(inputs.normed_stride);
    stage_normed(row, weights, inputs.width, token * chunks, inputs.with_sums,
                 {reinterpret_cast<u32*>(inputs.scratch), scales, sums, squares[token]});
  }
  barrier();
  inputs.values = inputs.scratch;
  inputs.sums = sums;
  inputs.scales = scales;
  inputs.squares = squares[0];
}

/** What the results of a token's row are multiplied by. */
DEVICE float row_factor(const QuantizedInputs& inputs, int token) {
  if (!NORM) return 1.0f;
  return inverse_root_mean(inputs.squares + token * kStreamWaves, kStreamWaves, inputs.width, inputs.norm_epsilon);
}
#else
DEVICE float row_factor(const QuantizedInputs&, int) { return 1.0f; }

/**
 * Brings the inputs in: `place(index, each)` is where what lies at `index` in shared memory comes from, if rows have `each`
 * of a kind. Batches, so that loads do not wait for stores.
 */
template <typename Place>
DEVICE void stage_rows(QuantizedInputs& inputs, Place place) {
  constexpr int Batch = 4;
  Words4* const values = reinterpret_cast<Words4*>(inputs.scratch);
  float* const sums = reinterpret_cast<float*>(inputs.scratch + staged_value_bytes(inputs.tokens, inputs.width));
  float* const scales = sums + inputs.tokens * (inputs.width / 16);
  const int row_chunks = inputs.width / 16, row_blocks = inputs.width / 32;
  const int chunks = inputs.live * row_chunks, blocks = inputs.live * row_blocks;
  for (int first = thread_index(); first < chunks; first += Batch * THREADS) {
    Words4 held[Batch];
    float held_sums[Batch], held_scales[Batch];
#pragma unroll
    for (int i = 0; i < Batch; i++) {
      const int index = min(first + i * THREADS, chunks - 1);
      const int at = place(index, row_chunks);
      held[i] = reinterpret_cast<const Words4*>(inputs.values)[at];
      held_sums[i] = inputs.with_sums ? inputs.sums[at] : 0.0f;
      held_scales[i] = inputs.scales[place(min(index, blocks - 1), row_blocks)];
    }
#pragma unroll
    for (int i = 0; i < Batch; i++) {
      const int at = first + i * THREADS;
      if (at < chunks) values[staged_chunk(at)] = held[i];
      if (inputs.with_sums && at < chunks) sums[at] = held_sums[i];
      if (at < blocks) scales[at] = held_scales[i];
    }
  }
  barrier();
  inputs.values = inputs.scratch;
  inputs.sums = sums;
  inputs.scales = scales;
}

/** Waits for the launches before this one, then brings the inputs in. */
DEVICE void arrive(QuantizedInputs& inputs) {
  dependency_wait();
  inputs.values += u64(inputs.first_token) * u64(inputs.width);
  inputs.scales += u64(inputs.first_token) * u64(inputs.width / 32);
  inputs.sums += u64(inputs.first_token) * u64(inputs.width / 16);
#if STAGED
  stage_rows(inputs, [](int index, int) { return index; });
#endif
}
#endif

/**
 * Which row of the inputs is the token's: past the last one that lives, its row again, or what lies in shared memory.
 */
DEVICE int input_row(const QuantizedInputs& inputs, int token) { return STAGED ? token : min(token, inputs.live - 1); }
