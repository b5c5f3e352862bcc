// Attention of steps in which every sequence brings one token, in one launch: makes the token's queries and key ready
// (norms of heads, rope), stores key and value in the cache, and attends. What earlier steps stored is on its way to registers before
// the kernel waits for this step's queries; the token's own row never comes back from memory: the block of its split
// takes it from shared memory, rounded as the cache has it. Bits are those of head_store, attention_split and
// attention_whole. attention_decode leaves each head's part to attention/combine.hip; attention_decode_whole, for steps
// whose longest sequence fits one split, writes the result itself: into memory that no query, key or value of the step
// lies in.
// Long sequences, and many, in an f16 cache have attention/deep-decode.hip instead, but for deterministic mode.
// Grid: x split (whole: 1), y kv head × blocks of BLOCK_HEADS query heads, z token (which is the sequence).
// Defines: KV_TYPE, KEY_WIDTH, VALUE_WIDTH, BLOCK_TOKENS, GROUP, BLOCK_HEADS, OUTPUT (whole), those of
// attention/heads.h and attention/attributes.h. With a sliding window splits are counted as in attention/split.hip.
//
// v1  One after the other before the wait, behind the launch before: position and table start; table; rows (angles
//     meanwhile: up to 63 multiplications and a division). After it: queries; rotation, barrier; one exchange for each
//     halving of a row's lanes, barrier; weights, values, barrier; the waves' shares, rounding. 123 registers on sm_90
//     with four heads (f16, width 128), 105 with one, two blocks a multiprocessor. The first launch of a step must not
//     be a dependent one: rows are read early. 12.4 µs on an H200 for 8B at depth 4096 (1.4 TB/s), 3.8 million
//     instructions of waves.
// v2  scores and values on the matrix units where rows are f16 (attention/matrix.h). A step of 8B at depth 4096 takes
//     0.19 ms more than at depth 1 (v1: 0.255), 0.05 of it in attention/combine.hip; at depth 1 it takes 0.02 ms more
//     than with v1.
// v3  a head of queries by one wave, with its norm; not measured.
#ifndef RESIDENT_BLOCKS
// Of wide heads, one block's rows fill the registers (attention/matrix.h).
#define RESIDENT_BLOCKS (KV_TYPE == 1 && (KEY_WIDTH > 128 || VALUE_WIDTH > 128) ? 1 : 2)
#endif
#include "device/portable.h"
#include "device/step.h"
#include "attention/kv-cache.h"
#include "attention/parts.h"
#include "attention/own-row.h"
#include "attention/heads.h"

/** Query heads by one wave each, then the token's own key. */
constexpr int kHeadRounds = (kBlockHeads + kWaves) / kWaves;
constexpr bool kPadsQueries = kPaddedHeads * KeyRow::kColumns != kBlockHeads * KEY_WIDTH || GROUP % kBlockHeads != 0;
constexpr bool kPadsRows = KeyRow::kColumns != KEY_WIDTH || ValueRow::kColumns != VALUE_WIDTH;

struct AttentionDecodeArguments {
  const StepHead* step;
  const int* positions;
  const int* table_starts;
  const int* tables;
  const float* factors;
  const float* stretches;
  /** Weights of the norms, or null. */
  const u8* query_norm;
  const u8* key_norm;
  const float* query;
  const float* key;
  const float* value;
  /** [token][head][split][VALUE_WIDTH], and [token][head][split][2]: highest score, sum of weights. */
  float* partial_values;
  float* partial_weights;
  float* out;
  i8* quantized;
  float* scales;
  float* sums;
  u16* halves;
  float* row_scales;
  int query_stride;
  int key_stride;
  int value_stride;
  int out_stride;
  int half_stride;
  int heads;
  int kv_heads;
  u64 layer_bytes;
  int layer_padding;
  /** Splits that the partial results have room for: the grid's x. */
  int splits;
  float scale;
  float ratio;
  float magnitude;
  float epsilon;
  float value_epsilon;
  /** One logit for each query head, if SINKS is 1. */
  const float* sinks;
};

/** Cosines and sines, and the token's own key and value once they are there. */
struct Own {
  Quad key[KeyRow::kColumns / 4];
  Quad value[(ValueRow::kColumns + 3) / 4];
  float cosines[kPairs + 1];
  float sines[kPairs + 1];
  int invalid;
};

/** All that a block can make ready before anything of this step is there. */
DEVICE void prepare(const AttentionDecodeArguments& a, int position, Own& own, SplitMemory& memory) {
  const int thread = thread_index();
  compute_rotations<kThreads>(a, position, own.cosines, own.sines);
  if (thread == 0) own.invalid = 0;
  clear_scores(memory);
  if (kPadsQueries) {
    for (int index = thread; index < kQueryQuads; index += kThreads) memory.pool[index] = {{0.0f, 0.0f, 0.0f, 0.0f}};
  }
  if (kPadsRows) {
    for (int index = thread; index < KeyRow::kColumns; index += kThreads)
      reinterpret_cast<float*>(own.key)[index] = 0.0f;
    for (int index = thread; index < ValueRow::kColumns; index += kThreads)
      reinterpret_cast<float*>(own.value)[index] = 0.0f;
  }
}

