// Four neighbouring columns of a row, a "quad": the unit a thread reads and writes. Rows whose place or width does not
// allow 16-byte access are read column by column; columns past the end read as zero and are not written.
#pragma once
#include "device/portable.h"

struct alignas(16) Quad {
  float at[4];
};

struct alignas(8) HalfQuad {
  u32 pairs[2];
};

struct Row {
  const float* floats;
  int width;
  /** 16-byte access works: the same for every thread of a block. */
  bool aligned;
};

DEVICE int quads_of(int width) { return (width + 3) / 4; }

DEVICE Row row_of(const float* floats, int width) {
  return {floats, width, (reinterpret_cast<u64>(floats) & 15) == 0 && (width & 3) == 0};
}

DEVICE Row row_of(const float* matrix, int row, int stride, int width) {
  return row_of(matrix + u64(row) * u64(stride), width);
}

DEVICE Quad read_quad(const Row& row, int quad) {
  const int column = quad * 4;
  Quad result = {{0, 0, 0, 0}};
  if (row.aligned) {
    if (column < row.width) result = *reinterpret_cast<const Quad*>(row.floats + column);
    return result;
  }
#pragma unroll
  for (int i = 0; i < 4; i++) {
    if (column + i < row.width) result.at[i] = row.floats[column + i];
  }
  return result;
}

/** `row` is where it goes: its floats are written. */
DEVICE void write_quad(const Row& row, int quad, const Quad& values) {
  const int column = quad * 4;
  float* const out = const_cast<float*>(row.floats) + column;
  if (row.aligned) {
    if (column < row.width) *reinterpret_cast<Quad*>(out) = values;
    return;
  }
#pragma unroll
  for (int i = 0; i < 4; i++) {
    if (column + i < row.width) out[i] = values.at[i];
  }
}

// The type of a vector of the model (norm weight, bias), by its number in the file.
#ifndef WEIGHT_TYPE
#define WEIGHT_TYPE 0
#endif
#if WEIGHT_TYPE != 0 && WEIGHT_TYPE != 1 && WEIGHT_TYPE != 30
#error "WEIGHT_TYPE is 0 (F32), 1 (F16) or 30 (BF16)"
#endif

/** 0: norms have no weights, which is a weight of 1 everywhere. */
#ifndef WEIGHTED
#define WEIGHTED 1
#endif

/** Four columns of such a vector. */
DEVICE Quad read_weights(const u8* weights, int width, int quad) {
#if !WEIGHTED
  return {{1, 1, 1, 1}};
#elif WEIGHT_TYPE == 0
  return read_quad(row_of(reinterpret_cast<const float*>(weights), width), quad);
#else
  const u16* const halves = reinterpret_cast<const u16*>(weights);
  Quad result = {{0, 0, 0, 0}};
#pragma unroll
  for (int i = 0; i < 4; i++) {
    const int column = quad * 4 + i;
    if (column < width)
      result.at[i] = WEIGHT_TYPE == 1 ? half_to_float(halves[column]) : bfloat_to_float(halves[column]);
  }
  return result;
#endif
}
