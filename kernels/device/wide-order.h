// The order in which matmul/wide-gemm.hip reads its input: tiles of tokens, of each its slabs of 128 columns, of a slab two
// panels of 64 places, 128 bytes a token, whose eight chunks are exchanged by token (the 128-byte swizzle). Lanes of the
// products hold whole weight blocks, so places go through a slab's four blocks two columns at a time: chunk q of a
// slab has columns 2 q and 2 q + 1 of each.
#pragma once
#include "device/portable.h"

constexpr int kOrderColumns = 128;

/** Halves from the beginning of a tile of `tokens` tokens to a pair of columns, an even one and the next, of one of them. */
DEVICE int wide_order(int tokens, int token, int column) {
  const int slab = column / kOrderColumns, block = column % kOrderColumns / 32, chunk = column % 32 / 2;
  return ((slab * 2 + chunk / 8) * tokens + token) * 64 + (chunk % 8 ^ token % 8) * 8 + block * 2;
}
