// The inner part of matmul/gemm.hip: a slab of the input through shared memory, the weights through registers, and
// their matmul on the matrix units. Knows GemmArguments and the block's shape (kRows, kTokens …).
#pragma once
#include "matmul/tile-chunks.h"
#include "matmul/tile-place.h"

/** Lines of the left operand are rows of weights: where a lane's sums lie in a tile. */
DEVICE int sum_row(int element) { return tile_row(element); }
DEVICE int sum_token(int element) { return tile_column(element); }

/** Calls `use(i, source, wanted)` for each of the thread's chunks of a slab. */
template <typename Source, typename Use>
DEVICE void each_chunk(const GemmArguments& a, const Place& place, int slab, Use use) {
  const Carrier own = carrier();
  const int weight_block = slab * kSlabBlocks + own.weight_block;
  const int column = Source::column(weight_block, own.quarter / 2) + own.quarter % 2 * 8;
  const int tokens = weight_block * 32 < a.width ? place.tokens - place.first_token - own.token : 0;
  const u16* source = a.halves;
  if (tokens > 0) source += u64(place.first_token + own.token) * u64(a.halves_stride) + u64(column);
#pragma unroll
  for (int i = 0; i < kThreadChunks; i++) {
    const bool wanted = i * kTokenStep < tokens;
    use(i, source + (wanted ? i * kTokenStep * a.halves_stride : 0), wanted);
  }
}

template <typename Source>
DEVICE void copy_slab(const GemmArguments& a, const Place& place, int slab, u8* stage) {
  const Carrier own = carrier();
  each_chunk<Source>(a, place, slab, [&](int i, const u16* source, bool wanted) {
    if (carries(own, i)) copy_or_clear(stage + carried_place(own, i), source, wanted);
  });
}

template <typename Source>
DEVICE void hold_slab(const GemmArguments& a, const Place& place, int slab, Words4 (&held)[kThreadChunks]) {
  each_chunk<Source>(a, place, slab, [&](int i, const u16* source, bool wanted) {
    held[i] = wanted ? load_shared(source) : Words4{0, 0, 0, 0};
  });
}

/** `refill` brings the weights of the next slab, as soon as those of this one are not needed any more. */
template <typename Source, typename Refill>
DEVICE void multiply_slab(Tile (&sums)[kHalves][kTiles], const typename Source::Raw (&raw)[kHalves][kLines],
                          int weight_block, const Place& place, const u8* stage, Refill refill) {
#pragma unroll
  for (int group = 0; group < 2; group++) {
    u32 left[kHalves][kLines][8];
#pragma unroll
    for (int half = 0; half < kHalves; half++) {
#pragma unroll
      for (int line = 0; line < kLines; line++) Source::halves(raw[half][line], weight_block, group, left[half][line]);
    }
    if (group == 1) refill();
#pragma unroll
    for (int tile = 0; tile < kTiles; tile++) {
      u32 right[kLines][8];
#pragma unroll
      for (int line = 0; line < kLines; line++) {
        const int token = (place.token_wave * kTiles + tile) * 16 + fragment_line(line);
#pragma unroll
        for (int i = 0; i < 2; i++) {
          const int chunk = chunk_place(place.depth_wave, group * 2 + i, token, fragment_share());
          const Words4 words = *reinterpret_cast<const Words4*>(stage + chunk);
          right[line][4 * i] = words.x;
          right[line][4 * i + 1] = words.y;
          right[line][4 * i + 2] = words.z;
          right[line][4 * i + 3] = words.w;
        }
      }
#pragma unroll
      for (int step = 0; step < kLongSteps; step++) {
        const LongFragment columns = pack_long_fragment(right, step);
#pragma unroll
        for (int half = 0; half < kHalves; half++)
          multiply_add(sums[half][tile], pack_long_fragment(left[half], step), columns);
      }
    }
  }
}
