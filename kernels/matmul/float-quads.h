// Quads of f32 inputs and of plain weights (TYPE0), for matmuls that keep the precision of f32. Columns past the end are
// zeros.
// ALIGNED 1: the width is a multiple of four and rows of inputs begin at multiples of 16 bytes.
#pragma once
#include "device/quad.h"
#include "weights/weights.h"

DEVICE Quad float_quad(const float* row, int width, int quad) {
#if ALIGNED
  Quad result = {};
  if (quad * 4 < width) result = *reinterpret_cast<const Quad*>(row + quad * 4);
  return result;
#else
  return read_quad({row, width, false}, quad);
#endif
}

DEVICE const u8* weights_row(const u8* weights, int row, int width) {
  return weights + u64(row) * (u64(width) * Plain<TYPE0>::element_bytes);
}

DEVICE Quad weight_quad(const u8* row, int width, int quad) {
  if (TYPE0 == kF32) return float_quad(reinterpret_cast<const float*>(row), width, quad);
  Quad result;
#pragma unroll
  for (int i = 0; i < 4; i++) result.at[i] = quad * 4 + i < width ? Plain<TYPE0>::value(row, quad * 4 + i) : 0.0f;
  return result;
}
