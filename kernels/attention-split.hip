// Attention of one token over one split of its positions, for all query heads that share a kv head: decode, and every
// step in deterministic mode. Splits are fixed (step.h), so a row's bits depend on its own sequence alone.
// attention_split leaves each head's highest score, sum of weights and weighted values to attention-combine.hip;
// attention_whole, for steps whose longest sequence fits one split, writes the result itself.
// Grid: x split (attention_whole: 1), y kv head × blocks of up to 16 query heads, z token.
// Defines: KV_TYPE, KEY_WIDTH, VALUE_WIDTH, BLOCK_TOKENS, GROUP (query heads per kv head), OUTPUT (attention_whole).
//
// v1  all keys and values of the split in flight at once, in registers (f16, width 128: 16 lanes a row, 8 rows a thread).
//     Those that older steps stored are asked for before the kernel waits for this step's, so the first launch of a step
//     must not be a dependent one. 128 registers on sm_90, two blocks a multiprocessor; not measured.
#ifndef RESIDENT_BLOCKS
#define RESIDENT_BLOCKS 2
#endif
#include "portable.h"
#include "step.h"
#include "cache.h"
#include "attention-rows.h"
#include "attention-output.h"

constexpr int kQueryQuads = kPaddedHeads * KeyRow::kColumns / 4;
constexpr int kPartQuads = kWaves * kHeadsAtOnce * ValueRow::kColumns / 4;
constexpr int kPoolQuads = kQueryQuads > kPartQuads ? kQueryQuads : kPartQuads;

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
  i8* rounded;
  float* scales;
  float* sums;
  u16* halves;
  float* row_scales;
  int query_stride;
  int out_stride;
  int half_stride;
  int heads;
  int kv_heads;
  int layer;
  /** Splits that the partial results have room for: the grid's x. */
  int splits;
  float scale;
};

/** The block's queries, times the scale and log2 e, with zeros where there is no head or no column. */
DEVICE void stage_queries(const AttentionSplitArguments& a, int token, int first_head, int heads, float* queries) {
  const float* const row = a.query + u64(token) * u64(a.query_stride) + first_head * KEY_WIDTH;
  const float factor = a.scale * 1.44269504088896340736f;
  for (int index = thread_index(); index < kPaddedHeads * KeyRow::kColumns; index += kThreads) {
    const int head = index / KeyRow::kColumns, column = index % KeyRow::kColumns;
    queries[index] = head < heads && column < KEY_WIDTH ? row[head * KEY_WIDTH + column] * factor : 0.0f;
  }
}

template <bool Whole>
DEVICE void attend(const AttentionSplitArguments& a) {
  SHARED Quad pool[kPoolQuads];
  SHARED Quad score_quads[kSplitPositions * kPaddedHeads / 4];
  SHARED float bounds[kPaddedHeads][2];
  dependency_release();
  const int token = block_z(), split = block_x();
  if (token >= a.step->tokens) return;
  const int position = a.positions[token];
  const int sequence = a.sequences[token];
  if (split * kSplitPositions > position) return;

  const int kv_head = block_y() / kHeadBlocks;
  const int head_in_group = block_y() % kHeadBlocks * kBlockHeads;
  const int first_head = kv_head * GROUP + head_in_group;
  const int heads = smaller(kBlockHeads, GROUP - head_in_group);
  const int first = split * kSplitPositions;
  const Source source = {cache_layer(a.step, a.layer, a.kv_heads), a.tables + a.table_starts[sequence], kv_head, a.kv_heads,
                         first, smaller(first + kSplitPositions, position + 1)};

  CachePiece keys[Keys::kBatchPieces];
  CachePiece values[Values::kBatchPieces];
  // What the launch before is storing now begins with the first token that the sequence has in this step.
  const bool begins = token == 0 || a.sequences[token - 1] != sequence;
  if (begins) {
    fetch_rows<KeyRow>(source, source.layer.keys, 0, smaller(position, source.end), keys);
    fetch_rows<ValueRow>(source, source.layer.values, 0, smaller(position, source.end), values);
    dependency_wait();
    if (position < source.end) {
      fetch_row<KeyRow>(source, source.layer.keys, position, keys);
      fetch_row<ValueRow>(source, source.layer.values, position, values);
    }
  } else {
    dependency_wait();
    fetch_rows<KeyRow>(source, source.layer.keys, 0, source.end, keys);
    fetch_rows<ValueRow>(source, source.layer.values, 0, source.end, values);
  }
  float* const floats = reinterpret_cast<float*>(pool);
  float* const scores = reinterpret_cast<float*>(score_quads);
  stage_queries(a, token, first_head, heads, floats);
  barrier();

#pragma unroll 1
  for (int batch = 0; batch < Keys::kBatches; batch++) {
    if (batch > 0) fetch_rows<KeyRow>(source, source.layer.keys, batch, source.end, keys);
#pragma unroll 1
    for (int chunk = 0; chunk < kChunks; chunk++) score_keys(source, batch, chunk * kHeadsAtOnce, keys, pool, scores);
  }
  barrier();
  weigh_scores(heads, scores, bounds);
  barrier();

#pragma unroll 1
  for (int chunk = 0; chunk < kChunks; chunk++) {
    float sums[kHeadsAtOnce][Values::kLanePieces * kPieceColumns] = {};
#pragma unroll 1
    for (int batch = 0; batch < Values::kBatches; batch++) {
      if (Values::kBatches > 1 && (chunk > 0 || batch > 0)) fetch_rows<ValueRow>(source, source.layer.values, batch, source.end, values);
      add_values(batch, chunk * kHeadsAtOnce, values, scores, sums);
    }
    if (chunk > 0) barrier();
    fold_values(sums, floats + wave_index() * kHeadsAtOnce * ValueRow::kColumns);
    barrier();
    for (int start = wave_index() * WAVE; start < kHeadsAtOnce * VALUE_WIDTH; start += kThreads) {
      const int index = start + lane_index();
      const int h = index / VALUE_WIDTH, column = index % VALUE_WIDTH;
      const int head = chunk * kHeadsAtOnce + h;
      const bool present = index < kHeadsAtOnce * VALUE_WIDTH && head < heads;
      float sum = 0.0f;
      if (present) {
#pragma unroll
        for (int wave = 0; wave < kWaves; wave++) sum += floats[(wave * kHeadsAtOnce + h) * ValueRow::kColumns + column];
      }
      if (Whole) {
        write_column(a, token, (first_head + head) * VALUE_WIDTH + column, present, present ? sum / bounds[head][1] : 0.0f);
      } else if (present) {
        const u64 place = (u64(token) * u64(a.heads) + u64(first_head + head)) * u64(a.splits) + u64(split);
        a.partial_values[place * VALUE_WIDTH + u64(column)] = sum;
        if (column == 0) {
          a.partial_weights[place * 2] = bounds[head][0];
          a.partial_weights[place * 2 + 1] = bounds[head][1];
        }
      }
    }
  }
}

KERNEL(attention_split, AttentionSplitArguments, kThreads) { attend<false>(a); }
KERNEL(attention_whole, AttentionSplitArguments, kThreads) { attend<true>(a); }
