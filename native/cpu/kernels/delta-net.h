// Gated delta net of one head: S ← aS, δ = β(v − Sᵀk), S ← S + kδᵀ, out = Sᵀq ÷ √width. Include after a
// simd/*-float.h, exponential.h and row-kernels.h.
//
// Several tokens are computed in two passes over S, whatever their number. With P(i, j) the product of the decays a after
// token j up to token i, and P(i) that of all up to i:
//   δᵢ = βᵢ(vᵢ − P(i) Sᵀkᵢ − Σ_{j<i} P(i, j)(kⱼ·kᵢ) δⱼ)
//   outᵢ = P(i) Sᵀqᵢ + Σ_{j≤i} P(i, j)(kⱼ·qᵢ) δⱼ
//   S ← P(last) S + Σⱼ P(last, j) kⱼδⱼᵀ
// The first pass has Sᵀk and Sᵀq of all tokens in registers, the triangular system is solved in each lane by itself, and
// the second pass updates S. One token is the case without sums, in which S is read from memory once: the second pass
// finds it in the cache.

#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "kernel-table.h"
#include "row-kernels.h"
#include "state-tiles.h"

namespace rocmforge {
namespace {

/// Half of the registers hold Sᵀk and Sᵀq.
constexpr size_t kDeltaSums = kRegisters / 2;
constexpr size_t kDeltaTokens = kDeltaSums / 2;

/// The factors of a chunk of tokens, which all columns share.
struct DeltaFactors {
  /// Element r of token t's key is keys[r × pitch + t]; the queries lie beside them.
  const float* keys;
  const float* queries;
  size_t pitch;
  /// P(i) and β.
  float kept[kDeltaTokens];
  float rates[kDeltaTokens];
  /// P(i, j)(kⱼ·kᵢ) and P(i, j)(kⱼ·qᵢ).
  float key_pairs[kDeltaTokens][kDeltaTokens];
  float query_pairs[kDeltaTokens][kDeltaTokens];
  /// P(last, j).
  float left[kDeltaTokens];
};

inline float dot(const float* left, const float* right, size_t width) {
  F total = zero();
  size_t k = 0;
  for (; k + kLanes <= width; k += kLanes) total = fma(load(left + k), load(right + k), total);
  if (k < width) total = fma(load_part(left + k, width - k), load_part(right + k, width - k), total);
  return sum(total);
}

/// A head divided by its norm, or by epsilon if that is larger, and multiplied by `factor`.
inline void normalize_head(const float* head, size_t width, double factor, float epsilon, float* out) {
  const double norm = ::sqrt(sum_of_squares(head, width));
  const double least = static_cast<double>(epsilon);
  scale(head, width, static_cast<float>(factor / (norm > least ? norm : least)), out);
}

template <size_t tokens>
inline void prepare_factors(const DeltaNetRun& run, size_t first, float* scratch, DeltaFactors& factors) {
  const size_t width = run.width;
  float* const keys = scratch;
  float* const queries = keys + tokens * width;
  const double query_factor = 1 / ::sqrt(static_cast<double>(width));
  float decays[tokens];
  for (size_t t = 0; t < tokens; t++) {
    const size_t token = first + t;
    normalize_head(run.keys + token * run.stride, width, 1, run.epsilon, keys + t * width);
    normalize_head(run.queries + token * run.stride, width, query_factor, run.epsilon, queries + t * width);
    const double alpha = static_cast<double>(run.alphas[token * run.alpha_stride]) + static_cast<double>(run.bias);
    decays[t] = static_cast<float>(::exp(static_cast<double>(run.decay) * softplus(alpha)));
    factors.rates[t] = static_cast<float>(1 / (1 + ::exp(-static_cast<double>(run.betas[token * run.beta_stride]))));
    factors.kept[t] = t == 0 ? decays[0] : decays[t] * factors.kept[t - 1];
  }
  for (size_t j = 0; j < tokens; j++) {
    float between = 1;
    for (size_t i = j; i < tokens; i++) {
      if (i > j) between *= decays[i];
      const float* const key = keys + j * width;
      factors.query_pairs[i][j] = between * dot(key, queries + i * width, width);
      if (i > j) factors.key_pairs[i][j] = between * dot(key, keys + i * width, width);
    }
    factors.left[j] = between;
  }
  if constexpr (tokens == 1) {
    factors.keys = keys;
    factors.queries = queries;
    factors.pitch = 1;
    return;
  }
  float* const pairs = queries + tokens * width;
  interleave(keys, tokens, width, width, pairs);
  interleave(queries, tokens, width, width, pairs + tokens);
  factors.keys = pairs;
  factors.queries = pairs + tokens;
  factors.pitch = 2 * tokens;
}

/// A chunk of tokens over some vectors of columns.
template <size_t tokens>
struct DeltaTile {
  const DeltaNetRun& run_;
  const DeltaFactors& factors_;
  size_t first_;
  const float* from_;

