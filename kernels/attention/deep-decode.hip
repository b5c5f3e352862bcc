// Decode attention over long sequences, or over many, in an f16 cache, with what attention/decode.hip does in passing: makes
// the token's queries and key ready (norms of heads, rope), stores key and value in the cache, and attends. A block has one kv head
// and up to 8 of its query heads, so that rows are read once for all of them, and a part of the token's positions
// (attention/deep-parts.h), which its waves walk over tile by tile, each by itself, with a running softmax; rows of
// tiles to come are on their way meanwhile. What the waves have come to is merged in order and left to
// attention/deep-combine.hip. With WHOLE, for steps of so many sequences that a block for each of their kv heads fills the
// device, a block has all of a token's positions and writes the result itself: into memory that no query, key or value of
// the step lies in. The token's own row never comes back from memory: it is put into its tile, rounded as the
// cache has it. Queries and weights come in two parts, so results are as good as those of f32.
// Grid: x kv head × blocks of query heads, y part (WHOLE: 1), z token (which is the sequence). Shared bytes: kSharedBytes.
// Defines: KV_TYPE (1), KEY_WIDTH, VALUE_WIDTH (multiples of 16), BLOCK_TOKENS, GROUP, WAVES, STAGES, TILE_POSITIONS,
// WHOLE (1; absent: parts), OUTPUT (with WHOLE), those of attention/heads.h and attention/attributes.h.
//
// v1  11.2 µs on an H200 for 32 query heads over 4 of 128 columns at depth 16,384 (33.5 MB), in a graph of such launches;
//     10.7 for 64 over 8 of 64; 37.9 for 16 over 8 of 256 (134 MB). 210 registers, two blocks a multiprocessor.
// v2  weights of norms are read before the wait; not measured.
#ifndef WAVES
#define WAVES 4
#endif
#ifndef STAGES
#define STAGES 3
#endif
#ifndef TILE_POSITIONS
#define TILE_POSITIONS 16
#endif
#ifndef WHOLE
#define WHOLE 0
#endif
#ifndef RESIDENT_BLOCKS
#define RESIDENT_BLOCKS (KEY_WIDTH + VALUE_WIDTH > 256 ? 1 : 2)
#endif
#define MATRIX_WAVES WAVES
#include "device/portable.h"
#include "device/step.h"
#include "device/quad.h"
#include "device/matrix-unit.h"
#include "attention/kv-cache.h"
#include "attention/deep-parts.h"
#include "attention/heads.h"
#include "attention/output.h"
#if KV_TYPE != 1 || VALUES_IN_KEYS
#error "rows that f16 does not have: attention/decode.hip reads them"
#endif

constexpr int kWaves = WAVES;
constexpr int kThreads = kWaves * WAVE;
constexpr int kStages = STAGES;
constexpr int kTile = TILE_POSITIONS;
/** Query heads that lines of the matrix units have room for, in two parts each. */
constexpr int kHeads = 8;
constexpr int kBlockHeads = GROUP < kHeads ? GROUP : kHeads;
constexpr int kHeadBlocks = (GROUP + kHeads - 1) / kHeads;
constexpr int kKeySteps = KEY_WIDTH / 16;
constexpr int kValueTiles = VALUE_WIDTH / 16;
static_assert(KEY_WIDTH % 16 == 0 && VALUE_WIDTH % 16 == 0, "rows are whole steps of the matrix units");
static_assert(kPartUnit % kTile == 0 && kTile <= WAVE, "parts begin with a tile, and a lane finds each of its rows");
/** Weights are at most 1; f16 has most bits for numbers of this size, and less to lose for small ones. */
constexpr float kWeightScale = 16384.0f;
// In halves: eight more than the columns, so that neighbouring rows lie in different banks.
constexpr int kKeyStride = KEY_WIDTH + 8;
constexpr int kValueStride = VALUE_WIDTH + 8;
/** In floats, from one head's sums to the next. */
constexpr int kPartStride = VALUE_WIDTH + 4;

