// Attention for prefill, on the matrix units: one block takes a tile of up to 64 neighbouring tokens of one sequence
// and one query head, and walks over the keys and values of 64 positions at a time, from the first that a token of the
// tile attends to up to the tile's own. Wide heads on devices with little shared memory take fewer positions at a time,
// and two blocks a tile, with half of its tokens each.
// Keys, queries and weights are f16, sums and the softmax f32. Each wave has 16 tokens to itself.
// Grid: x query head × parts of a tile, y tile (the step's last, which are the longest, first). Shared bytes:
// kSharedBytes below, also in src/backends/gpu/memory/kv-layout.ts. Defines: KV_TYPE (1 or 2), KEY_WIDTH, VALUE_WIDTH,
// BLOCK_TOKENS,
// GROUP, OUTPUT, TILE_WAVES (4, or 2 for two blocks a tile), TILE_POSITIONS (64 or 32), TRANSPOSED (attention/held-rows.h),
// those of attention/attributes.h.
//
// v1  queries in registers, values on their way while keys are multiplied and the other way round, weights from one
//     matmul to the next in registers (NVIDIA). 165 registers on sm_90 (width 128), three blocks a multiprocessor; not
//     measured.
// v2  TRANSPOSED, for AMD: rows to come wait in registers, values lie transposed. Not measured; see docs/amd.md.
#ifndef TILE_WAVES
#define TILE_WAVES 4
#endif
#ifndef TILE_POSITIONS
#define TILE_POSITIONS 64
#endif
#ifndef TRANSPOSED
#define TRANSPOSED 0
#endif
#define MATRIX_WAVES TILE_WAVES
#ifndef RESIDENT_BLOCKS
#define RESIDENT_BLOCKS (KEY_WIDTH <= 128 && VALUE_WIDTH <= 128 ? 3 : 1)
#endif
#include "device/portable.h"
#include "device/step.h"
#include "attention/kv-cache.h"
#include "device/async-copy.h"
#include "device/matrix-unit.h"
#include "attention/attributes.h"
#include "attention/output.h"
#include "attention/bring.h"
#include "attention/held-rows.h"
#if KV_TYPE == 0
#error "an f32 cache is not rounded to f16: attention/split.hip reads it"
#endif

constexpr int kWaves = TILE_WAVES;
/** Blocks that share the tokens of a tile. */
constexpr int kTileParts = 4 / kWaves;
constexpr int kThreads = kWaves * WAVE;
constexpr int kTileTokens = kWaves * 16;
constexpr int kTilePositions = TILE_POSITIONS;
constexpr int kPositionTiles = kTilePositions / 16;
constexpr int kKeySteps = (KEY_WIDTH + 15) / 16;
constexpr int kValueSteps = (VALUE_WIDTH + 15) / 16;
/** In halves: eight more than the columns, so that neighbouring rows lie in different banks. */
constexpr int kKeyStride = kKeySteps * 16 + 8;
constexpr int kValueStride = TRANSPOSED ? kTilePositions + 4 : kValueSteps * 16 + 8;
/** Queries are kept in registers where they fit beside the sums; on gfx11 both half-waves would hold all of them. */
constexpr bool kHoldsQuery = kKeySteps <= 8 && MATRIX_LAYOUT != 11;

/** Queries that are in registers before the first values come may lie where these will. */
constexpr bool kSharesPlace = TRANSPOSED && kHoldsQuery && WAVE == 64;
constexpr int kResultColumns = TRANSPOSED && VALUE_WIDTH > 64 ? 64 : VALUE_WIDTH;
// Shared memory, in bytes: keys, values, queries; results pass through all of it.
constexpr int kKeyBytes = kTilePositions * kKeyStride * 2;
constexpr int kValueBytes = (TRANSPOSED ? kValueSteps * 16 : kTilePositions) * kValueStride * 2;
constexpr int kQueryBytes = kTileTokens * kKeyStride * 2;
constexpr int kQueryPlace = kKeyBytes + (kSharesPlace ? 0 : kValueBytes);
constexpr int kInputBytes =
    kSharesPlace && kValueBytes > kQueryBytes ? kKeyBytes + kValueBytes : kQueryPlace + kQueryBytes;
