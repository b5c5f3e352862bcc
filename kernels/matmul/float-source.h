// F32, F16 and BF16 weights as Sources of matmul/row-stream.h, times f32 rows: 16 bytes at a time, or element by element.
#pragma once
#include "matmul/row-stream.h"

struct FloatInputs {
  const float* rows;
  int stride;
  int first_token;
  int live;
};

DEVICE void arrive(FloatInputs& inputs) {
  dependency_wait();
  inputs.rows += u64(inputs.first_token) * u64(inputs.stride);
}

DEVICE float row_factor(const FloatInputs&, int) { return 1.0f; }

DEVICE const float* input_row(const FloatInputs& inputs, int token) {
  return inputs.rows + u64(min(token, inputs.live - 1)) * u64(inputs.stride);
}

template <int Count>
struct FloatOperand {
  float at[Count];
};

/** 16 bytes of plain weights at a time. */
template <int Type>
struct WideChunks {
  static constexpr int Count = 16 / Plain<Type>::element_bytes;
  typedef Words4 Raw;
  typedef FloatOperand<Count> Decoded;
  typedef FloatOperand<Count> Operand;
  static constexpr int most_depth = 4;
  static constexpr bool loads_inputs = true;

  DEVICE int weight_blocks(int width) { return width / Count; }
  DEVICE u64 row_bytes(int width) { return u64(width) * Plain<Type>::element_bytes; }
  DEVICE Raw fetch(const u8* row, int, int weight_block) { return load_once(row + u64(weight_block) * 16); }

  DEVICE Decoded decode(const Raw& raw, int) {
    const u32 words[4] = {raw.x, raw.y, raw.z, raw.w};
    Decoded decoded;
#pragma unroll
    for (int i = 0; i < Count; i++) {
      if (Type == kF32) decoded.at[i] = float_of(words[i % 4]);
      if (Type == kF16) decoded.at[i] = half_to_float(u16(words[i / 2 % 4] >> (i % 2 * 16)));
      if (Type == kBF16) decoded.at[i] = bfloat_to_float(u16(words[i / 2 % 4] >> (i % 2 * 16)));
    }
    return decoded;
  }

  DEVICE Operand load(const FloatInputs& inputs, int token, int weight_block, bool inside) {
    const Quad* const quads = reinterpret_cast<const Quad*>(input_row(inputs, token) + weight_block * Count);
    Operand operand;
#pragma unroll
    for (int i = 0; i < Count / 4; i++) {
      const Quad quad = quads[i];
#pragma unroll
      for (int k = 0; k < 4; k++) operand.at[i * 4 + k] = inside ? quad.at[k] : 0.0f;
    }
    return operand;
  }

  DEVICE float dot(const Decoded& decoded, const Operand& operand, float sum) {
#pragma unroll
    for (int i = 0; i < Count; i++) sum = fma(decoded.at[i], operand.at[i], sum);
    return sum;
  }
};

/** One element at a time, if rows do not begin at multiples of 16 bytes. */
template <int Type>
struct SingleElements {
  typedef float Raw;
  typedef float Decoded;
  typedef float Operand;
  static constexpr int most_depth = 4;
  static constexpr bool loads_inputs = true;

  DEVICE int weight_blocks(int width) { return width; }
  DEVICE u64 row_bytes(int width) { return u64(width) * Plain<Type>::element_bytes; }
  DEVICE Raw fetch(const u8* row, int, int weight_block) { return Plain<Type>::value(row, weight_block); }
  DEVICE Decoded decode(Raw raw, int) { return raw; }
  DEVICE Operand load(const FloatInputs& inputs, int token, int weight_block, bool inside) {
    return inside ? input_row(inputs, token)[weight_block] : 0.0f;
  }
  DEVICE float dot(float decoded, float operand, float sum) { return fma(decoded, operand, sum); }
};

DEVICE bool is_wide(int type, int width) { return width % (type == kF32 ? 4 : 8) == 0; }
