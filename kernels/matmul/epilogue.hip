// What the matmul of a BLAS library still lacks: × row scale of the half rows × factor + bias, soft-capped, + residual,
// and for a gated pair activation(gate) × up, as f32 rows or as half rows (rows/prepared-row.h says how those lie).
// Grid: matmul_epilogue: x = ⌈width ÷ 1024⌉, y = rows there may be; the others: x = rows there may be.
// Defines: BIAS_TYPE 0 (F32), 1 (F16) or 30 (BF16); HELD (rows/held-row.h), best ⌈width ÷ 2048⌉; ACTIVATION and
// SOFT_CAP (device/activation.h).
// v1 a quad a thread; rows with nothing to do are left alone, which is what most are. Not measured yet.
#ifndef BIAS_TYPE
#define BIAS_TYPE 0
#endif
#define WEIGHT_TYPE BIAS_TYPE
#include "rows/prepared-row.h"

/** What becomes of one matmul's columns. */
struct EpilogueRow {
  Row row;
  const u8* bias;
  float factor;
};

DEVICE EpilogueRow epilogue_row(const Row& row, const u8* bias, const float* factor, float row_scale) {
  return {row, bias, factor == nullptr ? row_scale : row_scale * *factor};
}

DEVICE Quad read_quad(const EpilogueRow& row, int quad) {
  Quad values = read_quad(row.row, quad);
  Quad bias = {{0, 0, 0, 0}};
  if (row.bias != nullptr) bias = read_weights(row.bias, row.row.width, quad);
#pragma unroll
  for (int i = 0; i < 4; i++) values.at[i] = soft_capped(fma(values.at[i], row.factor, bias.at[i]));
  return values;
}

struct EpiloguePair {
  EpilogueRow gate;
  EpilogueRow up;
};

DEVICE Quad read_quad(const EpiloguePair& pair, int quad) {
  const Quad gate = read_quad(pair.gate, quad), up = read_quad(pair.up, quad);
  Quad result;
#pragma unroll
  for (int i = 0; i < 4; i++) result.at[i] = gated_unit(gate.at[i], up.at[i]);
  return result;
}

/** `out` may be `matmul`, or the residual. */
struct MatmulEpilogueArguments {
  const float* matmul;
  const float* row_scales;
  const int* row_count;
  const u8* bias;
  const float* factor;
  const float* residual;
  float* out;
  int width;
  int matmul_stride;
  int residual_stride;
  int out_stride;
};

constexpr int kEpilogueThreads = 256;

KERNEL(matmul_epilogue, MatmulEpilogueArguments, kEpilogueThreads) {
  dependency_release();
  dependency_wait();
  const int index = block_y();
  const int quad = block_x() * kEpilogueThreads + thread_index();
  if (index >= *a.row_count || quad >= quads_of(a.width)) return;
  const EpilogueRow row =
      epilogue_row(row_of(a.matmul, index, a.matmul_stride, a.width), a.bias, a.factor, a.row_scales[index]);
  if (kSoftCap == 0.0f && a.matmul == a.out && a.bias == nullptr && a.residual == nullptr && row.factor == 1.0f) return;
  Quad values = read_quad(row, quad);
  if (a.residual != nullptr) {
    const Quad residual = read_quad(row_of(a.residual, index, a.residual_stride, a.width), quad);
#pragma unroll
    for (int i = 0; i < 4; i++) values.at[i] += residual.at[i];
  }
  write_quad(row_of(a.out, index, a.out_stride, a.width), quad, values);
}

struct GatedEpilogueArguments {
  const float* gate;
  const float* up;
  const float* row_scales;
  const int* row_count;
  const u8* gate_bias;
  const u8* up_bias;
  const float* gate_factor;
  const float* up_factor;
  float* out;
  int width;
  int gate_stride;
  int up_stride;
  int out_stride;
};

KERNEL(gated_epilogue, GatedEpilogueArguments, kRowThreads) {
  dependency_release();
  const int quads = quads_of(a.width);
  const Team team = block_team(quads);
  if (team.thread >= team.threads) return;
  dependency_wait();
  const int index = block_x();
  if (index >= *a.row_count) return;
  const float scale = a.row_scales[index];
  const EpiloguePair pair = {
      epilogue_row(row_of(a.gate, index, a.gate_stride, a.width), a.gate_bias, a.gate_factor, scale),
      epilogue_row(row_of(a.up, index, a.up_stride, a.width), a.up_bias, a.up_factor, scale)};
  write_floats(hold_row(pair, team, quads), row_of(a.out, index, a.out_stride, a.width));
}

/** `out_stride` is in halves; columns from the width to it become zero. */
struct GatedEpilogueHalfArguments {
  const float* gate;
  const float* up;
  const float* row_scales;
  const int* row_count;
  const u8* gate_bias;
  const u8* up_bias;
  const float* gate_factor;
  const float* up_factor;
  u16* halves;
  float* out_scales;
  int width;
  int gate_stride;
  int up_stride;
  int out_stride;
};

KERNEL(gated_epilogue_half, GatedEpilogueHalfArguments, kRowThreads) {
  dependency_release();
  const int quads = quads_of(a.out_stride);
  const Team team = block_team(quads);
  if (team.thread >= team.threads) return;
  dependency_wait();
  const int index = block_x();
  if (index >= *a.row_count) return;
  const float scale = a.row_scales[index];
  const EpiloguePair pair = {
      epilogue_row(row_of(a.gate, index, a.gate_stride, a.width), a.gate_bias, a.gate_factor, scale),
      epilogue_row(row_of(a.up, index, a.up_stride, a.width), a.up_bias, a.up_factor, scale)};
  write_halves(hold_row(pair, team, quads), a.halves + u64(index) * u64(a.out_stride), a.out_stride,
               a.out_scales + index);
}
