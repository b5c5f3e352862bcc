// out[token][slot][row] = (Σ_k input[token][slot][k] × weight[matrix][row][k] × factor[matrix] + bias[matrix][row]) ×
// slot weight for more than a few tokens, on the matrix units: each slot of a token is multiplied by one matrix of a
// stack, which is the expert that the router chose or, without a router, the matrix of the slot's number. Gate and up
// of experts are one launch, and out = activation(gate) × up.
// A block has a tile of up to TOKENS slots of one matrix (matmul/expert-order.hip) and kBlockRows rows of that matrix.
// As in matmul/gemm.hip every lane loads the weight blocks that the units want it to hold straight into registers, and
// the input, gathered row by row, goes through shared memory. A slot's result depends on its own row alone.
//
// What bounds it, for Q4_K on an H200 (20 bytes a cycle and multiprocessor from memory, 128 from shared memory; a
// product of 16 × 8 × 16 about every 6 cycles and quarter of a multiprocessor):
//   few tokens an expert    Bytes. The lanes of three blocks hold 18 bytes of 4 lines each, PREFETCH times: 28 KB in flight
//                           on each multiprocessor and as much being decoded. Decoding
//                           4 lines takes 380 instructions a wave and slab, all else 130: at four instructions a cycle
//                           that is 18 bytes a cycle. So tiles are no larger than they must be, and a wave has 32 rows.
//   many tokens an expert   Products. A wave has 32 rows and all 128 tokens: what it decodes is used for 256 products, so
//                           decoding hides behind them, and no wave decodes what another has decoded. To dequantize all
//                           experts to memory first would write and read 1.2 GB a layer of a 30B mixture, 0.5 ms, as long
//                           as the products themselves, and take as much scratch memory. The input is read from shared
//                           memory at two thirds of its rate: 32 rows a wave are enough. Two blocks of four waves on a
//                           multiprocessor: while one begins or ends, the other multiplies. A slab is 256 products of a
//                           wave and 640 other instructions. On sm_90 matmul/grouped-wide.hip takes its place.
// Defines: TYPE0; TOKENS 16, 32, 64 or 128 a block; USED slots of a token; ROUTED: matrices are experts, and tiles come
// from memory; GATED: gate and up, of one type and size; SPLIT: the input is split rows (rows/slot-rows.hip), for weights
// that are plain floats; BIASED and BIAS_TYPE, SCALED, WEIGHTED: what the epilogue needs; ACTIVATION
// (device/activation.h); SHARED_EXPERT: the shared expert in the same launch, SHARED_PARTS: tiles of
// tokens that its blocks have; SLOT_ROWS: slots have input rows of their
// own; STAGES of input; PREFETCH, slabs of
// weights in registers. Width: a multiple of 32; halves_stride and slot_columns: of 8.
// Grid: x = ⌈rows ÷ kBlockRows⌉; y = tiles that there may be, and those of the shared expert, or without a router
// USED × token_blocks.
// v1 on an H200 a layer of GLM-4.7-Flash (64 experts of 1,536, Q4_K) takes 57.9 and 34.7 µs for 16 tokens: 1.8 and 1.5 TB/s.
// v2 Q4_K decoded in half of the instructions, first weights asked for before the slots are looked up: 101 and 55 µs for 64
//    tokens, 2.3 and 2.1 TB/s, the shared expert included. One slab in registers instead of two: 7 % fewer tokens a second.
// v3 (left out again) nibbles by background copies through rings in shared memory, four slabs ahead, or two with a block
//    more on each multiprocessor: a tenth was expected, 7 to 12 % fewer tokens a second were found.
// v4 tiles of at most 8 slots take half of the products: 6 % more tokens a second with 64 sequences of Qwen3-30B-A3B. Blocks of
//    two or six waves instead of four: 7 % fewer. Blocks of a tile that begin with different slabs: 3 % fewer.
// v5 blocks of the shared expert decode its weights for two tiles of tokens: part of 2 % with 64 sequences of GLM-4.7-Flash.
// v6 with two slabs in registers, one is asked for when the other has arrived: before, the wait for one was a wait for both
//    (matmul/wide-gemm.hip says why). 10 to 15 % expected; not taken apart on a card.
// v7 (not taken) one slab in registers and room for four blocks: 1 to 3 % fewer tokens a second with 64 sequences of
//    GLM-4.7-Flash, no change with Qwen3.5-35B-A3B.
#ifndef PREFETCH
#define PREFETCH 1
#endif
#ifndef STAGES
#define STAGES 1
#endif
#define MATRIX_WAVES 4
// Loads of weights stay where they are asked for.
#define ORDERED_LOADS 1
#define WIDE 0
#include "matmul/grouped-arguments.h"
#include "matmul/grouped-slab.h"

