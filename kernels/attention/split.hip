// Attention of one token over one split of its positions, for all query heads that share a kv head: steps with a few
// tokens of a sequence (attention/decode.hip has those with one), and all of them in deterministic mode. Splits are
// fixed (device/step.h), so a row's bits depend on its own sequence alone.
// attention_split leaves each head's highest score, sum of weights and weighted values to attention/combine.hip;
// attention_whole, for steps whose longest sequence fits one split, writes the result itself.
// Grid: x split (attention_whole: 1), y kv head × blocks of up to 16 query heads (8 of more than 256 columns), z token.
// With a sliding window or chunks the splits of a token begin at its first visible position.
// Defines: KV_TYPE, KEY_WIDTH, VALUE_WIDTH, BLOCK_TOKENS, GROUP (query heads per kv head), OUTPUT (attention_whole),
// and those of attention/attributes.h.
//
// v1  all keys and values of the split in flight at once, in registers (f16, width 128: 16 lanes a row, 8 rows a
// thread).
//     Those that older steps stored are asked for before the kernel waits for this step's, so the first launch of a
//     step must not be a dependent one. 128 registers on sm_90, two blocks a multiprocessor: 8.6 us for one token at
//     depth 8 on an H200 (8 kv heads, 4 query heads each).
// v2  highest scores before the barrier and no barrier between scores and values; rounds past the end left out. The
//     same bits; not measured.
// v3  on the matrix units where rows are f16, as attention/decode.hip.
#ifndef RESIDENT_BLOCKS
// Of wide heads, one block's rows fill the registers (attention/matrix.h).
#define RESIDENT_BLOCKS (KV_TYPE == 1 && (KEY_WIDTH > 128 || VALUE_WIDTH > 128) ? 1 : 2)
#endif
#include "device/portable.h"
#include "device/step.h"
#include "attention/kv-cache.h"
#include "attention/parts.h"

struct AttentionSplitArguments {
  const StepHead* step;
  const int* positions;
  const int* sequences;
  const int* table_starts;
  const int* tables;
  const float* query;
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
  int out_stride;
  int half_stride;
  int heads;
  int kv_heads;
  u64 layer_bytes;
  int layer_padding;
  /** Splits that the partial results have room for: the grid's x. */
  int splits;
  float scale;
  /** One logit for each query head, if SINKS is 1. */
  const float* sinks;
};

/** The block's queries, times the scale and log2 e, with zeros where there is no head or no column. */
DEVICE void stage_queries(const AttentionSplitArguments& a, const Share& share, SplitMemory& memory) {
  const float* const row = a.query + u64(share.token) * u64(a.query_stride) + share.first_head * KEY_WIDTH;
  float* const queries = reinterpret_cast<float*>(memory.pool);
  const float factor = score_factor(a.scale, a.positions[share.token]);
  for (int index = thread_index(); index < kPaddedHeads * KeyRow::kColumns; index += kThreads) {
    const int head = index / KeyRow::kColumns, column = index % KeyRow::kColumns;
    queries[query_place(head, column)] =
        head < share.heads && column < KEY_WIDTH ? row[head * KEY_WIDTH + column] * factor : 0.0f;
  }
}

template <bool Whole>
DEVICE void attend(const AttentionSplitArguments& a) {
  SHARED SplitMemory memory;
  dependency_release();
  const Share share = share_of_block();
  const int token = share.token;
  if (token >= a.step->tokens) return;
  const int position = a.positions[token];
  const int sequence = a.sequences[token];
  const int first = split_start(position, share.split);
  if (first > position) return;
  const Source source = {cache_layer(a, a.kv_heads),
                         a.tables + a.table_starts[sequence],
                         share.kv_head,
                         a.kv_heads,
                         first,
                         min(first + kSplitPositions, position + 1),
                         first_visible(position)};

  CacheChunk keys[Keys::kBatchChunks];
  CacheChunk values[Values::kBatchChunks];
  clear_scores(memory);
  // What the launch before is storing now begins with the first token that the sequence has in this step.
  const bool begins = token == 0 || a.sequences[token - 1] != sequence;
  if (begins) {
    fetch_both(source, min(position, source.end), keys, values);
    dependency_wait();
    if (position < source.end) {
      fetch_row<Keys>(source, source.layer.keys, position, keys);
      fetch_row<Values>(source, source.layer.values, position, values);
    }
  } else {
    dependency_wait();
    fetch_both(source, source.end, keys, values);
  }
  stage_queries(a, share, memory);
  barrier();
  attend_rows<Whole>(
      a, source, share, keys, values, memory,
      [&](int batch) { fetch_rows<Keys>(source, source.layer.keys, batch, source.end, keys); },
      [&](int batch) { fetch_rows<Values>(source, source.layer.values, batch, source.end, values); });
}

KERNEL(attention_split, AttentionSplitArguments, kThreads) { attend<false>(a); }
KERNEL(attention_whole, AttentionSplitArguments, kThreads) { attend<true>(a); }
