// Grouped matmuls of medium batches whose experts have few slots each, with quantized weights: a block has a tile of up to
// TOKENS slots of one expert (matmul/expert-order.hip) and some rows of its matrix, which are read once for all of them and
// multiplied by int8 dot products (matmul/row-stream.h). matmul/grouped-gemm.hip decodes the same weights to halves, which
// takes several times the instructions, and pays only if several slots use them.
// GATED 1: gate and up of experts; inputs are the rows of tokens, and out = activation(gate) × up goes to quantized rows of
// slots in sorted order, those of the shared expert after all others (passes × kPassRows is 32). GATED 0: the last matmul;
// inputs are those rows, and results go where slots belong: out[token][slot].
// Defines: TYPE0, and TYPE1 of up; USED slots of a token; TOKENS 4; SHARED_EXPERT: the shared expert, of the experts' types
// and shapes, multiplies every token in the same launch; WEIGHED; ROWS, SPLIT, DEPTH, THREADS, WIDTH, BIAS_TYPE:
// matmul/row-stream.h; ACTIVATION: device/activation.h. Shared memory: staged_bytes(TOKENS, width).
// Grid: x = ⌈rows ÷ (passes × kPassRows)⌉, y = tiles that there may be, and those of the shared expert.
// v1 on an H200 16 sequences of GLM-4.7-Flash decode 2,018 instead of 1,674 tokens a second and those of Qwen3-30B-A3B 2,773
//    instead of 2,330, together with v3 of matmul/gemm.hip and attention in more blocks. With 64 sequences, four slots an
//    expert, a sixth fewer than by matmul/grouped-gemm.hip.
#ifndef THREADS
#define THREADS 128
#endif
#define RESIDENT_BLOCKS (512 / THREADS)
#define ROUTED 1
#define STAGED 1
#include "matmul/expert-slot.h"
#include "matmul/expert-tile.h"
#include "matmul/quantized-source.h"

#ifndef GATED
#define GATED 0
#endif
#ifndef TYPE1
#define TYPE1 TYPE0
#endif
#ifndef SHARED_EXPERT
#define SHARED_EXPERT 0
#endif
#ifndef WEIGHED
#define WEIGHED 0
#endif

struct SortedGemvArguments {
  const i8* values;
  const float* scales;
  const float* sums;
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
  const float* factor0;
  const float* factor1;
  const u8* shared0;
  const u8* shared1;
  float* out;
  float* shared_out;
  i8* quantized_values;
  float* quantized_scales;
  float* quantized_sums;
  int weights_stride;
  int width;
  int matrix_rows0;
  int matrix_rows1;
  int first0;
  int first1;
  int rows;
  int out_stride;
  int shared_out_stride;
  int passes;
};

/** Of each slot of the tile: the row of its input, where its result begins, its weight. */
struct TileSlots {
  int inputs[TOKENS];
  u32 outputs[TOKENS];
  float weights[TOKENS];
};

/** Where results of the tile begin among the sorted rows. */
DEVICE int sorted_row(const GroupTile& tile, int tokens) {
  return tile.shared ? tokens * USED + tile.first : tile.first;
}

DEVICE void place_slots(const SortedGemvArguments& a, const GroupTile& tile, int tokens, TileSlots& places) {
  const int i = thread_index();
  if (i < tile.count) {
    const int slot = SHARED_EXPERT && tile.shared ? (tile.first + i) * USED : a.slots[tile.first + i];
    const int token = slot / USED, number = slot - token * USED;
    const bool shared = SHARED_EXPERT && tile.shared;
    places.inputs[i] = GATED ? token : sorted_row(tile, tokens) + i;
    places.outputs[i] =
        shared ? u32(token) * u32(a.shared_out_stride) : u32(token) * u32(a.out_stride) + u32(number) * u32(a.rows);
    places.weights[i] = WEIGHED && !shared ? a.slot_weights[token * a.weights_stride + number] : 1.0f;
  }
  barrier();
}