constexpr int kResultBytes = kTileTokens * kResultColumns * 4;
constexpr int kScratchBytes = kWaves * 512;
constexpr int kSharedBytes = (kInputBytes > kResultBytes ? kInputBytes : kResultBytes) + kScratchBytes;

struct AttentionTiledArguments {
  const StepHead* step;
  /** First token, count, sequence. */
  const int* tiles;
  const int* positions;
  const int* table_starts;
  const int* tables;
  const float* query;
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
  float scale;
  /** One logit for each query head, if SINKS is 1. */
  const float* sinks;
};

/** The wave's 16 queries, times the scale and log2 e, to `target`; rows and columns that are not there as zeros. */
DEVICE void stage_queries(const AttentionTiledArguments& a, int first_token, int tokens, int head, int first_position,
                          u16* target) {
  const int row = wave_index() * 16;
  for (int index = lane_index(); index < 16 * kKeySteps * 16; index += WAVE) {
    const int own = row + index / (kKeySteps * 16), column = index % (kKeySteps * 16);
    float value = 0.0f;
    const float factor = score_factor(a.scale, first_position + own);
    if (own < tokens && column < KEY_WIDTH)
      value = a.query[u64(first_token + own) * u64(a.query_stride) + u64(head * KEY_WIDTH + column)];
    target[own * kKeyStride + column] = saturated_half(value * factor);
  }
}

/**
 * Of one wave's 16 tokens: the highest score so far, the sum of weights (this lane's part of it), the weighted values.
 */
struct Running {
  float highest[kRowSlots];
  float total[kRowSlots];
  Tile values[kValueSteps];
};

/** Scores become weights, and what was summed up so far is brought to the new highest score. */
DEVICE void weigh_scores(Tile (&scores)[kPositionTiles], Running& running) {
  float highest[kRowSlots];
#pragma unroll
  for (int slot = 0; slot < kRowSlots; slot++) highest[slot] = running.highest[slot];
#pragma unroll
  for (int tile = 0; tile < kPositionTiles; tile++) {
#pragma unroll
    for (int element = 0; element < kTileElements; element++) {
      highest[slot_of(element)] = max(highest[slot_of(element)], scores[tile].values[element]);
    }
  }
  float before[kRowSlots];
#pragma unroll
  for (int slot = 0; slot < kRowSlots; slot++) {
    highest[slot] = wave_max<kRowLanes>(highest[slot]);
    const float base = highest[slot] == negative_infinity() ? 0.0f : highest[slot];
    before[slot] = exponential2(running.highest[slot] - base);
    running.highest[slot] = highest[slot];
    running.total[slot] *= before[slot];
    highest[slot] = base;
  }
#pragma unroll
  for (int tile = 0; tile < kPositionTiles; tile++) {
#pragma unroll
    for (int element = 0; element < kTileElements; element++) {
      const float weight = exponential2(scores[tile].values[element] - highest[slot_of(element)]);
      scores[tile].values[element] = weight;
      running.total[slot_of(element)] += weight;
    }
  }
#pragma unroll
  for (int step = 0; step < kValueSteps; step++) {
#pragma unroll
    for (int element = 0; element < kTileElements; element++)
      running.values[step].values[element] *= before[slot_of(element)];
  }
}