static_assert(PREFETCH == 1 || PREFETCH == 2, "one slab of weights, or two that take turns");

/** Slabs of weights that are on their way before the first one is multiplied; with copies in the background each asks for the next. */
constexpr int kFetchedFirst = STAGES > 1 ? 1 : PREFETCH;

template <typename Source>
DEVICE void fetch_first(const GroupedGemmArguments& a, const u8* const (&rows)[kHalves][kLines],
                        typename Source::Raw (&raw)[PREFETCH][kHalves][kLines]) {
  const int weight_blocks = a.width / 32, slabs = (weight_blocks + kSlabBlocks - 1) / kSlabBlocks;
#pragma unroll
  for (int i = 0; i < kFetchedFirst; i++)
    fetch_weights<Source>(rows, weight_blocks, min(i, slabs - 1) * kSlabBlocks + fragment_share(), raw[i]);
}

#if STAGES > 1

/** A slab of all parts, one after the other. */
template <typename Source, Fill Filled, int Parts>
DEVICE void copy_parts(const GroupedGemmArguments& a, const GroupTile& tile, const u16* halves, int slab, u8* stage) {
#pragma unroll
  for (int part = 0; part < Parts; part++)
    copy_slab<Source, Filled>(a, tile, halves, slab, part, stage + part * kSlabBytes);
}

/** Slabs are copied in the background, STAGES - 1 ahead. */
template <typename Source, Fill Filled, int Parts, int Prefetched>
DEVICE void multiply_slabs(const GroupedGemmArguments& a, const GroupTile& tile, const u16* halves,
                           const u8* const (&rows)[kHalves][kLines],
                           typename Source::Raw (&raw)[PREFETCH][kHalves][kLines], Tile (&sums)[Parts][kHalves][kTiles],
                           u8* shared) {
  const int weight_blocks = a.width / 32, slabs = (weight_blocks + kSlabBlocks - 1) / kSlabBlocks;
  const int zero = min(*a.row_count, 0);
#pragma unroll
  for (int stage = 0; stage < STAGES - 1; stage++) {
    if (stage < slabs) copy_parts<Source, Filled, Parts>(a, tile, halves, stage, shared + stage * Parts * kSlabBytes);
    end_copy_group();
  }
  int stage = 0;
#pragma unroll 1
  for (int first = 0; first < slabs; first += Prefetched) {
#pragma unroll
    for (int i = 0; i < Prefetched; i++) {
      const int slab = first + i;
      if (Prefetched > 1 && slab >= slabs) break;
      wait_for_copy_groups<STAGES - 2>();
      barrier();
      const int free_stage = stage == 0 ? STAGES - 1 : stage - 1;
      if (slab + STAGES - 1 < slabs)
        copy_parts<Source, Filled, Parts>(a, tile, halves, slab + STAGES - 1, shared + free_stage * Parts * kSlabBytes);
      end_copy_group();
      // Of two slabs in registers, one is on its way while the other is multiplied.
      constexpr bool isRing = Prefetched > 1;
      multiply_slab<Source, Filled, Parts, isRing>(
          sums, raw[i], slab, weight_blocks, tile, shared + stage * Parts * kSlabBytes, [&] {
            const int next = isRing ? (i + 1) % Prefetched : i;
            // The last slab's once more rather than none: a branch here costs registers, and these bytes are near.
            const int block = min(slab + 1, slabs - 1) * kSlabBlocks + fragment_share();
            fetch_weights<Source>(rows, weight_blocks, isRing ? block + when_here(raw[i][0][0], zero) : block,
                                  raw[next]);
          });
      stage = stage == STAGES - 1 ? 0 : stage + 1;
    }
  }
  wait_for_copy_groups<0>();
}

