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
/** The norm's weights and the first row. */
struct NormedAsked {
  NormedWeights weights;
  NormedQuads row;
};

DEVICE const float* normed_row(const QuantizedInputs& inputs, int token) {
  return inputs.normed_rows + u64(inputs.first_token + token) * u64(inputs.normed_stride);
}

DEVICE NormedAsked ask(const QuantizedInputs& inputs) {
  return {hold_norm_weights(inputs.norm_weight, inputs.width), hold_normed_row(normed_row(inputs, 0), inputs.width)};
}

/** Rows from token `first` on, and `early` before them, if it is one; then the block has them. */
DEVICE void stage_rows(QuantizedInputs& inputs, const NormedWeights& weights, const NormedQuads* early, int first) {
  SHARED float squares[8][kStreamWaves];
  const int chunks = inputs.width / 16;
  float* const sums = reinterpret_cast<float*>(inputs.scratch + staged_value_bytes(inputs.tokens, inputs.width));
  float* const scales = sums + inputs.tokens * chunks;
  u32* const values = reinterpret_cast<u32*>(inputs.scratch);
  if (early != nullptr)
    stage_normed(*early, weights, inputs.width, 0, inputs.with_sums, {values, scales, sums, squares[0]});
#pragma unroll
  for (int token = first; token < inputs.tokens; token++) {
    if (token >= inputs.live) continue;
    stage_normed(hold_normed_row(normed_row(inputs, token), inputs.width), weights, inputs.width, token * chunks,
                 inputs.with_sums, {values, scales, sums, squares[token]});
  }
  barrier();
  inputs.values = inputs.scratch;
  inputs.sums = sums;
  inputs.scales = scales;
  inputs.squares = squares[0];
}

DEVICE void arrive(QuantizedInputs& inputs, const NormedAsked& asked) {
  stage_rows(inputs, asked.weights, &asked.row, 1);
}

DEVICE void arrive(QuantizedInputs& inputs) {
  const NormedWeights weights = hold_norm_weights(inputs.norm_weight, inputs.width);
  dependency_wait();
  stage_rows(inputs, weights, nullptr, 0);
}

/** What the results of a token's row are multiplied by. */
DEVICE float row_factor(const QuantizedInputs& inputs, int token) {
  if (!NORM) return 1.0f;
  return inverse_root_mean(inputs.squares + token * kStreamWaves, kStreamWaves, inputs.width, inputs.norm_epsilon);
}
#else
DEVICE float row_factor(const QuantizedInputs&, int) { return 1.0f; }

/** Part of the inputs on its way to shared memory: batches, so that loads do not wait for stores. */
struct StagedBatch {
  static constexpr int Count = 4;
  /** Whole structs in an array would go through memory. */
  u32 words[Count][4];
  float sums[Count];
  float scales[Count];
};

/** `place(index, each)` is where what lies at `index` in shared memory comes from, if rows have `each` of a kind. */
template <typename Place>
DEVICE StagedBatch hold_batch(const QuantizedInputs& inputs, int first, Place place) {
  const int row_chunks = inputs.width / 16, row_blocks = inputs.width / 32;
  const int chunks = inputs.live * row_chunks, blocks = inputs.live * row_blocks;
  StagedBatch held;
#pragma unroll
  for (int i = 0; i < StagedBatch::Count; i++) {
    const int index = min(first + i * THREADS, chunks - 1);
    const int at = place(index, row_chunks);
    const Words4 words = reinterpret_cast<const Words4*>(inputs.values)[at];
    held.words[i][0] = words.x;
    held.words[i][1] = words.y;
    held.words[i][2] = words.z;
    held.words[i][3] = words.w;
    held.sums[i] = inputs.with_sums ? inputs.sums[at] : 0.0f;
    held.scales[i] = inputs.scales[place(min(index, blocks - 1), row_blocks)];
  }
  return held;
}

/** Where the inputs lie in shared memory. */
struct StagedPlaces {
  Words4* values;
  float* sums;
  float* scales;
};

DEVICE StagedPlaces staged_places(const QuantizedInputs& inputs) {
  float* const sums = reinterpret_cast<float*>(inputs.scratch + staged_value_bytes(inputs.tokens, inputs.width));
  return {reinterpret_cast<Words4*>(inputs.scratch), sums, sums + inputs.tokens * (inputs.width / 16)};
}

DEVICE void store_batch(const QuantizedInputs& inputs, const StagedPlaces& to, int first, const StagedBatch& held) {
  const int chunks = inputs.live * (inputs.width / 16), blocks = inputs.live * (inputs.width / 32);
#pragma unroll
  for (int i = 0; i < StagedBatch::Count; i++) {
    const int at = first + i * THREADS;
#if INPUTS_FIRST
    // Past the end the last once more, as it was read: branches would send what is held through memory.
    to.values[staged_chunk(min(at, chunks - 1))] = {held.words[i][0], held.words[i][1], held.words[i][2],
                                                    held.words[i][3]};
    if (inputs.with_sums) to.sums[min(at, chunks - 1)] = held.sums[i];
    to.scales[min(at, blocks - 1)] = held.scales[i];
#else
    if (at < chunks)
      to.values[staged_chunk(at)] = {held.words[i][0], held.words[i][1], held.words[i][2], held.words[i][3]};
    if (inputs.with_sums && at < chunks) to.sums[at] = held.sums[i];
    if (at < blocks) to.scales[at] = held.scales[i];
#endif
  }
}

/** Brings the inputs in, from `first` on, and then has them there. */
template <typename Place>
DEVICE void stage_rows(QuantizedInputs& inputs, Place place, int first = thread_index()) {
  const StagedPlaces to = staged_places(inputs);
  const int chunks = inputs.live * (inputs.width / 16);
  for (; first < chunks; first += StagedBatch::Count * THREADS)
    store_batch(inputs, to, first, hold_batch(inputs, first, place));
  barrier();
  inputs.values = inputs.scratch;
  inputs.sums = to.sums;
  inputs.scales = to.scales;
}

/** The rows of the block's tokens. */
DEVICE void find_rows(QuantizedInputs& inputs) {
  inputs.values += u64(inputs.first_token) * u64(inputs.width);
  inputs.scales += u64(inputs.first_token) * u64(inputs.width / 32);
  inputs.sums += u64(inputs.first_token) * u64(inputs.width / 16);
}

#if STAGED
DEVICE int same_place(int index, int) { return index; }

/** The first batch, before find_rows. */
DEVICE StagedBatch ask(const QuantizedInputs& inputs) {
  return hold_batch(inputs, thread_index(), [&](int index, int each) { return inputs.first_token * each + index; });
}

DEVICE void arrive(QuantizedInputs& inputs, const StagedBatch& asked) {
  find_rows(inputs);
  store_batch(inputs, staged_places(inputs), thread_index(), asked);
  stage_rows(inputs, same_place, thread_index() + StagedBatch::Count * THREADS);
}
#endif

/** Waits for the launches before this one, then brings the inputs in. */
DEVICE void arrive(QuantizedInputs& inputs) {
  dependency_wait();
  find_rows(inputs);
#if STAGED
  stage_rows(inputs, same_place);
#endif
}
#endif

/**
 * Which row of the inputs is the token's: past the last one that lives, its row again, or what lies in shared memory.
 */
DEVICE int input_row(const QuantizedInputs& inputs, int token) { return STAGED ? token : min(token, inputs.live - 1); }