#include "attention/deep-rows.h"
#if !defined(ROCMFORGE_EMULATOR) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#include "attention/deep-unit.h"
#else
#include "attention/deep-tile.h"
#endif

// Shared memory, in bytes; also in src/backends/gpu/memory/deep-attention.ts. The waves' sums pass through the stages.
constexpr int kStageBytes = kWaves * kStages * kTileHalves * 2;
constexpr int kResultBytes = kWaves * kHeads * kPartStride * 4;
constexpr int kPoolBytes = kStageBytes > kResultBytes ? kStageBytes : kResultBytes;
constexpr int kQueryBytes = 2 * kHeads * kKeyStride * 2;
constexpr int kSharedBytes = kPoolBytes + kQueryBytes;

/** Heads that the block makes ready, one by each wave at a time: queries, then the token's own key and its value. */
constexpr int kKeyItem = kBlockHeads;
constexpr int kRounds = (kBlockHeads + 2 + kWaves - 1) / kWaves;

struct DeepDecodeArguments {
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
  /** [token][head][part][VALUE_WIDTH], and [token][head][part][2]: highest score, sum of weights. */
  float* partial_values;
  float* partial_weights;
  float* out;
  i8* quantized;
  float* scales;
  float* sums;
  u16* halves;
  float* row_scales;
  int out_stride;
  int half_stride;
  int query_stride;
  int key_stride;
  int value_stride;
  int heads;
  int kv_heads;
  u64 layer_bytes;
  int layer_padding;
  /** Parts that the partial results have room for. */
  int splits;
  /** Parts that a token's positions are divided into, at most. */
  int most_parts;
  float scale;
  float ratio;
  float magnitude;
  float epsilon;
  float value_epsilon;
  /** One logit for each query head, if SINKS is 1. */
  const float* sinks;
};

/** Shared memory beside stages and queries. */
struct DeepMemory {
  /** The token's own rows, as the cache has them. */
  Words4 key[KEY_WIDTH / 8];
  Words4 value[VALUE_WIDTH / 8];
  float cosines[kPairs + 1];
  float sines[kPairs + 1];
  float backs[kHeads];
  float highest[kWaves][kHeads];
  float totals[kWaves][kHeads];
  int invalid;
};

/** The power of two that brings a head's largest column near 2^13, and the one that takes it back. */
DEVICE float scale_of_query(float largest, float& back) {
  // Of an infinite one too, which stays what it is; nothing is brought up by more than 2^126.
  const int field = min(267 - int((bits_of(largest) >> 23) & 255u), 253);
  back = float_of(u32(254 - field) << 23);
  return float_of(u32(field) << 23);
}

/** Lines that no head fills are zeros. */
DEVICE void clear_queries(u16* queries, DeepMemory& memory) {
  if (GROUP % kHeads == 0) return;
  for (int index = thread_index(); index < kQueryBytes / 16; index += kThreads)
    reinterpret_cast<Words4*>(queries)[index] = {0, 0, 0, 0};
  if (thread_index() < kHeads) memory.backs[thread_index()] = 0.0f;
}

/** Prepared queries, in two parts, a head by each wave at a time. */
DEVICE void stage_queries(const HeadItems* heads, int count, float factor, u16* queries, DeepMemory& memory) {
  float largest[kRounds];
#pragma unroll
  for (int round = 0; round < kRounds; round++) {
    largest[round] = 0.0f;
    give_head(heads[round],
              [&](int, float number) { largest[round] = max(largest[round], magnitude(number * factor)); });
    largest[round] = wave_max(largest[round]);
  }
#pragma unroll
  for (int round = 0; round < kRounds; round++) {
    const int head = round * kWaves + wave_index();
    if (head >= count) continue;
    float back = 0.0f;
    const float scale = scale_of_query(largest[round], back);
    if (lane_index() == 0) memory.backs[head] = back;
    u16* const line = queries + head * kKeyStride;
    give_head(heads[round], [&](int column, float number) {
      const float scaled = number * factor * scale;
      const u16 half = float_to_half(scaled);
      line[column] = half;
      line[kHeads * kKeyStride + column] = float_to_half(scaled - half_to_float(half));
    });
  }
}