#else

/** The next slab waits in registers while one is multiplied. */
template <typename Source, Fill Filled, int Parts, int Prefetched>
DEVICE void multiply_slabs(const GroupedGemmArguments& a, const GroupTile& tile, const u16* halves,
                           const u8* const (&rows)[kHalves][kLines],
                           typename Source::Raw (&raw)[PREFETCH][kHalves][kLines], Tile (&sums)[Parts][kHalves][kTiles],
                           u8* shared) {
  const int weight_blocks = a.width / 32, slabs = (weight_blocks + kSlabBlocks - 1) / kSlabBlocks;
  Words4 held[Parts][kThreadChunks];
#pragma unroll
  for (int part = 0; part < Parts; part++) hold_slab<Source>(a, tile, halves, 0, part, held[part]);
#pragma unroll 1
  for (int first = 0; first < slabs; first += Prefetched) {
#pragma unroll
    for (int i = 0; i < Prefetched; i++) {
      const int slab = first + i;
      if (Prefetched > 1 && slab >= slabs) break;
      barrier();
#pragma unroll
      for (int part = 0; part < Parts; part++) store_slab(held[part], shared + part * kSlabBytes);
      barrier();
#pragma unroll
      for (int part = 0; part < Parts; part++) {
        if (slab + 1 < slabs) hold_slab<Source>(a, tile, halves, slab + 1, part, held[part]);
      }
      multiply_slab<Source, Filled, Parts, false>(sums, raw[i], slab, weight_blocks, tile, shared, [&] {
        // The last slab's once more rather than none: a branch here costs registers, and these bytes are near.
        fetch_weights<Source>(rows, weight_blocks, min(slab + Prefetched, slabs - 1) * kSlabBlocks + fragment_share(),
                              raw[i]);
      });
    }
  }
}

#endif

template <typename Source, Fill Filled, int Parts = 1>
DEVICE void multiply_tile(const GroupedGemmArguments& a, const GroupTile& tile,
                          const u8* const (&rows)[kHalves][kLines],
                          typename Source::Raw (&raw)[PREFETCH][kHalves][kLines], u8* shared) {
  // Sums of several parts leave registers for the weights of one slab.
  constexpr int Prefetched = Parts > 1 ? 1 : PREFETCH;
  Tile sums[Parts][kHalves][kTiles];
#pragma unroll
  for (int part = 0; part < Parts; part++) clear_sums(sums[part]);
  // One code for both parts: the low one first, whose sums are 2048 times too large.
#pragma unroll 1
  for (int part = SPLIT; part >= 0; part--) {
    multiply_slabs<Source, Filled, Parts, Prefetched>(a, tile, part == 0 ? a.halves : a.low_halves, rows, raw, sums,
                                                      shared);
    if (part == 0) break;
    scale_sums(sums[0], 1.0f / 2048.0f);
    fetch_first<Source>(a, rows, raw);
    barrier();
  }
#pragma unroll
  for (int part = 0; part < Parts; part++) write_sums(a, tile, sums[part], part * kTokens);
}

KERNEL(grouped_gemm, GroupedGemmArguments, kThreads) {
  typedef HalfSource<TYPE0> Source;
  DYNAMIC_SHARED(shared);
  dependency_release();
  dependency_wait();
  GroupTile tile;
  if (!find_tile(a, tile)) return;
  // Weights are on their way while the slots are looked up.
  const u8* rows[kHalves][kLines];
  find_rows<Source>(a, tile, rows);
  typename Source::Raw raw[PREFETCH][kHalves][kLines];
  fetch_first<Source>(a, rows, raw);
  place_slots(a, tile);
  barrier();
  if (kMostParts > 1 && tile.count > kTokens) {
    multiply_tile<Source, Fill::part, kMostParts>(a, tile, rows, raw, shared);
  } else if (kTiles == 1 && tile.count <= 8) {
    multiply_tile<Source, Fill::half>(a, tile, rows, raw, shared);
  } else if (kTiles == 1 || tile.count < kTokens) {
    multiply_tile<Source, Fill::part>(a, tile, rows, raw, shared);
  } else {
    multiply_tile<Source, Fill::whole>(a, tile, rows, raw, shared);
  }
}
