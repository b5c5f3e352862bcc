// Nibbles of a wave's weight rows on their way through shared memory, for formats whose rows begin with 16 bytes of nibbles
// for each weight block: RING pairs of slabs for each wave, 128 bytes of each of its rows at a time. Registers then hold
// only scales, so that more is under way and more waves find room. Knows GroupedGemmArguments and the block's shape.
#pragma once

/** Chunks of 16 bytes that a row has in a pair of slabs: one for each weight block. */
constexpr int kPairChunks = 2 * kSlabBlocks;
constexpr int kRingRows = kHalves * 16;
constexpr int kPairBytes = kRingRows * kPairChunks * 16;
/** Rows of a pair that the lanes bring at once. */
constexpr int kLaneRows = WAVE / kPairChunks;
static_assert(kPairChunks <= WAVE && kRingRows % kLaneRows == 0, "a lane brings the same chunk of every row");

/** Where a chunk of a row is in its pair: neighbouring rows that lanes read together lie in different banks. */
DEVICE int ring_place(int row, int chunk) {
  return (row * kPairChunks + (chunk ^ ((row & 1) * kSlabBlocks))) * 16;
}

/** What a lane brings of each pair. */
struct RingSource {
  /** The first row of each of the wave's tiles. */
  const u8* rows[kHalves];
  /** Rows of the tiles that there are: past the last, the last. */
  int last[kHalves];
  u64 row_bytes;
  int weight_blocks;
};

DEVICE void bring_pair(const RingSource& source, int pair, u8* stage) {
  const int chunk = lane_index() % kPairChunks, first = lane_index() / kPairChunks;
  const int weight_block = pair * kPairChunks + chunk;
  const bool wanted = weight_block < source.weight_blocks;
  const u64 column = u64(wanted ? weight_block : 0) * 16;
#pragma unroll
  for (int row = 0; row < kRingRows; row += kLaneRows) {
    const int half = row / 16, own = row % 16 + first;
    const u8* const from = source.rows[half] + u64(min(own, source.last[half])) * source.row_bytes + column;
    copy_or_clear(stage + ring_place(row + first, chunk), from, wanted);
  }
}

/** A lane's nibbles of one slab, to where the format has them. */
template <typename Raw>
DEVICE void take_nibbles(const u8* stage, int slab, Raw (&raw)[kHalves][kLines]) {
#pragma unroll
  for (int half = 0; half < kHalves; half++) {
#pragma unroll
    for (int line = 0; line < kLines; line++) {
      const int place = ring_place(half * 16 + fragment_line(line), slab % 2 * kSlabBlocks + fragment_share());
      raw[half][line].nibbles = *reinterpret_cast<const Words4*>(stage + place);
    }
  }
}