/** Weights of the norms: read before anything of this step is there. */
struct DeepNorms {
  HeadItems query;
  HeadItems key;
};

DEVICE HeadItems norm_of_item(const DeepNorms& norms, int item) {
  HeadItems weights;
#pragma unroll
  for (int index = 0; index < kLaneItems; index++) {
    weights.at[index].left = item < kBlockHeads ? norms.query.at[index].left : norms.key.at[index].left;
    weights.at[index].right = item < kBlockHeads ? norms.query.at[index].right : norms.key.at[index].right;
  }
  return weights;
}

/** Which heads of which token a block computes, and which of its positions. */
struct DeepShare {
  int token;
  int position;
  int kv_head;
  int first_head;
  int heads;
  /** Whether the token's own position is among them. */
  bool owns;
};

/** Queries, normed, rotated and times the scale and log2 e, and the token's own rows, to shared memory. */
DEVICE void stage_token(const DeepDecodeArguments& a, const DeepShare& share, const DeepNorms& norms, u16* queries,
                        DeepMemory& memory) {
  const float* const query = a.query + u64(share.token) * u64(a.query_stride) + share.first_head * KEY_WIDTH;
  const float* const key = a.key + u64(share.token) * u64(a.key_stride) + share.kv_head * KEY_WIDTH;
  const float* const value = a.value + u64(share.token) * u64(a.value_stride) + share.kv_head * VALUE_WIDTH;
  // What is read is under way together.
  HeadItems heads[kRounds] = {};
  HeadValues values = {};
#pragma unroll
  for (int round = 0; round < kRounds; round++) {
    const int item = round * kWaves + wave_index();
    if (item < share.heads) heads[round] = read_head(query + item * KEY_WIDTH);
    if (share.owns && item == kKeyItem) heads[round] = read_head(key);
    if (share.owns && item == kKeyItem + 1) values = read_values(value);
  }
  // Whether a head is there or not: rounds that wait for nothing but themselves are computed side by side.
#pragma unroll
  for (int round = 0; round < kRounds; round++) {
    const HeadItems weights = norm_of_item(norms, round * kWaves + wave_index());
    prepare_head(heads[round], weights, a.epsilon, memory.cosines, memory.sines);
  }
  const float factor = score_factor(a.scale, share.position);
  stage_queries(heads, share.heads, factor, queries, memory);
#pragma unroll
  for (int round = 0; round < kRounds; round++) {
    const int item = round * kWaves + wave_index();
    if (share.owns && item == kKeyItem) {
      u16* const to = reinterpret_cast<u16*>(memory.key);
      give_head(heads[round], [&](int column, float number) { to[column] = float_to_half(number); });
    }
    if (share.owns && item == kKeyItem + 1) {
      norm_values(values, a.value_epsilon);
      u16* const to = reinterpret_cast<u16*>(memory.value);
      give_head_values(values, [&](int column, float number) {
        const u16 half = float_to_half(number);
        const bool bad = (half & 0x7c00) == 0x7c00;
        if (bad) memory.invalid = 1;
        to[column] = bad ? u16(0) : half;
      });
    }
  }
}

/** The key of a position whose value was not finite is not a number: attention/kv-cache.h. */
DEVICE Words4 own_key(const DeepMemory& memory, int chunk) {
  const u32 word = kHalfNan * 0x10001u;
  return memory.invalid != 0 ? Words4{word, word, word, word} : memory.key[chunk];
}

