// The inner part of matmul/int8-gemm.hip: a slab of the quantized input through shared memory, the weights through registers,
// and their matmul on the matrix units, block by block of 32 columns. Knows GemmArguments and the block's shape.
//
// Tokens are the left operand and rows of weights the right one, so that a lane's sums are of one row, whose scales it has
// itself; scales of tokens come from shared memory. There a stage has, for each wave of the depth, cells of 16 bytes with a
// token's share of one or two blocks (device/matrix-bytes.h), then a plane of scales and one of sums: [block][token].
#pragma once
#include "matmul/tile-place.h"
#include "weights/byte-blocks.h"

DEVICE int sum_row(int element) { return tile_column(element); }
DEVICE int sum_token(int element) { return tile_row(element); }

/** Blocks whose shares lie in one cell: 16 bytes have those of two groups each. */
constexpr int kCellBlocks = 8 / kPartBytes;
constexpr int kScalesPlace = kTokens * kSlabBlocks * 32;
constexpr int kSumsPlace = kScalesPlace + kTokens * kSlabBlocks * 4;
constexpr int kSlabBytes = kSumsPlace + kTokens * kSlabBlocks * 4;
/** A thread brings 16 columns of a block of tokens `token`, `token` + kTokenStep …; its neighbour has the others. */
constexpr int kTokenStep = kThreads / (2 * kSlabBlocks);
constexpr int kThreadChunks = (kTokens + kTokenStep - 1) / kTokenStep;
static_assert(kThreads % (2 * kSlabBlocks) == 0, "a thread brings the same columns of all its tokens");

/** Where a token's share of a slab's block begins. */
DEVICE int cell_place(int weight_block, int token, int share) {
  const int cell = (token / 16 * (kSlabBlocks / kCellBlocks) + weight_block / kCellBlocks) * kShares + share;
  return (cell * 16 + token % 16) * 16 + weight_block % kCellBlocks * 2 * kPartBytes;
}

struct Carrier {
  int weight_block, group, token;
};

DEVICE Carrier carrier() {
  return {thread_index() / 2 % kSlabBlocks, thread_index() % 2, thread_index() / (2 * kSlabBlocks)};
}

/** Whole structs in an array would go through memory. */
struct HeldSlab {
  u32 words[kThreadChunks][4];
  float scales[kThreadChunks];
  float sums[kThreadChunks];
  /** From the thread's first token on, those that there are: of others the scales and sums are anything. */
  int tokens;
};

/** Loads only: nothing waits for them here. */
DEVICE void hold_slab(const GemmArguments& a, const Place& place, int slab, bool with_sums, HeldSlab& held) {
  const Carrier own = carrier();
  const u32 blocks = u32(a.width) / 32;
  const int weight_block = slab * kSlabBlocks + own.weight_block;
  const int tokens = u32(weight_block) < blocks ? place.tokens - place.first_token - own.token : 0;
#pragma unroll
  for (int i = 0; i < kThreadChunks; i++) {
    const bool wanted = i * kTokenStep < tokens;
    const u32 token = u32(place.first_token + own.token + i * kTokenStep);
    const u32 block = wanted ? token * blocks + u32(weight_block) : 0, chunk = block * 2 + u32(own.group);
    const Words4 words = load_shared(a.values + chunk * 16);
    held.words[i][0] = words.x;
    held.words[i][1] = words.y;
    held.words[i][2] = words.z;
    held.words[i][3] = words.w;
    held.scales[i] = a.scales[block];
    held.sums[i] = with_sums ? a.sums[chunk] : 0.0f;
  }
  held.tokens = tokens;
}

/**
 * The first of two neighbours stores the scale of their block, the second its sum: zero past the width and the last token,
 * whatever the values.
 */
DEVICE void store_slab(const HeldSlab& held, bool with_sums, u8* stage) {
  const Carrier own = carrier();
#pragma unroll
  for (int i = 0; i < kThreadChunks; i++) {
    const float sum = with_sums ? held.sums[i] + wave_xor(held.sums[i], 1) : 0.0f;
    const int token = own.token + i * kTokenStep;
    if (kTokens % kTokenStep != 0 && token >= kTokens) continue;
#pragma unroll
    for (int word = 0; word < 4; word++) {
      const int share = word / kPartWords, at = own.group * kPartBytes + word % kPartWords * 4;
      *reinterpret_cast<u32*>(stage + cell_place(own.weight_block, token, share) + at) = held.words[i][word];
    }
    float* const plane = reinterpret_cast<float*>(stage + (own.group == 0 ? kScalesPlace : kSumsPlace));
    const float factor = own.group == 0 ? held.scales[i] : sum;
    plane[own.weight_block * kTokens + token] = i * kTokenStep < held.tokens ? factor : 0.0f;
  }
}

/** A lane's part of the weights that its wave multiplies at a time, ready for the units. */
template <typename Source>
struct ByteRows {
  ByteFragment fragments[kHalves][kByteBlocks];
  SumScale scales[kHalves][kByteBlocks][2];
  float minimums[kHalves][kByteBlocks];
};

