// GEMM of some types with AVX-512 whose vectors hold 16 tokens, and not 16 weight rows as tiles do (avx512-tiles.h): for
// more tokens than a few panels, and to the bit the same results. What each type does is in avx512-lane-rows.h.

#pragma once

#include <type_traits>

#include "avx512-lane-rows.h"

#include "../tile-form.h"
#include "../weight-prefetch.h"

namespace rocmforge {
namespace {

/// How many rows ahead of unpacking a chunk is prefetched to the first-level cache: ChunkPrefetch brings it to the second.
constexpr size_t kUnpackPrefetchRows = 12;

/// The sums of 16 rows, which lie row by row, as results token by token; `results` has room for 16 rows and tokens.
inline void transpose_sums(const float* sums, float* results, size_t stride) {
  ROCMFORGE_UNROLL(2)
  for (size_t half = 0; half < kPanelTokens; half += 8) {
    Bytes halves[kTileRows];
    __m512i columns[8];
    for (size_t row = 0; row < kTileRows; row++)
      halves[row] = load_32(reinterpret_cast<const uint8_t*>(sums + row * kPanelTokens + half));
    transpose_unit(halves, columns);
    ROCMFORGE_UNROLL(8)
    for (size_t token = 0; token < 8; token++)
      store(results + (half + token) * stride, _mm512_castsi512_ps(columns[token]));
  }
}

/// One call of GEMM.
template <class Type>
class LaneGemm {
 public:
  using Rows = LaneRows<Type>;
  /// Panels that are multiplied together, so that they share what is broadcast of the rows.
  static constexpr size_t kPanels = 2;

  struct Scratch {
    typename Rows::Row rows[kGemmRows];
    typename Rows::Table tables[kPanels];
    float results[kPanelTokens * kTileRows];
  };

  LaneGemm(const Matrix& weight, size_t first_row, size_t row_count, const Activations& activations, float* out,
           size_t out_stride, uint8_t* scratch, float* sums)
      : weight_(weight),
        first_row_(first_row),
        row_count_(row_count),
        padded_((row_count + kTileRows - 1) / kTileRows * kTileRows),
        chunk_count_(chunks_of(weight.width)),
        activations_(activations),
        out_(out),
        out_stride_(out_stride),
        own_(*reinterpret_cast<Scratch*>(scratch)),
        sums_(sums) {}

  void run() {
    for (size_t chunk = 0; chunk < chunk_count_; chunk++) {
      unpack(chunk);
      ChunkPrefetch<Type> upcoming = next_weights(chunk);
      for (size_t panel = 0; panel < activations_.groups; panel += kPanels) {
        upcoming.issue();
        if (panel + kPanels <= activations_.groups) {
          multiply<kPanels>(chunk, panel);
        } else {
          multiply<1>(chunk, panel);
        }
      }
    }
  }

 private:
  /// Those that a type reads are the first of a panel.
  static constexpr size_t kPanelLines = offsetof(LanePanel, corrections) / kLineBytes;

  /// A row that is missing in the last tile repeats the last one, and its sums are not read.
  void unpack(size_t chunk) {
    for (size_t row = 0; row < padded_; row++) {
      const size_t present = first_row_ + (row < row_count_ ? row : row_count_ - 1);
      const uint8_t* const at = weight_.data + present * weight_.row_bytes + chunk * Type::kBytes;
      for (size_t byte = 0; byte < Type::kBytes; byte += kLineBytes)
        __builtin_prefetch(at + kUnpackPrefetchRows * weight_.row_bytes + byte);
      Rows::unpack(at, own_.rows[row]);
    }
  }

  /// The rows' next chunk, or the first one of the next call's rows.
  ChunkPrefetch<Type> next_weights(size_t chunk) const {
    const size_t rounds = (activations_.groups + kPanels - 1) / kPanels;
    if (chunk + 1 < chunk_count_) return {weight_, first_row_, row_count_, chunk + 1, rounds};
    if (first_row_ + 2 * row_count_ > weight_.rows) return {};
    return {weight_, first_row_ + row_count_, row_count_, 0, rounds};
  }