/** The token's own rows to the cache. */
DEVICE void store_own(const DeepSource& source, int position, const DeepMemory& memory) {
  const u64 row =
      cache_row(source.table[position / BLOCK_TOKENS], position % BLOCK_TOKENS, source.kv_head, source.kv_heads);
  for (int chunk = thread_index(); chunk < KeyRow::kChunks; chunk += kThreads)
    *reinterpret_cast<Words4*>(source.layer.keys.rows + row * KeyRow::kBytes + chunk * 16) = own_key(memory, chunk);
  for (int chunk = thread_index(); chunk < ValueRow::kChunks; chunk += kThreads)
    *reinterpret_cast<Words4*>(source.layer.values.rows + row * ValueRow::kBytes + chunk * 16) = memory.value[chunk];
}

/** The token's own rows to their place in a tile, by one wave. */
DEVICE void put_own(u16* tile, int place, const DeepMemory& memory) {
  for (int chunk = lane_index(); chunk < KeyRow::kChunks; chunk += WAVE)
    *reinterpret_cast<Words4*>(tile + place * kKeyStride + chunk * 8) = own_key(memory, chunk);
  for (int chunk = lane_index(); chunk < ValueRow::kChunks; chunk += WAVE)
    *reinterpret_cast<Words4*>(tile + kTile * kKeyStride + place * kValueStride + chunk * 8) = memory.value[chunk];
  wave_barrier();
}

#include "attention/deep-results.h"

KERNEL(attention_deep_decode, DeepDecodeArguments, kThreads) {
  DYNAMIC_SHARED(shared);
  SHARED DeepMemory memory;
  u16* const stages = reinterpret_cast<u16*>(shared);
  u16* const queries = reinterpret_cast<u16*>(shared + kPoolBytes);
  dependency_release();
  const int token = block_z();
  // All at once: what lies past the step's tokens is old, but it is there.
  const int tokens = a.step->tokens, position = a.positions[token], start = a.table_starts[token];
  const CacheLayer layer = cache_layer(a, a.kv_heads);
  const DeepParts parts = deep_parts(position, WHOLE ? 1 : a.most_parts);
  if (token >= tokens || block_y() >= parts.count) return;
  const int kv_head = block_x() / kHeadBlocks, head_in_group = block_x() % kHeadBlocks * kHeads;
  const int first = parts.begin + block_y() * parts.length;
  const int last = min(first + parts.length - 1, position);
  const DeepSource source = {layer, a.tables + start, kv_head, a.kv_heads, first_visible(position), last, position};
  const DeepShare share = {
      token, position, kv_head, kv_head * GROUP + head_in_group, min(kHeads, GROUP - head_in_group), last == position};
  DeepWalk walk;
  walk.first = first + wave_index() * kTile;
  walk.stages = stages + wave_index() * kStages * kTileHalves;
  begin_walk(source, walk);
  compute_rotations<kThreads>(a, position, memory.cosines, memory.sines);
  clear_queries(queries, memory);
  if (thread_index() == 0) memory.invalid = 0;
  const DeepNorms norms = {read_norm_weights<QUERY_NORM_TYPE>(a.query_norm),
                           read_norm_weights<KEY_NORM_TYPE>(a.key_norm)};
  barrier();
  dependency_wait();

  stage_token(a, share, norms, queries, memory);
  barrier();
  if (share.owns && head_in_group == 0) store_own(source, position, memory);
  DeepSums sums;
  begin_sums(queries, memory.backs, sums);
  walk_tiles(source, walk, [&](u16* tile, int tile_first) {
    if (share.owns && position - tile_first < kTile) put_own(tile, position - tile_first, memory);
    add_tile(tile, tile + kTile * kKeyStride, tile_first, sums,
             [&](int other) { return other <= last && (!kLimited || other >= source.begin); });
  });
  barrier();
  float* const results = reinterpret_cast<float*>(shared);
  put_sums(sums, results + wave_index() * kHeads * kPartStride, memory.highest[wave_index()],
           memory.totals[wave_index()]);
  barrier();
  if (WHOLE) {
    give_result(a, share, results, memory);
  } else {
    give_part(a, share, results, memory);
  }
}