/** The weights of the norm of the head that a wave has in a round. */
DEVICE HeadItems norm_of_round(const AttentionDecodeArguments& a, int round) {
  return round * kWaves + wave_index() < kBlockHeads ? read_norm_weights<QUERY_NORM_TYPE>(a.query_norm)
                                                     : read_norm_weights<KEY_NORM_TYPE>(a.key_norm);
}

/**
 * Queries, normed, rotated and times the scale and log2 e, and in the block of its split the token's own key and value,
 * to shared memory. `first_weights` are those of the first round.
 */
DEVICE void stage_token(const AttentionDecodeArguments& a, const Share& share, int position, bool owns,
                        const HeadItems& first_weights, Own& own, SplitMemory& memory) {
  const float* const query = a.query + u64(share.token) * u64(a.query_stride) + share.first_head * KEY_WIDTH;
  const float* const key = a.key + u64(share.token) * u64(a.key_stride) + share.kv_head * KEY_WIDTH;
  const float* const value = a.value + u64(share.token) * u64(a.value_stride) + share.kv_head * VALUE_WIDTH;
  // The last wave, which has the fewest heads, has the value too. What is read is under way together.
  const bool has_value = owns && wave_index() == kWaves - 1;
  HeadItems heads[kHeadRounds] = {};
  HeadValues values = {};
#pragma unroll
  for (int round = 0; round < kHeadRounds; round++) {
    const int head = round * kWaves + wave_index();
    if (head < share.heads) heads[round] = read_head(query + head * KEY_WIDTH);
    if (owns && head == kBlockHeads) heads[round] = read_head(key);
  }
  if (has_value) values = read_values(value);

  float* const staged = reinterpret_cast<float*>(memory.pool);
  const float factor = score_factor(a.scale, position);
#pragma unroll
  for (int round = 0; round < kHeadRounds; round++) {
    const int head = round * kWaves + wave_index();
    const bool is_key = owns && head == kBlockHeads;
    if (head >= share.heads && !is_key) continue;
    prepare_head(heads[round], round == 0 ? first_weights : norm_of_round(a, round), a.epsilon, own.cosines, own.sines);
    if (is_key) {
      give_head(heads[round], [&](int column, float number) { reinterpret_cast<float*>(own.key)[column] = number; });
    } else {
      give_head(heads[round], [&](int column, float number) { staged[query_place(head, column)] = number * factor; });
    }
  }
  if (has_value) {
    norm_values(values, a.value_epsilon);
    give_head_values(values, [&](int column, float number) {
      if (!is_storable(number)) own.invalid = 1;
      reinterpret_cast<float*>(own.value)[column] = number;
    });
  }
}

template <bool Whole>
DEVICE void decode(const AttentionDecodeArguments& a) {
  SHARED SplitMemory memory;
  SHARED Own own;
  dependency_release();
  const Share share = share_of_block();
  // All at once: what lies past the step's tokens is old, but it is there.
  const int tokens = a.step->tokens, position = a.positions[share.token], start = a.table_starts[share.token];
  const CacheLayer layer = cache_layer(a, a.kv_heads);
  const int first = split_start(position, share.split);
  if (share.token >= tokens || first > position) return;
  const Source source = {layer,
                         a.tables + start,
                         share.kv_head,
                         a.kv_heads,
                         first,
                         min(first + kSplitPositions, position + 1),
                         first_visible(position)};
  const int before = min(position, source.end);
  const bool owns = position < source.end;

  CacheChunk keys[Keys::kBatchChunks];
  CacheChunk values[Values::kBatchChunks];
  OwnRow row = {position, owns ? row_at(source, source.table[position / BLOCK_TOKENS], position) : 0, false,
                share.first_head % GROUP == 0};
  fetch_both(source, before, keys, values);
  prepare(a, position, own, memory);
  const HeadItems weights = norm_of_round(a, 0);
  barrier();
  dependency_wait();

  stage_token(a, share, position, owns, weights, own, memory);
  barrier();
  row.invalid = own.invalid != 0;
  if (owns) {
    take_own<Keys, true>(source, source.layer.keys, row, own.key, 0, keys);
    take_own<Values, false>(source, source.layer.values, row, own.value, 0, values);
  }
  attend_rows<Whole>(
      a, source, share, keys, values, memory,
      [&](int batch) {
        fetch_rows<Keys>(source, source.layer.keys, batch, before, keys);
        if (owns) take_own<Keys, true>(source, source.layer.keys, row, own.key, batch, keys);
      },
      [&](int batch) {
        fetch_rows<Values>(source, source.layer.values, batch, before, values);
        if (owns) take_own<Values, false>(source, source.layer.values, row, own.value, batch, values);
      });
}

KERNEL(attention_decode, AttentionDecodeArguments, kThreads) { decode<false>(a); }
KERNEL(attention_decode_whole, AttentionDecodeArguments, kThreads) { decode<true>(a); }
