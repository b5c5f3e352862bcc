// Grouped matmuls of few tokens with quantized weights: each slot of a token is a matmul with one matrix of a stack, an
// expert that the router chose or the matrix of a head (matmul/row-stream.h says how a matmul runs). Blocks are of one
// token and one slot, so only the chosen experts are read, and a row's bits do not depend on the batch.
// Defines: TYPE0, or GATED 1 with TYPE0 the gate and TYPE1 up: out = activation(gate) × up, written as quantized rows, one
//   for each slot, if quantized_values is given (passes × kPassRows is 32 then).
//   ROUTED: matmul/expert-slot.h. ROWS, SPLIT, DEPTH, THREADS, WIDTH, BIAS_TYPE: matmul/row-stream.h. ACTIVATION:
//   device/activation.h. STAGED, NORMED: as in matmul/gemv.hip, of a single token; with NORM 0 f32 rows are quantized here
//   without a norm, those of slot s from column s × normed_slot_stride on.
//   SHARED_SLOTS n: a shared expert n times as wide as the others is n further slots, with weights of SHARED_TYPE0 and
//   SHARED_TYPE1 and without biases and factors; their results follow those of the chosen experts.
// Grid: x = ⌈rows ÷ (passes × kPassRows)⌉, y = SHARED_SLOTS + slots, z = tokens.
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

#ifndef SHARED_SLOTS
#define SHARED_SLOTS 0
#endif
#if SHARED_SLOTS == 0
#define SHARED_TYPE0 TYPE0
#define SHARED_TYPE1 TYPE1
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
  const u8* shared0;
  const u8* shared1;
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
  int normed_slot_stride;
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
  /** From the results of one slot to those of the next. */
  int out_slot_stride;
  int passes;
};

/** A quantized row whose results have a weight. */
struct SlotInputs : QuantizedInputs {
  float weight;
};

DEVICE void arrive(SlotInputs& inputs) { arrive(static_cast<QuantizedInputs&>(inputs)); }
#if NORMED || STAGED
DEVICE auto ask(const SlotInputs& inputs) { return ask(static_cast<const QuantizedInputs&>(inputs)); }
template <typename Asked>
DEVICE void arrive(SlotInputs& inputs, const Asked& asked) {
  arrive(static_cast<QuantizedInputs&>(inputs), asked);
}
#endif
DEVICE float row_factor(const SlotInputs& inputs, int token) {
  return inputs.weight * row_factor(static_cast<const QuantizedInputs&>(inputs), token);
}
DEVICE float result_factor(const SlotInputs& inputs, int) { return inputs.weight; }

/** The input of a slot, and where its result goes; `result`: among the slots of all tokens. */
DEVICE SlotInputs slot_inputs(const GroupedGemvArguments& a, int width, int token, int slot, u64 result, u8* scratch) {
  const u64 input = a.slot_inputs != 0 ? result : u64(token);
  return {{reinterpret_cast<const u8*>(a.values) + input * u64(width), a.scales + input * u64(width / 32),
           a.sums + input * u64(width / 16), scratch, width, 0, 1, 1, false,
           a.normed_rows + u64(token) * u64(a.normed_stride) + u64(slot) * u64(a.normed_slot_stride), a.normed_stride,
           a.norm_weight, a.norm_epsilon, nullptr},
          1.0f};
}

DEVICE QuantizedTarget slot_target(const GroupedGemvArguments& a, u64 result) {
  if (!GATED || a.quantized_values == nullptr) return {nullptr, nullptr, nullptr, a.rows};
  return {a.quantized_values + result * u64(a.rows), a.quantized_scales + result * u64(a.rows / 32),
          a.quantized_sums + result * u64(a.rows / 16), a.rows};
}

template <int TypeA, int TypeB>
DEVICE void multiply_slot(const GroupedGemvArguments& a, const Matmul& first, const Matmul& second, int width, int row,
                          SlotInputs& inputs, const QuantizedTarget& target) {
  inputs.with_sums = Format<TypeA>::has_minimum || (GATED && Format<TypeB>::has_minimum);
  stream_rows<1, GATED != 0, QuantizedSource<TypeA>, QuantizedSource<TypeB>>(first, second, width, row, a.passes,
                                                                             inputs, target);
}

KERNEL(grouped_gemv, GroupedGemvArguments, THREADS) {
  DYNAMIC_SHARED(scratch);
  const int token = block_z(), row = block_x() * a.passes * kPassRows;
  // Shared experts come first: their weights are asked for before this launch waits for another.
  const bool is_shared = SHARED_SLOTS > 0 && block_y() < SHARED_SLOTS;
  const int slot = is_shared ? a.slots + block_y() : block_y() - SHARED_SLOTS;
  if (ROUTED != 2 || is_shared) dependency_release();
  // Returning without waiting would let the next launch overtake this one.
  if (token >= *a.row_count || row >= a.rows) return dependency_wait();
  const int width = WIDTH > 0 ? WIDTH : a.width;
  const u64 result = u64(token) * u64(a.slots + SHARED_SLOTS) + u64(slot);
  const QuantizedTarget target = slot_target(a, result);
  SlotInputs inputs = slot_inputs(a, width, token, slot, result, scratch);
  float* const out = a.out + u64(token) * u64(a.stride) + u64(slot) * u64(a.out_slot_stride);
#if SHARED_SLOTS
  if (is_shared) {
    const ExpertSlot shared = {0, 1.0f};
    const int shared_row = (slot - a.slots) * a.rows;
    const Matmul gate = slot_matmul(a.shared0, nullptr, nullptr, shared, out, Format<SHARED_TYPE0>::row_bytes(width), 0,
                                    shared_row, a.rows);
    const Matmul up = slot_matmul(a.shared1, nullptr, nullptr, shared, out, Format<SHARED_TYPE1>::row_bytes(width), 0,
                                  shared_row, a.rows);
    return multiply_slot<SHARED_TYPE0, SHARED_TYPE1>(a, gate, up, width, row, inputs, target);
  }
#endif
  const ExpertSlot chosen =
      find_slot({a.routing + u64(token) * u64(a.routing_stride), a.selection_bias, a.slots, a.weighted != 0}, slot);
  inputs.weight = chosen.weight;
  const Matmul first = slot_matmul(a.weights0, a.bias0, a.factor0, chosen, out, Format<TYPE0>::row_bytes(width),
                                   a.matrix_rows0, a.first0, a.rows);
  const Matmul second = slot_matmul(a.weights1, a.bias1, a.factor1, chosen, out, Format<TYPE1>::row_bytes(width),
                                    a.matrix_rows1, a.first1, a.rows);
  multiply_slot<TYPE0, TYPE1>(a, first, second, width, row, inputs, target);
}
