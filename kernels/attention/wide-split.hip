// Attention of one token over one split of its positions, for wide heads in an f16 cache, on the matrix units
// (attention/wide.h): rows are the query heads that share a kv head, up to ROW_TILES × 16 of them in a block, so that the
// rows of the cache are read once for all of them. Queries and weights come in two parts, so results are those of f32.
// Splits are fixed (device/step.h), so a row's bits depend on its own sequence alone.
// attention_wide_split leaves each head's highest score, sum of weights and weighted values to attention/combine.hip, or
// with `merges`, for at most kMergedSplits splits, merges them itself: the last of a token's blocks does it, as combine.hip
// would to the bit. attention_wide_whole, for steps whose longest sequence fits one split, writes the result itself.
// Grid: x split (attention_wide_whole: 1), y kv head × blocks of query heads, z token. Shared bytes: kSharedBytes.
// `arrivals`: a word for each y × z, zero before the first launch, and left so by each.
// Defines: KV_TYPE (1), KEY_WIDTH, VALUE_WIDTH, BLOCK_TOKENS, GROUP, OUTPUT, ROW_TILES, TILE_POSITIONS, STAGES,
// those of attention/attributes.h.
//
// v1  27 µs alone for 16 tokens of GLM-4.7-Flash after 128 (H200, with v2).
// v2  merges few splits: a launch less, whose blocks had a column of two splits each; 0 to 2 % of a step.
#define PARTS 2
#include "attention/wide.h"

constexpr int kHeadBlocks = (GROUP + kRows - 1) / kRows;
constexpr int kLaneColumns = (KEY_WIDTH + WAVE - 1) / WAVE;

struct AttentionWideSplitArguments {
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
  u32* arrivals;
  /** Whether the last block of a token merges the splits; there are kMergedSplits at most then. */
  int merges;
};

/** Also in src/backends/gpu/lowering/attention.ts. As many as attention/combine.hip has teams for heads so wide. */
constexpr int kMergedSplits = 4;

/** The power of two that brings a head's largest column near 2^13, and the one that takes it back. */
DEVICE float scale_of_query(float largest, float& back) {
  // Of an infinite one too, which stays what it is; nothing is brought up by more than 2^126.
  const int field = min(267 - int((bits_of(largest) >> 23) & 255u), 253);
  back = float_of(u32(254 - field) << 23);
  return float_of(u32(field) << 23);
}

/** A head by each wave, in two parts; heads and columns that are not there as zeros. */
DEVICE void stage_queries(const float* queries, int heads, float factor, const WideMemory& memory) {
  constexpr int Columns = kKeySteps * 16;
  for (int row = wave_index(); row < kRows; row += kWaves) {
    float columns[kLaneColumns];
    float largest = 0.0f;
#pragma unroll
    for (int index = 0; index < kLaneColumns; index++) {
      const int column = index * WAVE + lane_index();
      columns[index] = row < heads && column < KEY_WIDTH ? queries[row * KEY_WIDTH + column] * factor : 0.0f;
      largest = max(largest, magnitude(columns[index]));
    }
    float back = 0.0f;
    const float scale = scale_of_query(wave_max(largest), back);
    if (lane_index() == 0) memory.backs[row] = back;
    u16* const to = memory.queries + row * kKeyStride;
#pragma unroll
    for (int index = 0; index < kLaneColumns; index++) {
      const int column = index * WAVE + lane_index();
      const float value = columns[index] * scale;
      const u16 first = float_to_half(value);
      if (column < Columns) {
        to[column] = first;
        to[kRows * kKeyStride + column] = float_to_half(value - half_to_float(first));
      }
    }
    // Past the lanes' columns, where the width is not whole steps.
    for (int column = kLaneColumns * WAVE + lane_index(); column < Columns; column += WAVE) {
      to[column] = 0;
      to[kRows * kKeyStride + column] = 0;
    }
  }
}

/** Whether this block is the last of its token's splits to arrive, and sees what the others have left. */
DEVICE bool arrives_last(const AttentionWideSplitArguments& a, int token, int count, u8* shared) {
  u32* const arrivals = a.arrivals + token * (a.kv_heads * kHeadBlocks) + block_y();
  u32* const arrived = reinterpret_cast<u32*>(shared);
  device_fence();
  barrier();
  if (thread_index() == 0) *arrived = atomic_add(arrivals, 1);
  barrier();
  if (*arrived != u32(count - 1)) return false;
  device_fence();
  if (thread_index() == 0) *arrivals = 0;
  return true;
}

/** What a head's splits weigh together, and each of them. */
struct SplitWeights {
  float factors[kMergedSplits];
  float base;
  float total;
};