  const uint8_t* panel_chunk(size_t panel, size_t chunk) const {
    return activations_.data + panel * activations_.group_bytes + chunk * sizeof(LanePanel);
  }
  float* panel_sums(size_t panel) const { return sums_ + panel * padded_ * kPanelTokens; }

  template <size_t kCount>
  void multiply(size_t chunk, size_t panel) {
    const LanePanel* panels[kCount];
    Prefetch next[kCount];
    for (size_t index = 0; index < kCount; index++) {
      panels[index] = reinterpret_cast<const LanePanel*>(panel_chunk(panel + index, chunk));
      const size_t following = panel + kPanels + index;
      if (following < activations_.groups) next[index] = {panel_chunk(following, chunk), kPanelLines};
      Rows::prepare(*panels[index], own_.tables[index]);
    }
    multiply_rows(panels, next, {panel_sums(panel), padded_ * kPanelTokens, chunk == 0});
    if (chunk + 1 < chunk_count_) return;
    for (size_t index = 0; index < kCount; index++) write_panel(panel + index);
  }

  template <size_t kCount>
  __attribute__((noinline)) void multiply_rows(const LanePanel* const (&panels)[kCount], const Prefetch (&next)[kCount],
                                               LaneSums sums) {
    const size_t parts = (padded_ + Rows::kRowsTogether - 1) / Rows::kRowsTogether;
    size_t row = 0;
    for (size_t part = 0; row + Rows::kRowsTogether <= padded_; part++) {
      for (const Prefetch& prefetch : next) prefetch.issue(part, parts);
      multiply_some<Rows::kRowsTogether>(panels, row, sums);
    }
    while (row + 4 <= padded_) multiply_some<4>(panels, row, sums);
    while (row < padded_) multiply_some<2>(panels, row, sums);
  }

  template <size_t kRows, size_t kCount>
  ROCMFORGE_INLINE void multiply_some(const LanePanel* const (&panels)[kCount], size_t& row, const LaneSums& sums) {
    Rows::template multiply<kCount, kRows>(own_.rows + row, panels, own_.tables,
                                           {sums.at(0, row), sums.stride, sums.first});
    row += kRows;
  }

  /// Results of whole tiles go straight to their place.
  void write_panel(size_t panel) {
    const size_t first = panel * kPanelTokens;
    const size_t rest = activations_.tokens - first;
    const size_t tokens = rest < kPanelTokens ? rest : kPanelTokens;
    float* const to = out_ + first * out_stride_;
    for (size_t row = 0; row < padded_; row += kTileRows) {
      const float* const sums = panel_sums(panel) + row * kPanelTokens;
      const size_t rows = row_count_ - row < kTileRows ? row_count_ - row : kTileRows;
      if (rows == kTileRows && tokens == kPanelTokens) {
        transpose_sums(sums, to + row, out_stride_);
        continue;
      }
      transpose_sums(sums, own_.results, kTileRows);
      for (size_t token = 0; token < tokens; token++)
        store_part(to + token * out_stride_ + row, load(own_.results + token * kTileRows), rows);
    }
  }

  const Matrix& weight_;
  const size_t first_row_;
  const size_t row_count_;
  /// Whole tiles.
  const size_t padded_;
  const size_t chunk_count_;
  const Activations& activations_;
  float* const out_;
  const size_t out_stride_;
  Scratch& own_;
  float* const sums_;
};

template <class Type>
struct LaneFormOf {
  static constexpr bool kExists = true;
  static constexpr size_t kScratchBytes = sizeof(typename LaneGemm<Type>::Scratch);
  static constexpr size_t kMaxTileRows = LaneRows<Type>::kMaxTileRows;

  /// See gemm_quant.
  static void gemm(const Matrix& weight, size_t first_row, size_t row_count, const Activations& activations, float* out,
                   size_t out_stride, uint8_t* scratch, float* sums) {
    LaneGemm<Type>(weight, first_row, row_count, activations, out, out_stride, scratch, sums).run();
  }
};
template <>
struct LaneForm<Q4_K> : LaneFormOf<Q4_K> {};
template <>
struct LaneForm<Q6_K> : LaneFormOf<Q6_K> {};

}  // namespace
}  // namespace rocmforge
