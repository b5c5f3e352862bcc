// The inner part of matmul/grouped-gemm.hip: a slab of the gathered input through shared memory, and its products on the
// matrix units. Knows GroupedGemmArguments and the block's shape.
#pragma once

/** How full a tile is: wholly; in part, so that what no slot needs is left out; or half of its 16 slots at most. */
enum class Fill { whole, part, half };

/** The columns of a slab that a thread brings, of input row 0. */
struct SlabColumns {
  const u8* chunk;
  /** Otherwise they lie beyond the width, and are zero. */
  bool inside;
};

template <typename Source>
DEVICE SlabColumns slab_columns(const GroupedGemmArguments& a, const u16* halves, const Carrier& own, int slab) {
  const int weight_block = slab * kSlabBlocks + own.weight_block;
  const bool inside = weight_block * 32 < a.width;
  const int column = Source::column(weight_block, own.quarter / 2) + own.quarter % 2 * 8;
  return {reinterpret_cast<const u8*>(halves + (inside ? column : 0)), inside};
}

/** Chunks whose places in the input a thread loads at once. */
constexpr int kChunkRun = kThreadChunks % 4 == 0 ? 4 : 1;

/** Of one part, and only of as many slots as products read. */
template <typename Source, Fill Filled>
DEVICE void copy_slab(const GroupedGemmArguments& a, const GroupTile& tile, const u16* halves, int slab, int part,
                      u8* stage) {
  const Carrier own = carrier();
  const SlabColumns columns = slab_columns<Source>(a, halves, own, slab);
  const SharedPlace target = shared_place(stage);
  const int count = tile.count - part * kTokens, read = Filled == Fill::half ? 8 : (count + 15) & ~15;
  // More at a time would need registers that the sums have.
#pragma unroll 1
  for (int first = 0; first < kThreadChunks; first += kChunkRun) {
    if (Filled != Fill::whole && own.token + first * kTokenStep >= read) break;
    u32 inputs[kChunkRun];
    if (kChunkRun == 4) {
      const Words4 four = *reinterpret_cast<const Words4*>(slot_inputs[part].chunks[own.token] + first);
      inputs[0] = four.x;
      inputs[kChunkRun - 3] = four.y;
      inputs[kChunkRun - 2] = four.z;
      inputs[kChunkRun - 1] = four.w;
    } else {
      inputs[0] = slot_inputs[part].chunks[own.token][first];
    }
#pragma unroll
    for (int i = 0; i < kChunkRun; i++) {
      const int place = own.token + (first + i) * kTokenStep;
      const bool wanted = columns.inside && (Filled == Fill::whole || place < count);
      if (carries(own, first + i))
        copy_to_place(target + carried_place(own, first + i), columns.chunk + u64(inputs[i]) * 16, wanted);
    }
  }
}

template <typename Source>
DEVICE void hold_slab(const GroupedGemmArguments& a, const GroupTile& tile, const u16* halves, int slab, int part,
                      Words4 (&held)[kThreadChunks]) {
  const Carrier own = carrier();
  const SlabColumns columns = slab_columns<Source>(a, halves, own, slab);
  const int wanted = columns.inside ? tile.count - part * kTokens : 0;
#pragma unroll
  for (int i = 0; i < kThreadChunks; i++) {
    held[i] = own.token + i * kTokenStep < wanted
                  ? load_shared(columns.chunk + u64(slot_inputs[part].chunks[own.token][i]) * 16)
                  : Words4{0, 0, 0, 0};
  }
}

/** `refill` brings weights of a later slab: at once, or as soon as those of this one are not needed any more. */
template <typename Source, Fill Filled, int Parts, bool RefilledAtOnce, typename Refill>
DEVICE void multiply_slab(Tile (&sums)[Parts][kHalves][kTiles], const typename Source::Raw (&raw)[kHalves][kLines],
                          int slab, int weight_blocks, const GroupTile& tile, const u8* stage, Refill refill) {
  const int weight_block = min(slab * kSlabBlocks + fragment_share(), weight_blocks - 1);
  if (RefilledAtOnce) refill();
#pragma unroll
  for (int group = 0; group < 2; group++) {
    u32 left[kHalves][kLines][8];
#pragma unroll
    for (int half = 0; half < kHalves; half++) {
#pragma unroll
      for (int line = 0; line < kLines; line++) Source::halves(raw[half][line], weight_block, group, left[half][line]);
    }
    if (!RefilledAtOnce && group == 1) refill();
#pragma unroll
    for (int index = 0; index < Parts * kTiles; index++) {
      const int part = index / kTiles, i = index % kTiles;
      if (Filled != Fill::whole && part * kTokens + i * 16 >= tile.count) break;
      u32 right[kLines][8];
#pragma unroll
      for (int line = 0; line < kLines; line++) {
        if (Filled == Fill::half && line >= kHalfLines) continue;
#pragma unroll
        for (int quarter = 0; quarter < 2; quarter++) {
          const int chunk = chunk_place(0, group * 2 + quarter, i * 16 + fragment_line(line), fragment_share());
          const Words4 words = *reinterpret_cast<const Words4*>(stage + part * kSlabBytes + chunk);
          right[line][4 * quarter] = words.x;
          right[line][4 * quarter + 1] = words.y;
          right[line][4 * quarter + 2] = words.z;
          right[line][4 * quarter + 3] = words.w;
        }
      }
#pragma unroll
      for (int step = 0; step < kLongSteps; step++) {
        const LongFragment columns = pack_long_fragment(right, step);
#pragma unroll
        for (int half = 0; half < kHalves; half++) {
          if (Filled == Fill::half) {
            multiply_add_half(sums[part][half][i], pack_long_fragment(left[half], step), columns);
          } else {
            multiply_add(sums[part][half][i], pack_long_fragment(left[half], step), columns);
          }
        }
      }
    }
  }
}
