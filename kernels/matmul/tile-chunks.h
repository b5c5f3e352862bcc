// How the matmuls on the matrix units (matmul/gemm.hip, matmul/grouped-gemm.hip) hold a slab of their input in shared
// memory, in chunks of 16 bytes, and their weights in registers. Knows the block's shape (kTokens, kHalves …).
#pragma once

/**
 * Where the stage has the 16 bytes `quarter` of a weight block's input: neighbours of a wave's read lie side by side,
 * and what eight neighbouring threads write is spread over all banks.
 */
DEVICE int chunk_place(int depth, int quarter, int token, int share) {
#if MATRIX_LAYOUT == 80
  const int slot = (token ^ (quarter & 1)) * kShares + (share ^ (quarter & 2));
#else
  const int slot = (token / 16 * kShares + share) * 16 + token % 16;
#endif
  return ((depth * 4 + quarter) * kTokens * kShares + slot) * 16;
}

/**
 * The 16-byte chunks that a thread brings into a stage: the same columns of tokens `token`, `token` + kTokenStep …
 * Neighbouring threads bring neighbouring columns.
 */
struct Carrier {
  int weight_block, quarter, token;
};

constexpr int kTokenStep = kThreads / (4 * kSlabBlocks);
static_assert(kThreads % (4 * kSlabBlocks) == 0, "a thread brings the same columns of all its tokens");

/** Whether the thread has a chunk number i. */
DEVICE bool carries(const Carrier& own, int i) {
  return kTokens % kTokenStep == 0 || own.token + i * kTokenStep < kTokens;
}

DEVICE Carrier carrier() {
  return {thread_index() / 4 % kSlabBlocks, thread_index() % 4, thread_index() / (4 * kSlabBlocks)};
}

/** Of the thread's chunk number i. */
DEVICE int carried_place(const Carrier& own, int i) {
  const int depth = own.weight_block / kShares, share = own.weight_block % kShares;
#if MATRIX_LAYOUT == 80
  return chunk_place(depth, own.quarter, own.token, share) + i * (kTokenStep * kShares * 16);
#else
  return chunk_place(depth, own.quarter, own.token + i * kTokenStep, share);
#endif
}

DEVICE void store_slab(const Words4 (&held)[kThreadChunks], u8* stage) {
  const Carrier own = carrier();
#pragma unroll
  for (int i = 0; i < kThreadChunks; i++) {
    if (carries(own, i)) *reinterpret_cast<Words4*>(stage + carried_place(own, i)) = held[i];
  }
}

template <typename Source>
DEVICE void fetch_weights(const u8* const (&rows)[kHalves][kLines], int weight_blocks, int weight_block,
                          typename Source::Raw (&raw)[kHalves][kLines]) {
#pragma unroll
  for (int half = 0; half < kHalves; half++) {
#pragma unroll
    for (int line = 0; line < kLines; line++)
      raw[half][line] = Source::fetch(rows[half][line], weight_blocks, min(weight_block, weight_blocks - 1));
  }
}
