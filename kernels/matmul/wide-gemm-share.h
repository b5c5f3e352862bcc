// How the slabs of all tiles of matmul/wide-gemm.hip are divided among blocks (stream-k): each has the same number of them, so
// that a block's first and last tile may be parts. Knows WideGemmArguments and the shape of a tile.
#pragma once

/** The slabs of all tiles, and which of them this block has. */
struct Share {
  int tokens;
  int token_tiles;
  int tiles;
  int slabs;
  u32 units;
  u32 begin;
  u32 end;
};

/** The part of a tile that this block multiplies. */
struct Segment {
  int tile;
  int first;
  int end;
};

DEVICE int tiles_of(int rows) { return (rows + kTileRows - 1) / kTileRows; }

DEVICE Share block_share(const WideGemmArguments& a) {
  Share share;
  const int row_tiles =
      tiles_of(a.rows0) + (MATMULS > 1 && !GATED ? tiles_of(a.rows1) : 0) + (MATMULS > 2 ? tiles_of(a.rows2) : 0);
  share.tokens = *a.row_count;
  share.token_tiles = (share.tokens + kTokens - 1) / kTokens;
  share.tiles = row_tiles * share.token_tiles;
  share.slabs = (a.width / 32 + kSlabBlocks - 1) / kSlabBlocks;
  share.units = u32(share.tiles) * u32(share.slabs);
  share.begin = u32(u64(share.units) * u64(block_x()) / u64(a.blocks));
  share.end = u32(u64(share.units) * u64(block_x() + 1) / u64(a.blocks));
  return share;
}

/** The segment that begins with a unit of this block. */
DEVICE Segment segment_at(const Share& share, u32 unit) {
  const u32 tile = unit / u32(share.slabs), first = unit - tile * u32(share.slabs);
  const u32 left = share.end - unit;
  return {int(tile), int(first), min(int(first + left), share.slabs)};
}

DEVICE bool is_whole(const Share& share, const Segment& segment) {
  return segment.first == 0 && segment.end == share.slabs;
}