/** The rows of a tile's slots. */
struct SortedInputs : QuantizedInputs {
  const TileSlots* slots;
};

DEVICE void arrive(SortedInputs& inputs) {
  dependency_wait();
  stage_rows(inputs, [&](int index, int each) {
    const int slot = index / each;
    return inputs.slots->inputs[slot] * each + index - slot * each;
  });
}
DEVICE float row_factor(const SortedInputs& inputs, int token) { return inputs.slots->weights[token]; }
DEVICE float result_factor(const SortedInputs& inputs, int token) { return inputs.slots->weights[token]; }
DEVICE u64 result_place(const SortedInputs& inputs, int token, int) { return inputs.slots->outputs[token]; }

DEVICE QuantizedTarget sorted_target(const SortedGemvArguments& a, u64 row) {
  if (!GATED) return {nullptr, nullptr, nullptr, a.rows};
  return {a.quantized_values + row * u64(a.rows), a.quantized_scales + row * u64(a.rows / 32),
          a.quantized_sums + row * u64(a.rows / 16), a.rows};
}

template <int Tokens>
DEVICE void multiply_tile(const SortedGemvArguments& a, const Matmul& first, const Matmul& second,
                          const GroupTile& tile, int tokens, int row, const TileSlots& slots, u8* scratch) {
  const int width = WIDTH > 0 ? WIDTH : a.width;
  SortedInputs inputs = {
      {reinterpret_cast<const u8*>(a.values), a.scales, a.sums, scratch, width, 0, tile.count, Tokens,
       Format<TYPE0>::has_minimum || (GATED && Format<TYPE1>::has_minimum), nullptr, 0, nullptr, 0.0f, nullptr},
      &slots};
  stream_rows<Tokens, GATED != 0, QuantizedSource<TYPE0>, QuantizedSource<TYPE1>>(
      first, second, width, row, a.passes, inputs, sorted_target(a, u64(sorted_row(tile, tokens))));
}

KERNEL(sorted_gemv, SortedGemvArguments, THREADS) {
  DYNAMIC_SHARED(scratch);
  SHARED TileSlots places;
  // The order of experts is that of an earlier launch for the last matmul: its weights are asked for before it waits.
  if (GATED) dependency_wait();
  dependency_release();
  const int tokens = *a.row_count, row = block_x() * a.passes * kPassRows;
  GroupTile tile;
  // Returning without waiting would let the next launch overtake this one.
  if (!find_expert_tile<TOKENS, SHARED_EXPERT != 0>(a.tiles, a.tile_count, tokens, block_y(), tile))
    return dependency_wait();
  place_slots(a, tile, tokens, places);
  const int width = WIDTH > 0 ? WIDTH : a.width;
  const ExpertSlot expert = {tile.matrix, 1.0f};
  const u64 bytes0 = Format<TYPE0>::row_bytes(width), bytes1 = Format<TYPE1>::row_bytes(width);
  const bool shared = SHARED_EXPERT && tile.shared;
  const Matmul first =
      shared ? slot_matmul(a.shared0, nullptr, nullptr, expert, a.shared_out, bytes0, 0, 0, a.rows)
             : slot_matmul(a.weights0, a.bias0, a.factor0, expert, a.out, bytes0, a.matrix_rows0, a.first0, a.rows);
  const Matmul second =
      shared ? slot_matmul(a.shared1, nullptr, nullptr, expert, a.shared_out, bytes1, 0, 0, a.rows)
             : slot_matmul(a.weights1, a.bias1, a.factor1, expert, a.out, bytes1, a.matrix_rows1, a.first1, a.rows);
  if (tile.count == 1) return multiply_tile<1>(a, first, second, tile, tokens, row, places, scratch);
  if (tile.count == 2) return multiply_tile<2>(a, first, second, tile, tokens, row, places, scratch);
  multiply_tile<TOKENS>(a, first, second, tile, tokens, row, places, scratch);
}
