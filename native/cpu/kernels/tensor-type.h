// Tensor types by the ids that GGUF files use, and how their blocks measure. Ids and sizes are the file format's.
// Included by code for every instruction set, so nothing here may become a function that the linker shares.

#pragma once

#include <cstddef>
#include <cstdint>

namespace rocmforge {

enum class TensorType : uint32_t {
  f32 = 0,
  f16 = 1,
  q4_0 = 2,
  q4_1 = 3,
  q5_0 = 6,
  q5_1 = 7,
  q8_0 = 8,
  q2_k = 10,
  q3_k = 11,
  q4_k = 12,
  q5_k = 13,
  q6_k = 14,
  iq4_nl = 20,
  iq4_xs = 23,
  bf16 = 30,
  tq1_0 = 34,
  tq2_0 = 35,
  mxfp4 = 39,
  nvfp4 = 40,
};

struct BlockShape {
  uint32_t elements;
  uint32_t bytes;
};

/// {0, 0} for an id that has no kernels.
static inline BlockShape block_shape(TensorType type) {
  switch (type) {
    case TensorType::f32: return {1, 4};
    case TensorType::f16: return {1, 2};
    case TensorType::bf16: return {1, 2};
    case TensorType::q4_0: return {32, 18};
    case TensorType::q4_1: return {32, 20};
    case TensorType::q5_0: return {32, 22};
    case TensorType::q5_1: return {32, 24};
    case TensorType::q8_0: return {32, 34};
    case TensorType::q2_k: return {256, 84};
    case TensorType::q3_k: return {256, 110};
    case TensorType::q4_k: return {256, 144};
    case TensorType::q5_k: return {256, 176};
    case TensorType::q6_k: return {256, 210};
    case TensorType::iq4_nl: return {32, 18};
    case TensorType::iq4_xs: return {256, 136};
    case TensorType::tq1_0: return {256, 54};
    case TensorType::tq2_0: return {256, 66};
    case TensorType::mxfp4: return {32, 17};
    case TensorType::nvfp4: return {64, 36};
  }
  return {0, 0};
}

/// Plain floats are multiplied as they are; every other type is multiplied with q8 activations.
static inline bool is_plain_float(TensorType type) {
  return type == TensorType::f32 || type == TensorType::f16 || type == TensorType::bf16;
}

}  // namespace rocmforge
