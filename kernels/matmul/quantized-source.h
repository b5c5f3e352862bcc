// Quantized weights as a Source of matmul/row-stream.h: blocks of 32 weights times q8 activations, by int8 dot products.
#pragma once
#include "matmul/quantized-inputs.h"

struct QuantizedOperand {
  Words4 values[2];
  float scale[2];
  float sum[2];
};

DEVICE int dot16(const u32 (&quads)[4], const Words4& values, int sum) {
  sum = dot4(int(quads[0]), int(values.x), sum);
  sum = dot4(int(quads[1]), int(values.y), sum);
  sum = dot4(int(quads[2]), int(values.z), sum);
  return dot4(int(quads[3]), int(values.w), sum);
}

template <int Type>
struct QuantizedSource {
  typedef Format<Type> Weights;
  typedef typename Weights::Raw Raw;
  typedef Block Decoded;
  typedef QuantizedOperand Operand;
  /** With two rows of it a thread stays within 128 registers, so that four blocks find room on a multiprocessor; AMD's
   *  have room for more. */
#if INPUTS_FIRST
  static constexpr int most_depth = Type == kQ5_K ? 3 : 4;
#else
  static constexpr int most_depth = Type == kQ5_K || Type == kQ6_K ? 2 : Type == kQ8_0 || Type == kIQ4_XS ? 3 : 4;
#endif

  /** Where they are not in shared memory there are several tokens, and no registers for their inputs. */
  static constexpr bool loads_inputs = false;

  DEVICE int weight_blocks(int width) { return width / kBlockWeights; }
  DEVICE u64 row_bytes(int width) { return Weights::row_bytes(width); }
  DEVICE Raw fetch(const u8* row, int weight_blocks, int weight_block) {
    return Weights::fetch(row, weight_blocks, weight_block);
  }
  DEVICE Block decode(const Raw& raw, int weight_block) { return Weights::decode(raw, weight_block); }

  DEVICE Operand load(const QuantizedInputs& inputs, int token, int weight_block, bool inside) {
    const int row = input_row(inputs, token);
    const int chunk = Weights::column(weight_block, 0) >> 4;
    const int at = row * (inputs.width >> 4) + chunk;
    const Words4* const values = reinterpret_cast<const Words4*>(inputs.values);
    const float* const sums = inputs.sums + at;
    const float* const scales = inputs.scales + row * (inputs.width >> 5) + (chunk >> 1);
    Operand operand;
    // The second group's chunk is one or two on, which turns one bit of the first one's place.
    const int place = STAGED ? staged_chunk(at) : at;
    operand.values[0] = values[place];
    operand.values[1] = values[STAGED ? place ^ Weights::group_chunks : place + Weights::group_chunks];
    // Loaded whether wanted or not: a choice between values costs less than one between ways.
    const float one = Weights::group_chunks == 1 ? *scales : 0.0f;
    const Words2 pair = *reinterpret_cast<const Words2*>(Weights::group_chunks == 1 ? sums : scales);
    const float first_sum = Weights::group_chunks == 1 ? float_of(pair.x) : sums[0];
    const float second_sum = Weights::group_chunks == 1 ? float_of(pair.y) : sums[Weights::group_chunks];
    operand.scale[0] = inside ? Weights::group_chunks == 1 ? one : float_of(pair.x) : 0.0f;
    operand.scale[1] = inside ? Weights::group_chunks == 1 ? one : float_of(pair.y) : 0.0f;
    operand.sum[0] = inside ? first_sum : 0.0f;
    operand.sum[1] = inside ? second_sum : 0.0f;
    return operand;
  }

  DEVICE float dot(const Block& weight_block, const Operand& operand, float sum) {
    const int first = dot16(weight_block.quads[0], operand.values[0], 0);
    const int rest = dot16(weight_block.quads[1], operand.values[1], Weights::one_scale ? first : 0);
    if (!Weights::one_scale) {
      sum = fma(weight_block.scale[0] * operand.scale[0], float(first), sum);
      if (Weights::has_minimum) sum = fma(-weight_block.minimum[0], operand.sum[0], sum);
    }
    sum = fma(weight_block.scale[1] * operand.scale[1], float(rest), sum);
    const float rest_sum = Weights::one_scale ? operand.sum[0] + operand.sum[1] : operand.sum[1];
    if (Weights::has_minimum) sum = fma(-weight_block.minimum[1], rest_sum, sum);
    return sum;
  }
};