  template <size_t vectors, bool part>
  inline void run(size_t column, size_t count) const {
    const DeltaFactors& factors = factors_;
    const size_t width = run_.width;
    const size_t pitch = factors.pitch;
    F deltas[tokens][vectors], outs[tokens][vectors];
    ROCMFORGE_UNROLL(8)
    for (size_t t = 0; t < tokens; t++) {
      ROCMFORGE_UNROLL(8)
      for (size_t v = 0; v < vectors; v++) deltas[t][v] = outs[t][v] = zero();
    }
    for (size_t row = 0; row < width; row++) {
      const float* const state = from_ + row * width + column;
      ROCMFORGE_UNROLL(8)
      for (size_t v = 0; v < vectors; v++) {
        const F held = load_columns<part>(state + v * kLanes, count);
        ROCMFORGE_UNROLL(8)
        for (size_t t = 0; t < tokens; t++) {
          deltas[t][v] = fma(set(factors.keys[row * pitch + t]), held, deltas[t][v]);
          outs[t][v] = fma(set(factors.queries[row * pitch + t]), held, outs[t][v]);
        }
      }
    }
    ROCMFORGE_UNROLL(8)
    for (size_t t = 0; t < tokens; t++) {
      const float* const values = run_.values + (first_ + t) * run_.stride + column;
      float* const out = run_.out + (first_ + t) * run_.out_stride + column;
      ROCMFORGE_UNROLL(8)
      for (size_t v = 0; v < vectors; v++) {
        F known = mul(set(factors.kept[t]), deltas[t][v]);
        F read = mul(set(factors.kept[t]), outs[t][v]);
        ROCMFORGE_UNROLL(8)
        for (size_t j = 0; j < t; j++) {
          known = fma(set(factors.key_pairs[t][j]), deltas[j][v], known);
          read = fma(set(factors.query_pairs[t][j]), deltas[j][v], read);
        }
        const F value = load_columns<part>(values + v * kLanes, count);
        deltas[t][v] = mul(set(factors.rates[t]), sub(value, known));
        store_columns<part>(out + v * kLanes, fma(set(factors.query_pairs[t][t]), deltas[t][v], read), count);
      }
    }
    ROCMFORGE_UNROLL(8)
    for (size_t t = 0; t + 1 < tokens; t++) {
      ROCMFORGE_UNROLL(8)
      for (size_t v = 0; v < vectors; v++) deltas[t][v] = mul(set(factors.left[t]), deltas[t][v]);
    }
    const F kept = set(factors.kept[tokens - 1]);
    for (size_t row = 0; row < width; row++) {
      const float* const state = from_ + row * width + column;
      float* const target = run_.to + row * width + column;
      ROCMFORGE_UNROLL(8)
      for (size_t v = 0; v < vectors; v++) {
        F held = mul(kept, load_columns<part>(state + v * kLanes, count));
        ROCMFORGE_UNROLL(8)
        for (size_t t = 0; t < tokens; t++) held = fma(set(factors.keys[row * pitch + t]), deltas[t][v], held);
        store_columns<part>(target + v * kLanes, held, count);
      }
    }
  }
};

/// Some tokens over all columns of the run.
struct DeltaChunk {
  const DeltaNetRun& run_;
  float* scratch_;

  template <size_t tokens>
  inline void run(size_t first, const float* from) const {
    DeltaFactors factors;
    prepare_factors<tokens>(run_, first, scratch_, factors);
    const DeltaTile<tokens> tile = {run_, factors, first, from};
    for_each_tile<kDeltaTokens / tokens>(tile, run_.first_column, run_.end_column);
  }
};

size_t delta_net_scratch_bytes(size_t width) { return 4 * kDeltaTokens * width * sizeof(float); }

void delta_net(const DeltaNetRun& run, uint8_t* scratch) {
  const DeltaChunk chunk = {run, reinterpret_cast<float*>(scratch)};
  const float* const from = state_before(run, run.width, run.width);
  if (run.one_by_one) return for_each_chunk<1>(run, 0, from, chunk);
  for_each_chunk<kDeltaTokens>(run, 0, from, chunk);
}

}  // namespace
}  // namespace rocmforge