DEVICE SplitWeights weigh_splits(const float* weights, int count) {
  float highest[kMergedSplits], totals[kMergedSplits];
#pragma unroll
  for (int split = 0; split < kMergedSplits; split++) {
    highest[split] = split < count ? weights[split * 2] : negative_infinity();
    totals[split] = split < count ? weights[split * 2 + 1] : 0.0f;
  }
  float top = highest[0];
#pragma unroll
  for (int split = 1; split < kMergedSplits; split++) top = max(top, highest[split]);
  // Where there was no score but −∞ nothing weighs anything, and nothing is NaN.
  SplitWeights result = {{}, top == negative_infinity() ? 0.0f : top, 0.0f};
#pragma unroll
  for (int split = 0; split < kMergedSplits; split++) {
    result.factors[split] = exponential2(highest[split] - result.base);
    result.total = fma(result.factors[split], totals[split], result.total);
  }
  return result;
}

/** The results of this block's heads from what all splits have left, a head by each wave. */
DEVICE void merge_splits(const AttentionWideSplitArguments& a, int token, int first_head, int heads, int count) {
  for (int row = wave_index(); row < heads; row += kWaves) {
    const int head = first_head + row;
    const u64 place = (u64(token) * u64(a.heads) + u64(head)) * u64(a.splits);
    const SplitWeights weights = weigh_splits(a.partial_weights + place * 2, count);
    const float divisor = with_sink(a, head, weights.base, weights.total);
    const float* const values = a.partial_values + place * VALUE_WIDTH;
#pragma unroll 8
    for (int first = 0; first < VALUE_WIDTH; first += WAVE) {
      const int column = first + lane_index();
      const bool present = column < VALUE_WIDTH;
      float parts[kMergedSplits], sum = 0.0f;
#pragma unroll
      for (int split = 0; split < kMergedSplits; split++)
        parts[split] = present && split < count ? values[split * VALUE_WIDTH + column] : 0.0f;
#pragma unroll
      for (int split = 0; split < kMergedSplits; split++) sum = fma(weights.factors[split], parts[split], sum);
      write_column(a, token, head * VALUE_WIDTH + column, present, sum / divisor);
    }
  }
}

template <bool Whole>
DEVICE void attend(const AttentionWideSplitArguments& a, u8* shared) {
  const WideMemory memory = wide_memory(shared);
  dependency_release();
  const int token = block_z();
  if (token >= a.step->tokens) return;
  const int position = a.positions[token], sequence = a.sequences[token];
  const int first = split_start(position, block_x());
  if (first > position) return;
  const int end = min(first + kSplitPositions, position + 1);
  const int kv_head = block_y() / kHeadBlocks, head_in_group = block_y() % kHeadBlocks * kRows;
  const int first_head = kv_head * GROUP + head_in_group, heads = min(kRows, GROUP - head_in_group);
  const Walk walk = {cache_layer(a, a.kv_heads), a.tables + a.table_starts[sequence], kv_head, a.kv_heads,
                     first / kTilePositions,     (end - 1) / kTilePositions + 1,      end - 1};
  find_wide_rows(walk, walk.first, memory);
  if (walk.first + 1 < walk.end) find_wide_rows(walk, walk.first + 1, memory);
  prepare_wide(memory);
  barrier();
  // What the launch before is storing now begins with the first token that the sequence has in this step.
  const bool begins = token == 0 || a.sequences[token - 1] != sequence;
  const bool older = begins && (walk.first + 1) * kTilePositions <= position;
  if (older) bring_tile(walk, walk.first, memory);
  dependency_wait();
  if (!older) bring_tile(walk, walk.first, memory);
  stage_queries(a.query + u64(token) * u64(a.query_stride) + first_head * KEY_WIDTH, heads,
                score_factor(a.scale, position), memory);
  WideSums sums;
  walk_wide(walk, memory, sums, [&](int, int other) { return other < end && (!kLimited || other >= first); });
  give_wide(sums, shared, [&](int row, int column, bool present, float sum) {
    const bool wanted = present && row < heads;
    const float highest = highest_of_row(walk, memory, row), total = memory.totals[row];
    if (Whole) {
      const float base = highest == negative_infinity() ? 0.0f : highest;
      write_column(a, token, (first_head + row) * VALUE_WIDTH + column, wanted,
                   wanted ? sum / with_sink(a, first_head + row, base, total) : 0.0f);
      return;
    }
    if (!wanted) return;
    const u64 place = (u64(token) * u64(a.heads) + u64(first_head + row)) * u64(a.splits) + u64(block_x());
    a.partial_values[place * VALUE_WIDTH + u64(column)] = sum;
    if (column == 0) {
      a.partial_weights[place * 2] = highest;
      a.partial_weights[place * 2 + 1] = total;
    }
  });
  if (Whole || a.merges == 0) return;
  const int count = min(splits_of(position), a.splits);
  if (arrives_last(a, token, count, shared)) merge_splits(a, token, first_head, heads, count);
}

KERNEL(attention_wide_split, AttentionWideSplitArguments, kThreads) {
  DYNAMIC_SHARED(shared);
  attend<false>(a, shared);
}
KERNEL(attention_wide_whole, AttentionWideSplitArguments, kThreads) {
  DYNAMIC_SHARED(shared);
  attend<true>(a, shared);
}