/** The results, through shared memory so that neighbouring lanes write neighbouring columns. */
DEVICE void write_results(const AttentionTiledArguments& a, int first_token, int tokens, int head, Running& running,
                          float* results) {
  float* const own = results + wave_index() * 16 * kResultColumns;
#pragma unroll
  for (int slot = 0; slot < kRowSlots; slot++) {
    running.total[slot] = wave_sum<kRowLanes>(running.total[slot]);
    const float base = running.highest[slot] == negative_infinity() ? 0.0f : running.highest[slot];
    running.total[slot] = with_sink(a, head, base, running.total[slot]);
  }
#pragma unroll
  for (int part = 0; part < VALUE_WIDTH; part += kResultColumns) {
    if (part > 0) wave_barrier();
#pragma unroll
    for (int step = 0; step < kValueSteps; step++) {
      if (step * 16 < part || step * 16 >= part + kResultColumns) continue;
#pragma unroll
      for (int element = 0; element < kTileElements; element++) {
        const int column = step * 16 + tile_column(element);
        if (column < VALUE_WIDTH)
          own[tile_row(element) * kResultColumns + column - part] =
              running.values[step].values[element] / running.total[slot_of(element)];
      }
    }
    wave_barrier();
    for (int row = 0; row < 16; row++) {
      const int token = wave_index() * 16 + row;
      for (int first = 0; first < kResultColumns; first += WAVE) {
        const int column = part + first + lane_index();
        const bool present = token < tokens && first + lane_index() < kResultColumns && column < VALUE_WIDTH;
        write_column(a, first_token + token, head * VALUE_WIDTH + column, present,
                     present ? own[row * kResultColumns + column - part] : 0.0f);
      }
    }
  }
}