/** `exchange`: see parts_of(). */
template <typename Source>
DEVICE void decode_rows(const typename Source::Raw (&raw)[kHalves], u8* exchange, ByteRows<Source>& rows) {
#pragma unroll
  for (int half = 0; half < kHalves; half++) {
    BlockParts parts[Source::planes];
#pragma unroll
    for (int plane = 0; plane < Source::planes; plane++) parts[plane] = parts_of(raw[half].loads[plane], exchange);
#pragma unroll
    for (int i = 0; i < kByteBlocks; i++) {
      rows.fragments[half][i] = Source::fragment(raw[half], parts, i);
      rows.scales[half][i][0] = sum_scale(Source::scale(raw[half], i, 0));
      if (!Source::groups_alike) rows.scales[half][i][1] = sum_scale(Source::scale(raw[half], i, 1));
#if MATRIX_LAYOUT != 9
      rows.minimums[half][i] = Source::has_minimum ? -Source::minimum(raw[half], i) : 0.0f;
#endif
    }
#if MATRIX_LAYOUT == 9
    // A lane has the minimum of the block whose number is its share's.
    rows.minimums[half][0] = Source::has_minimum ? -Source::minimum(raw[half], fragment_share()) : 0.0f;
#endif
  }
}

/** A lane's tokens of a plane: neighbours. */
DEVICE Tile plane_tokens(const u8* plane, int weight_block, int first_token) {
  Tile tile;
  const u8* const place = plane + (weight_block * kTokens + first_token + kTileElements * (lane_index() / 16)) * 4;
#pragma unroll
  for (int i = 0; i < kTileElements; i += 4) {
    const Words4 words = *reinterpret_cast<const Words4*>(place + i * 4);
    tile.values[i] = float_of(words.x);
    tile.values[i + 1] = float_of(words.y);
    tile.values[i + 2] = float_of(words.z);
    tile.values[i + 3] = float_of(words.w);
  }
  return tile;
}

DEVICE void read_cell(const u8* place, ByteFragment (&tokens)[kCellBlocks]) {
  const Words4 cell = *reinterpret_cast<const Words4*>(place);
  const u32 words[4] = {cell.x, cell.y, cell.z, cell.w};
#pragma unroll
  for (int i = 0; i < 4; i++) tokens[i / (2 * kPartWords)].words[i / kPartWords % 2][i % kPartWords] = words[i];
}

/** Products of one block of one tile, by both scales. */
template <typename Source>
DEVICE void add_block(Tile& sums, const ByteFragment& tokens, const Tile& token_scales, const ByteRows<Source>& rows,
                      int half, int i) {
  const ByteFragment& weights = rows.fragments[half][i];
  if (Source::groups_alike) {
    multiply_add_scaled(sums, multiply_bytes<3>(tokens, weights), token_scales, rows.scales[half][i][0]);
  } else {
    multiply_add_scaled(sums, multiply_bytes<1>(tokens, weights), token_scales, rows.scales[half][i][0]);
    multiply_add_scaled(sums, multiply_bytes<2>(tokens, weights), token_scales, rows.scales[half][i][1]);
  }
}

/** Takes minimum × sum of the token's block off: all blocks at once, where the units multiply floats. */
template <typename Source>
DEVICE void add_minimums(Tile (&sums)[kHalves][kTiles], int tile, const ByteRows<Source>& rows, const u8* stage,
                         int first_block, int first_token) {
#if MATRIX_LAYOUT == 9
  const float* const plane = reinterpret_cast<const float*>(stage + kSumsPlace);
  const float sum = plane[(first_block + fragment_share()) * kTokens + first_token + fragment_line(0)];
#pragma unroll
  for (int half = 0; half < kHalves; half++) multiply_add_floats(sums[half][tile], sum, rows.minimums[half][0]);
#else
#pragma unroll
  for (int i = 0; i < kByteBlocks; i++) {
    const Tile token_sums = plane_tokens(stage + kSumsPlace, first_block + i, first_token);
#pragma unroll
    for (int half = 0; half < kHalves; half++) {
#pragma unroll
      for (int e = 0; e < kTileElements; e++)
        sums[half][tile].values[e] = fma(token_sums.values[e], rows.minimums[half][i], sums[half][tile].values[e]);
    }
  }
#endif
}

/** `refill` brings the weights of the next slab, as soon as those of this one are not needed any more. */
template <typename Source, typename Refill>
DEVICE void multiply_slab(Tile (&sums)[kHalves][kTiles], const typename Source::Raw (&raw)[kHalves], const Place& place,
                          const u8* stage, u8* exchange, Refill refill) {
  ByteRows<Source> rows;
  decode_rows<Source>(raw, exchange, rows);
  refill();
  const int first_block = place.depth_wave * kByteBlocks;
#pragma unroll
  for (int tile = 0; tile < kTiles; tile++) {
    // A tile's operands are read when it is its turn: those of all would not find registers.
    if (tile > 0) keep_load_order();
    const int first_token = (place.token_wave * kTiles + tile) * 16;
    if (Source::has_minimum) add_minimums(sums, tile, rows, stage, first_block, first_token);
#pragma unroll
    for (int cell = 0; cell < kByteBlocks; cell += kCellBlocks) {
      ByteFragment tokens[kCellBlocks];
      read_cell(stage + cell_place(first_block + cell, first_token + fragment_line(0), fragment_share()), tokens);
#pragma unroll
      for (int i = 0; i < kCellBlocks; i++) {
        const Tile token_scales = plane_tokens(stage + kScalesPlace, first_block + cell + i, first_token);
#pragma unroll
        for (int half = 0; half < kHalves; half++)
          add_block(sums[half][tile], tokens[i], token_scales, rows, half, cell + i);
      }
    }
  }
}
