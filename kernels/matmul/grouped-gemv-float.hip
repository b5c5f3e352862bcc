// Grouped matmuls of few tokens with F32, F16 or BF16 weights: matmul/grouped-gemv.hip with f32 rows.
// Defines: TYPE0. ROUTED: matmul/expert-slot.h. ROWS, SPLIT, DEPTH, THREADS, BIAS_TYPE: matmul/row-stream.h.
// Grid: x = ⌈rows ÷ (passes × kPassRows)⌉, y = slots, z = tokens.
// v1 16-byte loads where width and places allow, else element by element. Not measured yet.
#include "matmul/expert-slot.h"
#include "matmul/float-source.h"

/** Slot s of a token reads its row from column s × slot_stride on. */
struct GroupedGemvFloatArguments {
  const float* inputs;
  const int* row_count;
  const float* routing;
  const u8* weights;
  const u8* bias;
  const float* factor;
  float* out;
  int input_stride;
  int slot_stride;
  int routing_stride;
  int width;
  int slots;
  int weighted;
  int matrix_rows;
  int first;
  int rows;
  int stride;
  /** From the results of one slot to those of the next. */
  int out_slot_stride;
  int passes;
};

/** A row whose results have a weight. */
struct SlotInputs : FloatInputs {
  float weight;
};

DEVICE void arrive(SlotInputs& inputs) { arrive(static_cast<FloatInputs&>(inputs)); }
DEVICE float row_factor(const SlotInputs& inputs, int) { return inputs.weight; }
DEVICE float result_factor(const SlotInputs& inputs, int) { return inputs.weight; }

KERNEL(grouped_gemv_float, GroupedGemvFloatArguments, THREADS) {
  dependency_release();
  const int slot = block_y(), token = block_z(), row = block_x() * a.passes * kPassRows;
  // Returning without waiting would let the next launch overtake this one.
  if (token >= *a.row_count || row >= a.rows) return dependency_wait();
  const ExpertSlot chosen =
      find_slot({a.routing + u64(token) * u64(a.routing_stride), nullptr, a.slots, a.weighted != 0}, slot);
  const float* const input = a.inputs + u64(token) * u64(a.input_stride) + u64(slot) * u64(a.slot_stride);
  SlotInputs inputs = {{input, 0, 0, 1}, chosen.weight};
  float* const out = a.out + u64(token) * u64(a.stride) + u64(slot) * u64(a.out_slot_stride);
  const Matmul matmul = slot_matmul(a.weights, a.bias, a.factor, chosen, out,
                                    u64(a.width) * Plain<TYPE0>::element_bytes, a.matrix_rows, a.first, a.rows);
  const QuantizedTarget none = {nullptr, nullptr, nullptr, 0};
  if (is_wide(TYPE0, a.width) && (reinterpret_cast<u64>(input) & 15) == 0) {
    typedef WideChunks<TYPE0> Source;
    stream_rows<1, false, Source, Source>(matmul, matmul, a.width, row, a.passes, inputs, none);
  } else {
    typedef SingleElements<TYPE0> Source;
    stream_rows<1, false, Source, Source>(matmul, matmul, a.width, row, a.passes, inputs, none);
  }
}
