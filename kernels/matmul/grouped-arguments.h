// What the kernels of grouped matmuls (matmul/grouped-gemm.hip, matmul/grouped-wide.hip) have in common: defines, argument
// and the shape of a block. TOKENS, MATRIX_WAVES and WIDE are defined before: whether products are wide.
#pragma once

#ifndef GATED
#define GATED 0
#endif
#ifndef ROUTED
#define ROUTED 1
#endif
/** Whether there are biases, of BIAS_TYPE 0 (F32), 1 (F16) or 30 (BF16), factors of matrices, weights of slots. */
#ifndef BIASED
#define BIASED 0
#endif
#ifndef BIAS_TYPE
#define BIAS_TYPE 0
#endif
#ifndef SCALED
#define SCALED 0
#endif
#ifndef WEIGHTED
#define WEIGHTED 0
#endif
/** Registers for the sums of the tile, and as many waves as there is room for beside them. */
#ifndef RESIDENT_BLOCKS
#if TOKENS <= 32
#define RESIDENT_BLOCKS 4
#elif TOKENS == 64
#define RESIDENT_BLOCKS 3
#else
#define RESIDENT_BLOCKS 2
#endif
#endif

/** Whether a shared expert, of the experts' type and shape, multiplies every token in the same launch. */
#ifndef SHARED_EXPERT
#define SHARED_EXPERT 0
#endif

/** Tiles of tokens that a block of the shared expert has, which all tokens need: its weights are decoded once for all. */
#ifndef SHARED_PARTS
#define SHARED_PARTS 1
#endif

/** Whether slots with inputs of their own have a row of the input each, and not columns of their token's row. */
#ifndef SLOT_ROWS
#define SLOT_ROWS 0
#endif

#include "device/activation.h"
#include "device/async-copy.h"
#include "weights/half-blocks.h"
#include "device/matrix-unit.h"

/** Whether the input has a second part of low halves (rows/slot-rows.hip). */
#ifndef SPLIT
#define SPLIT 0
#endif

struct GroupedGemmArguments {
  const u16* halves;
  const u16* low_halves;
  const float* row_scales;
  const int* row_count;
  /** Of matmul/expert-order.hip. */
  const int* slots;
  const int* tiles;
  const int* tile_count;
  /** Of slot 0 of the first token. */
  const float* slot_weights;
  const u8* weights0;
  const u8* weights1;
  const u8* bias0;
  const u8* bias1;
  /** One for each matrix, or null. */
  const float* factor0;
  const float* factor1;
  float* out;
  /** Of the shared expert, and its result for each token. */
  const u8* shared_weights0;
  const u8* shared_weights1;
  float* shared_out;
  int rows;
  /** Of each matrix, and the first that is used. */
  int matrix_rows;
  int first_row0;
  int first_row1;
  int width;
  int halves_stride;
  /** From one slot's input to the next one's; 0: all slots read the same. */
  int slot_columns;
  int weights_stride;
  int out_stride;
  /** From the results of one slot to those of the next. */
  int out_slot_stride;
  int shared_out_stride;
  /** Tiles of a slot, where there is no router. */
  int token_blocks;
};

constexpr int kTokens = TOKENS;
/** Tiles of tokens that a block may have; those of a router have one. */
constexpr int kMostParts = SHARED_EXPERT ? SHARED_PARTS : 1;
constexpr int kRowWaves = MATRIX_WAVES;
constexpr int kThreads = kRowWaves * WAVE;
/** A wave has kHalves tiles of 16 rows by kTiles of 16 tokens; of a gated matmul one tile of gate and one of up. */
constexpr int kHalves = 2;
constexpr int kTiles = kTokens / 16;
constexpr int kBlockRows = kRowWaves * 16 * (GATED ? 1 : 2);
/** What the block multiplies between two barriers: a weight block a lane. */
constexpr int kSlabBlocks = kShares;
constexpr int kSlabBytes = kTokens * kSlabBlocks * 64;
constexpr int kThreadChunks = (kSlabBytes / 16 + kThreads - 1) / kThreads;

#if WIDE
#include "device/wide-matmul.h"
#endif
#include "matmul/tile-chunks.h"
#include "matmul/grouped-tile.h"
