// What the matmul of a BLAS library still lacks: × row scale of the half rows × factor + bias, soft-capped, + residual,
// and for a gated pair activation(gate) × up, as f32 rows or as half rows (rows/prepared-row.h says how those lie).
// Grid: matmul_epilogue: x = ⌈width ÷ 1024⌉, y = rows there may be; the others: x = rows there may be.
// Defines: BIAS_TYPE 0 (F32), 1 (F16) or 30 (BF16); HELD (rows/held-row.h), best ⌈width ÷ 2048⌉; ACTIVATION and
// SOFT_CAP (device/activation.h).
// v1 a quad a thread; rows with nothing to do are left alone, which is what most are. On an H200 gated_epilogue_half took
//    309 us for 4,096 rows of 14,336 columns (1.9 TB/s), one block a multiprocessor.
// v2 gated half rows are written as they are read, and again only if they turn out to need a scale.
#ifndef BIAS_TYPE
#define BIAS_TYPE 0
#endif
#define WEIGHT_TYPE BIAS_TYPE
#ifndef RESIDENT_BLOCKS
#define RESIDENT_BLOCKS 2
#endif
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

/** Quads of both rows that a thread reads before it uses them. */
constexpr int kReadTogether = 4;

/** activation(gate) × up of this thread's quads as halves, each times `inverse`; the largest magnitude of them. */
template <bool Plain>
DEVICE u32 write_gated(const EpiloguePair& pair, const Team& team, int stride, float inverse, u16* halves) {
  const int quads = quads_of(stride);
  u32 largest = 0;
#pragma unroll 1
  for (int first = team.thread; first < quads; first += kReadTogether * team.threads) {
    Quad gates[kReadTogether], ups[kReadTogether];
#pragma unroll
    for (int i = 0; i < kReadTogether; i++) {
      const int quad = min(first + i * team.threads, quads - 1);
      if (Plain) {
        gates[i] = *reinterpret_cast<const Quad*>(pair.gate.row.floats + quad * 4);
        ups[i] = *reinterpret_cast<const Quad*>(pair.up.row.floats + quad * 4);
      } else {
        gates[i] = read_quad(pair.gate, quad);
        ups[i] = read_quad(pair.up, quad);
      }
    }
#pragma unroll
    for (int i = 0; i < kReadTogether; i++) {
      if (first + i * team.threads >= quads) continue;
      float values[4];
#pragma unroll
      for (int column = 0; column < 4; column++) {
        const float gate = Plain ? soft_capped(gates[i].at[column] * pair.gate.factor) : gates[i].at[column];
        const float up = Plain ? soft_capped(ups[i].at[column] * pair.up.factor) : ups[i].at[column];
        values[column] = gated_unit(gate, up);
        largest = max(largest, magnitude_bits(values[column]));
        values[column] *= inverse;
      }
      const int column = (first + i * team.threads) * 4;
      if (Plain || stride % 4 == 0) {
        *reinterpret_cast<HalfQuad*>(halves + column) = {
            {float2_to_half2(values[0], values[1]), float2_to_half2(values[2], values[3])}};
      } else {
        for (int one = 0; one < min(4, stride - column); one++) halves[column + one] = float_to_half(values[one]);
      }
    }
  }
  return largest;
}

KERNEL(gated_epilogue_half, GatedEpilogueHalfArguments, kRowThreads) {
  dependency_release();
  const Team team = block_team(quads_of(a.out_stride));
  if (team.thread >= team.threads) return;
  dependency_wait();
  const int index = block_x();
  if (index >= *a.row_count) return;
  const float scale = a.row_scales[index];
  const EpiloguePair pair = {
      epilogue_row(row_of(a.gate, index, a.gate_stride, a.width), a.gate_bias, a.gate_factor, scale),
      epilogue_row(row_of(a.up, index, a.up_stride, a.width), a.up_bias, a.up_factor, scale)};
  u16* const halves = a.halves + u64(index) * u64(a.out_stride);
  const auto write = [&](float inverse) {
    const bool plain = pair.gate.row.aligned && pair.up.row.aligned && a.gate_bias == nullptr && a.up_bias == nullptr &&
                       a.out_stride == a.width;
    return plain ? write_gated<true>(pair, team, a.out_stride, inverse, halves)
                 : write_gated<false>(pair, team, a.out_stride, inverse, halves);
  };
  const float out_scale = half_scale(team_max(team, write(1.0f)));
  if (out_scale != 1.0f) write(1.0f / out_scale);
  if (team.thread == 0) a.out_scales[index] = out_scale;
}