KERNEL(attention_tiled, AttentionTiledArguments, kThreads) {
  DYNAMIC_SHARED(memory);
  SHARED int rows[2][kTilePositions];
  u16* const keys = reinterpret_cast<u16*>(memory);
  u16* const values = reinterpret_cast<u16*>(memory + kKeyBytes);
  u16* const queries = reinterpret_cast<u16*>(memory + kQueryPlace);
  u16* const scratch = reinterpret_cast<u16*>(memory + kSharedBytes - kScratchBytes) + wave_index() * 256;
  dependency_release();
  const int tile_index = a.step->tiles - 1 - block_y();
  if (tile_index < 0) return;
  const int part = block_x() % kTileParts * kTileTokens;
  const int first_token = a.tiles[tile_index * 3] + part;
  const int tile_tokens = a.tiles[tile_index * 3 + 1];
  const int tokens = kTileParts == 1 ? tile_tokens : min(tile_tokens - part, kTileTokens);
  if (kTileParts > 1 && tokens <= 0) return;
  const int* const table = a.tables + a.table_starts[a.tiles[tile_index * 3 + 2]];
  const int head = block_x() / kTileParts, kv_head = head / GROUP;
  const CacheLayer layer = cache_layer(a, a.kv_heads);
  const int first_position = a.positions[first_token], last_position = first_position + tokens - 1;
  // Past the tile's end there is nothing to read; the last position stands in, and is not counted.
  const auto row_at = [&](int index) {
    const int position = min(index * kTilePositions + thread_index(), last_position);
    return int(cache_row(table[position / BLOCK_TOKENS], position % BLOCK_TOKENS, kv_head, a.kv_heads));
  };
  const int first_index = first_visible(first_position) / kTilePositions;
  if (thread_index() < kTilePositions) rows[first_index & 1][thread_index()] = row_at(first_index);
  // Columns that no key fills meet zeros among the queries, and must not be NaN.
  if (KeyRow::kColumns < kKeySteps * 16) {
    for (int index = thread_index(); index < kKeyBytes / 2; index += kThreads) keys[index] = 0;
  }
  dependency_wait();
  stage_queries(a, first_token, tokens, head, first_position, queries);
  barrier();
#if TRANSPOSED
  HeldRows<KeyRow, kTilePositions, kThreads> first_keys;
  hold_keys(first_keys, layer.keys, rows[first_index & 1]);
  put_keys(first_keys, keys, kKeyStride);
#else
  bring_rows<KeyRow, kTilePositions, kThreads>(layer.keys, rows[first_index & 1], keys, kKeyStride);
#endif
  Fragment held[kHoldsQuery ? kKeySteps : 1];
  const u16* const own_queries = queries + wave_index() * 16 * kKeyStride;
  if (kHoldsQuery) {
#pragma unroll
    for (int step = 0; step < kKeySteps; step++)
      held[kHoldsQuery ? step : 0] = load_fragment(own_queries + step * 16, kKeyStride);
  }
  Running running;
#pragma unroll
  for (int slot = 0; slot < kRowSlots; slot++) {
    running.highest[slot] = negative_infinity();
    running.total[slot] = 0.0f;
  }
#pragma unroll
  for (int step = 0; step < kValueSteps; step++) clear_tile(running.values[step]);

  const int own_position = first_position + wave_index() * 16;
  const int count = last_position / kTilePositions + 1;
  for (int index = first_index; index < count; index++) {
    const bool more = index + 1 < count;
    wait_for_copies();
    barrier();
#if TRANSPOSED
    HeldRows<ValueRow, kTilePositions, kThreads> next_values;
    hold_values(next_values, layer.values, rows[index & 1]);
#else
    bring_rows<ValueRow, kTilePositions, kThreads>(layer.values, rows[index & 1], values, kValueStride);
#endif
    const int next_row = more && thread_index() < kTilePositions ? row_at(index + 1) : 0;

    Tile scores[kPositionTiles];
#pragma unroll
    for (int tile = 0; tile < kPositionTiles; tile++) clear_tile(scores[tile]);
#pragma unroll(kHoldsQuery ? kKeySteps : 1)
    for (int step = 0; step < kKeySteps; step++) {
      const Fragment query =
          kHoldsQuery ? held[kHoldsQuery ? step : 0] : load_fragment(own_queries + step * 16, kKeyStride);
#pragma unroll
      for (int tile = 0; tile < kPositionTiles; tile++) {
        multiply_add(scores[tile], query, load_fragment(keys + tile * 16 * kKeyStride + step * 16, kKeyStride));
      }
    }
    if (kSoftCap > 0.0f) {
#pragma unroll
      for (int tile = 0; tile < kPositionTiles; tile++) {
#pragma unroll
        for (int element = 0; element < kTileElements; element++)
          scores[tile].values[element] = capped_score(scores[tile].values[element]);
      }
    }
    if (kLimited && index * kTilePositions < first_visible(own_position + 15)) {
#pragma unroll
      for (int tile = 0; tile < kPositionTiles; tile++) {
#pragma unroll
        for (int element = 0; element < kTileElements; element++) {
          const int position = index * kTilePositions + tile * 16 + tile_column(element);
          if (position < first_visible(own_position + tile_row(element)))
            scores[tile].values[element] = negative_infinity();
        }
      }
    }
    if (index * kTilePositions + kTilePositions - 1 > own_position) {
#pragma unroll
      for (int tile = 0; tile < kPositionTiles; tile++) {
#pragma unroll
        for (int element = 0; element < kTileElements; element++) {
          const int position = index * kTilePositions + tile * 16 + tile_column(element);
          if (position > own_position + tile_row(element)) scores[tile].values[element] = negative_infinity();
        }
      }
    }
    weigh_scores(scores, running);
    if (more && thread_index() < kTilePositions) rows[(index + 1) & 1][thread_index()] = next_row;

#if TRANSPOSED
    put_values(next_values, values, kValueStride);
    barrier();
    HeldRows<KeyRow, kTilePositions, kThreads> next_keys;
    hold_keys(next_keys, layer.keys, rows[(more ? index + 1 : index) & 1]);
#else
    wait_for_copies();
    barrier();
    if (more) bring_rows<KeyRow, kTilePositions, kThreads>(layer.keys, rows[(index + 1) & 1], keys, kKeyStride);
#endif
#pragma unroll
    for (int tile = 0; tile < kPositionTiles; tile++) {
      const Fragment weights = fragment_from_tile(scores[tile], scratch);
#pragma unroll
      for (int step = 0; step < kValueSteps; step++) {
        multiply_add(running.values[step], weights,
                     TRANSPOSED
                         ? load_fragment(values + step * 16 * kValueStride + tile * 16, kValueStride)
                         : load_fragment_transposed(values + tile * 16 * kValueStride + step * 16, kValueStride));
        // Keeps the compiler from loading every operand at once, which takes more registers than gfx11 has.
        if (TRANSPOSED) settle(running.values[step].values[0]);
        if (MATRIX_LAYOUT == 11 && step % 2 == 1) wave_barrier();
      }
    }
#if TRANSPOSED
    if (more) put_keys(next_keys, keys, kKeyStride);
#endif
  }
  barrier();
  write_results(a, first_token, tokens, head, running, reinterpret_cast<float*>(memory));
}
