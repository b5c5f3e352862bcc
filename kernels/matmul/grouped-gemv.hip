// Grouped matmuls of few tokens with quantized weights: each slot of a token is a matmul with one matrix of a stack, an
// expert that the router chose or the matrix of a head (matmul/row-stream.h says how a matmul runs). Blocks are of one
// token and one slot, so only the chosen experts are read, and a row's bits do not depend on the batch.
// Defines: TYPE0, or GATED 1 with TYPE0 the gate and TYPE1 up: out = activation(gate) × up, written as quantized rows, one
//   for each slot, if quantized_values is given (passes × kPassRows is 32 then).
//   ROUTED: matmul/expert-slot.h. ROWS, SPLIT, DEPTH, THREADS, WIDTH, BIAS_TYPE: matmul/row-stream.h. ACTIVATION:
//   device/activation.h. STAGED, NORMED: as in matmul/gemv.hip, of a single token.
// Grid: x = ⌈rows ÷ (passes × kPassRows)⌉, y = slots, z = tokens.
// v1 gate, up and activation as one launch; norm, quantization and the choice of experts inside. Not measured yet.
#ifndef THREADS
#define THREADS 128
#endif
#if !defined(RESIDENT_BLOCKS)
#define RESIDENT_BLOCKS (512 / THREADS)
#endif
#include "matmul/expert-slot.h"
#include "matmul/quantized-source.h"

#ifndef GATED
#define GATED 0
#endif
#ifndef TYPE1
#define TYPE1 TYPE0
#endif

/** Inputs are one quantized row for each token, or if `slot_inputs` one for each slot of each token. */
struct GroupedGemvArguments {
  const i8* values;
  const float* scales;
  const float* sums;
  const float* normed_rows;
  const u8* norm_weight;
  const int* row_count;
  const float* routing;
  const float* selection_bias;
  const u8* weights0;
  const u8* weights1;
  const u8* bias0;
  const u8* bias1;
  const float* factor0;
  const float* factor1;
  float* out;
  i8* quantized_values;
  float* quantized_scales;
  float* quantized_sums;
  float norm_epsilon;
  int normed_stride;
  int routing_stride;
  int width;
  int slots;
  int slot_inputs;
  int weighted;
  int matrix_rows0;
  int matrix_rows1;
  int first0;
  int first1;
  int rows;
  int stride;
  int passes;
};

/** A quantized row whose results have a weight. */
struct SlotInputs : QuantizedInputs {
  float weight;
};

DEVICE void arrive(SlotInputs& inputs) { arrive(static_cast<QuantizedInputs&>(inputs)); }
DEVICE float row_factor(const SlotInputs& inputs, int token) {
  return inputs.weight * row_factor(static_cast<const QuantizedInputs&>(inputs), token);
}
DEVICE float result_factor(const SlotInputs& inputs) { return inputs.weight; }

KERNEL(grouped_gemv, GroupedGemvArguments, THREADS) {
  DYNAMIC_SHARED(scratch);
#if ROUTED != 2
  dependency_release();
#endif
  const int slot = block_y(), token = block_z(), row = block_x() * a.passes * kPassRows;
  // Returning without waiting would let the next launch overtake this one.
  if (token >= *a.row_count || row >= a.rows) return dependency_wait();
  const int width = WIDTH > 0 ? WIDTH : a.width;
  const ExpertSlot chosen =
      find_slot({a.routing + u64(token) * u64(a.routing_stride), a.selection_bias, a.slots, a.weighted != 0}, slot);
  const u64 result = u64(token) * u64(a.slots) + u64(slot);
  const u64 input = a.slot_inputs != 0 ? result : u64(token);
  SlotInputs inputs = {
      {reinterpret_cast<const u8*>(a.values) + input * u64(width), a.scales + input * u64(width / 32),
       a.sums + input * u64(width / 16), scratch, width, 0, 1, 1,
       Format<TYPE0>::has_minimum || (GATED && Format<TYPE1>::has_minimum),
       a.normed_rows + u64(token) * u64(a.normed_stride), a.normed_stride, a.norm_weight, a.norm_epsilon, nullptr},
      chosen.weight};
  float* const out = a.out + u64(token) * u64(a.stride) + u64(slot) * u64(a.rows);
  const Matmul first = slot_matmul(a.weights0, a.bias0, a.factor0, chosen, out, Format<TYPE0>::row_bytes(width),
                                   a.matrix_rows0, a.first0, a.rows);
  const Matmul second = slot_matmul(a.weights1, a.bias1, a.factor1, chosen, out, Format<TYPE1>::row_bytes(width),
                                    a.matrix_rows1, a.first1, a.rows);
  QuantizedTarget target = {nullptr, nullptr, nullptr, a.rows};
  if (GATED && a.quantized_values != nullptr) {
    target.values = a.quantized_values + result * u64(a.rows);
    target.scales = a.quantized_scales + result * u64(a.rows / 32);
    target.sums = a.quantized_sums + result * u64(a.rows / 16);
  }
  stream_rows<1, GATED != 0, QuantizedSource<TYPE0>, QuantizedSource<TYPE1>>(first, second, width, row, a.passes,
                                                                             inputs, target);
}
