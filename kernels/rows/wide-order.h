// The order of halves in rows for matmul/grouped-wide.hip and matmul/wide-gemm.hip: that in which the lanes of its matrix units hold weights.
// GROUP_CHUNKS: group_chunks of the weights' format (weights/weights.h), 1 or 2.
#pragma once
#include "device/portable.h"

#ifndef GROUP_CHUNKS
#define GROUP_CHUNKS 1
#endif

/**
 * Where the first pair of a quad goes, in words; the second is four words on. A slab of 128 columns has the groups of
 * its four weight blocks, and a group four quads: chunk (group × 4 + quad) × 2 of a slab has that quad of each block.
 */
DEVICE int wide_word(int quad) {
  const int slab = quad / 32, part = quad % 32;
  const int group = GROUP_CHUNKS == 1 ? part / 4 % 2 : part / 8 % 2;
  const int block = GROUP_CHUNKS == 1 ? part / 8 : part / 16 * 2 + part / 4 % 2;
  return slab * 64 + (group * 4 + part % 4) * 8 + block;
}

/**
 * Where a word goes in the input of matmul/wide-gemm.hip, which has the rows of `tokens` tokens together, slab by slab: two
 * panels of a slab, in each 128 bytes of every token, whose eight chunks are exchanged by token (the 128-byte swizzle of
 * device/wide-matmul.h).
 */
DEVICE int panel_word(int tokens, int token, int word) {
  const int chunk = word / 4;
  return (chunk / 8 * tokens + token) * 32 + (chunk % 8 ^ token % 8) * 4 + word % 4;
}

/** The same for a column's half: of each four columns first 0 and 2, then 1 and 3 (HalfSource::crossed). */
DEVICE int panel_half(int tokens, int token, int column) {
  return panel_word(tokens, token, wide_word(column / 4) + (column & 1) * 4) * 2 + (column >> 1 & 1);
}

/** Tokens of a tile in steps of `tokens` tokens: PANEL_TOKENS of src/backends/gpu/lowering/wide-gemm-shape.ts. */
DEVICE int panel_tokens(int tokens) {
  return tokens <= 16 ? 16 : tokens <= 32 ? 32 : tokens <= 64 ? 64 : tokens <= 128 ? 128 : 256;
}

/** Where a column's half goes. */
DEVICE int wide_half(int column) { return (wide_word(column / 4) + (column & 2) * 2) * 2 + (column & 1); }
