// The scan of Mamba-2 of one head: S ← exp(Δa)S + B ⊗ Δx, out = SᵀC + skip × x, with Δ = softplus(step + bias). Include
// after a simd/*-float.h, exponential.h and row-kernels.h.
//
// A row of S needs nothing of the others, so it is loaded once, brought through several tokens and stored: the same
// operations in the same order as one token after the other, with fewer passes over S.

#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "kernel-table.h"
#include "state-tiles.h"

namespace rocmforge {
namespace {

/// Half of the registers hold Δx and the results.
constexpr size_t kScanTokens = kRegisters / 4 < 4 ? kRegisters / 4 : 4;
constexpr size_t kScanVectors = kRegisters / 4 / kScanTokens;

/// The factors of some tokens, which all columns share.
struct ScanFactors {
  /// Element r of token t's B is b[r × pitch + t]; C lies beside it.
  const float* b;
  const float* c;
  size_t pitch;
  float kept[kScanTokens];
  float deltas[kScanTokens];
};

template <size_t tokens>
inline void prepare_scan(const SsmScanRun& run, size_t first, float* scratch, ScanFactors& factors) {
  for (size_t t = 0; t < tokens; t++) {
    const double step = static_cast<double>(run.steps[(first + t) * run.step_stride]) + static_cast<double>(run.bias);
    const double delta = softplus(step);
    factors.deltas[t] = static_cast<float>(delta);
    factors.kept[t] = static_cast<float>(::exp(delta * static_cast<double>(run.decay)));
  }
  const float* const b = run.b + first * run.stride;
  const float* const c = run.c + first * run.stride;
  if constexpr (tokens == 1) {
    factors.b = b;
    factors.c = c;
    factors.pitch = 1;
    return;
  }
  interleave(b, tokens, run.stride, run.state_width, scratch);
  interleave(c, tokens, run.stride, run.state_width, scratch + tokens);
  factors.b = scratch;
  factors.c = scratch + tokens;
  factors.pitch = 2 * tokens;
}

/// Some tokens over some vectors of columns.
template <size_t tokens>
struct ScanTile {
  const SsmScanRun& run_;
  const ScanFactors& factors_;
  size_t first_;
  const float* from_;

  template <size_t vectors, bool part>
  inline void run(size_t column, size_t count) const {
    const ScanFactors& factors = factors_;
    const size_t width = run_.head_width;
    const size_t pitch = factors.pitch;
    F added[tokens][vectors], outs[tokens][vectors], kept[tokens];
    ROCMFORGE_UNROLL(8)
    for (size_t t = 0; t < tokens; t++) {
      kept[t] = set(factors.kept[t]);
      const float* const x = run_.x + (first_ + t) * run_.stride + column;
      ROCMFORGE_UNROLL(8)
      for (size_t v = 0; v < vectors; v++) {
        added[t][v] = mul(set(factors.deltas[t]), load_columns<part>(x + v * kLanes, count));
        outs[t][v] = zero();
      }
    }
    for (size_t row = 0; row < run_.state_width; row++) {
      const float* const state = from_ + row * width + column;
      float* const target = run_.to + row * width + column;
      ROCMFORGE_UNROLL(8)
      for (size_t v = 0; v < vectors; v++) {
        F held = load_columns<part>(state + v * kLanes, count);
        ROCMFORGE_UNROLL(8)
        for (size_t t = 0; t < tokens; t++) {
          held = fma(set(factors.b[row * pitch + t]), added[t][v], mul(held, kept[t]));
          outs[t][v] = fma(set(factors.c[row * pitch + t]), held, outs[t][v]);
        }
        store_columns<part>(target + v * kLanes, held, count);
      }
    }
    const F skip = set(run_.skip);
    ROCMFORGE_UNROLL(8)
    for (size_t t = 0; t < tokens; t++) {
      const float* const x = run_.x + (first_ + t) * run_.stride + column;
      float* const out = run_.out + (first_ + t) * run_.out_stride + column;
      ROCMFORGE_UNROLL(8)
      for (size_t v = 0; v < vectors; v++) {
        const F input = load_columns<part>(x + v * kLanes, count);
        store_columns<part>(out + v * kLanes, fma(skip, input, outs[t][v]), count);
      }
    }
  }
};

/// Some tokens over all columns of the run.
struct ScanChunk {
  const SsmScanRun& run_;
  float* scratch_;

  template <size_t tokens>
  inline void run(size_t first, const float* from) const {
    ScanFactors factors;
    prepare_scan<tokens>(run_, first, scratch_, factors);
    const ScanTile<tokens> tile = {run_, factors, first, from};
    for_each_tile<kScanVectors * kScanTokens / tokens>(tile, run_.first_column, run_.end_column);
  }
};

size_t ssm_scan_scratch_bytes(size_t state_width) { return 2 * kScanTokens * state_width * sizeof(float); }

void ssm_scan(const SsmScanRun& run, uint8_t* scratch) {
  const ScanChunk chunk = {run, reinterpret_cast<float*>(scratch)};
  for_each_chunk<kScanTokens>(run, 0, state_before(run, run.state_width, run.head_width), chunk);
}

}  // namespace
}  // namespace rocmforge
