// Which part of the work of matmul/gemm.hip or matmul/int8-gemm.hip a block and its waves have: a matrix, rows of it, tokens,
// and slabs of the width. Knows GemmArguments, MATMULS, GATED, the types and the block's shape (kRows, kTokens …).
#pragma once

/** The matrix and the rows of it that this block works on. */
struct Target {
  const u8* weights;
  const u8* bias;
  const float* factor;
  float* out;
  int rows;
  int stride;
  int first_row;
};

struct Place {
  int row_wave, token_wave, depth_wave;
  int first_token;
  int tokens;
};

/** First row of the wave's tile number `half`. */
DEVICE int tile_first_row(const Target& target, const Place& place, int half) {
  return target.first_row + 16 * (GATED ? place.row_wave % kGateWaves : place.row_wave * kHalves + half);
}

/** Whether that tile is of up, and not of gate. */
DEVICE bool is_up(const Place& place, int half) {
  return GATED && (kHalves == 2 ? half == 1 : place.row_wave >= kGateWaves);
}

/** Slabs that a block multiplies: all of its share of the width, each once, beginning with `start`. */
struct SlabShare {
  int first, end, start;
};

/**
 * Blocks begin with different slabs: those that read the same part of the input at the same time would wait for one another
 * at the device's cache.
 */
DEVICE SlabShare slab_share(int slabs, int splits) {
  const int first = slabs * block_z() / splits, end = slabs * (block_z() + 1) / splits;
  return {first, end, first + block_x() % (end - first)};
}

DEVICE int slab_after(const SlabShare& share, int slab) { return slab + 1 == share.end ? share.first : slab + 1; }

/** A block's matrix, its type (none if there is nothing left to do), and the number of its sums among those of all blocks. */
struct Work {
  Target target;
  int type;
  int block;
};

DEVICE int blocks_of(int rows) { return (rows + kBlockRows - 1) / kBlockRows; }

DEVICE Work find_work(const GemmArguments& a) {
  const int blocks0 = blocks_of(a.rows0);
  const int blocks1 = MATMULS > 1 && !GATED ? blocks_of(a.rows1) : 0, blocks2 = MATMULS > 2 ? blocks_of(a.rows2) : 0;
  const int x = block_x();
  Work work = {{a.weights0, a.bias0, a.factor0, a.out0, a.rows0, a.stride0, x * kBlockRows},
               TYPE0,
               block_y() * (blocks0 + blocks1 + blocks2) + x};
  if (MATMULS > 1 && x >= blocks0) {
    work.type = TYPE1;
    work.target = {a.weights1, a.bias1, a.factor1, a.out1, a.rows1, a.stride1, (x - blocks0) * kBlockRows};
  }
  if (MATMULS > 2 && x >= blocks0 + blocks1) {
    work.type = TYPE2;
    work.target = {a.weights2, a.bias2, a.factor2, a.out2, a.rows2, a.stride2, (x - blocks0 - blocks1) * kBlockRows};
  }
  if (x >= blocks0 + blocks1 + blocks2) work.type = -1;
  return work;
}
