// GEMM of Q4_K with AVX-512 whose vectors hold 16 tokens, and not 16 weight rows as tiles do (avx512-tiles.h). A row's
// scale of a unit is one of 64 whole numbers, the same in all lanes, so its product with the tokens' scales is looked up
// in a table that all rows share: one multiplication for each unit instead of two, and no shuffles when unpacking.
// Multipliers limit GEMM: for 64 dot products it takes 8 multiplications here, and 4 dot products of 16 bits and 3
// multiplications for all minima. To be included after the block types.

#pragma once

#include <type_traits>

#include "avx512-tiles.h"

#include "../tile-form.h"
#include "../weight-prefetch.h"

namespace rocmforge {
namespace {

constexpr size_t kLaneTokens = kPanelTokens;
static_assert(kLaneTokens == kLanes, "a vector has the tokens of a panel");
/// Levels of 4 bits stay bytes if they are multiplied by this and less.
constexpr size_t kMaxFactor = 255 / Q4_K::kHighest;
constexpr size_t kSixBits = 64;

/// A scale of 6 bits as factor × step: levels are multiplied by the factor when they are unpacked, and the table has the
/// steps alone, which is a third of it.
struct ScaleSteps {
  size_t count = 0;
  uint8_t steps[kSixBits] = {};
  /// Of every scale: the factor, and the step's place in `steps`.
  uint8_t factors[kSixBits] = {};
  uint8_t indices[kSixBits] = {};
};

constexpr ScaleSteps scale_steps() {
  ScaleSteps out;
  for (size_t scale = 1; scale < kSixBits; scale++) {
    for (size_t index = 0; index < out.count && out.factors[scale] == 0; index++) {
      if (scale % out.steps[index] != 0 || scale / out.steps[index] > kMaxFactor) continue;
      out.factors[scale] = static_cast<uint8_t>(scale / out.steps[index]);
      out.indices[scale] = static_cast<uint8_t>(index);
    }
    if (out.factors[scale] != 0) continue;
    size_t factor = kMaxFactor;
    while (scale % factor != 0) factor--;
    out.factors[scale] = static_cast<uint8_t>(factor);
    out.indices[scale] = static_cast<uint8_t>(out.count);
    out.steps[out.count++] = static_cast<uint8_t>(scale / factor);
  }
  return out;
}
constexpr ScaleSteps kScaleSteps = scale_steps();

/// Every level times every factor.
struct FactorLevels {
  uint8_t levels[kMaxFactor + 1][16] = {};
};
constexpr FactorLevels factor_levels() {
  FactorLevels out;
  for (size_t factor = 0; factor <= kMaxFactor; factor++) {
    for (size_t level = 0; level < 16; level++) out.levels[factor][level] = static_cast<uint8_t>(factor * level);
  }
  return out;
}
alignas(64) constexpr FactorLevels kFactorLevels = factor_levels();

/// One chunk of a weight row: each level times its scale's factor, and where in a panel's table its steps are.
struct alignas(64) LaneRow {
  uint8_t levels[kChunk];
  uint32_t steps[kChunkUnits];
  int16_t minima[kChunkUnits];
  float scale;
  float minimum;
};

/// What a panel has for all rows, of one chunk: the tokens' scales times every step; the scaled sums of their levels as 16
/// bits, of two units beside each other; and what these are multiplied by.
struct alignas(64) LaneTable {
  float steps[kChunkUnits][kScaleSteps.count][kLaneTokens];
  int16_t sums[kChunkUnits / 2][kLaneTokens][2];
  float sum_scales[kLaneTokens];
};

using LanePanel = PanelChunk<kLaneTokens>;

inline void prepare_table(const LanePanel& panel, LaneTable& table) {
  F largest = zero();
  for (size_t unit = 0; unit < kChunkUnits; unit++) {
    const F scale = load(panel.scales[unit]);
    ROCMFORGE_UNROLL(32)
    for (size_t index = 0; index < kScaleSteps.count; index++)
      store(table.steps[unit][index], mul(scale, set(kScaleSteps.steps[index])));
    largest = max(largest, abs(load(panel.sums[unit])));
  }
  // Never zero, so that there is no quotient that is none. A sum that is NaN has a scale that is NaN, too.
  const F sum_scale = max(mul(largest, set(1.0f / 32767)), set(1e-37f));
  store(table.sum_scales, sum_scale);
  for (size_t pair = 0; pair < kChunkUnits / 2; pair++) {
    const __m512i low = round_to_int(div(load(panel.sums[2 * pair]), sum_scale));
    const __m512i high = round_to_int(div(load(panel.sums[2 * pair + 1]), sum_scale));
    _mm512_storeu_si512(table.sums[pair], _mm512_mask_blend_epi16(0xaaaaaaaa, low, _mm512_slli_epi32(high, 16)));
  }
}

inline void unpack_lane_row(const uint8_t* chunk, LaneRow& row) {
  uint32_t packed[3];
  memcpy(packed, chunk + 4, sizeof packed);
  const uint32_t words[4] = {packed[0] & 0x3f3f3f3f, (packed[2] & 0x0f0f0f0f) | (packed[0] >> 2 & 0x30303030),
                             packed[1] & 0x3f3f3f3f, (packed[2] >> 4 & 0x0f0f0f0f) | (packed[1] >> 2 & 0x30303030)};
  uint8_t codes[2 * kChunkUnits];
  memcpy(codes, words, sizeof codes);
  row.scale = half_at(chunk);
  row.minimum = half_at(chunk + 2);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(row.minima),
                   _mm_cvtepu8_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes + kChunkUnits))));
  const __m256i nibble = _mm256_set1_epi8(15);
  ROCMFORGE_UNROLL(4)
  for (size_t pair = 0; pair < kChunkUnits / 2; pair++) {
    const Bytes both = load_32(chunk + 16 + pair * 32);
    const Bytes nibbles[2] = {_mm256_and_si256(both, nibble), _mm256_and_si256(_mm256_srli_epi16(both, 4), nibble)};
    ROCMFORGE_UNROLL(2)
    for (size_t half = 0; half < 2; half++) {
      const size_t unit = 2 * pair + half;
      const uint8_t code = codes[unit];
      row.steps[unit] = static_cast<uint32_t>((unit * kScaleSteps.count + kScaleSteps.indices[code]) * kLaneTokens);
      const Bytes multiples = _mm256_broadcastsi128_si256(load_16(kFactorLevels.levels[kScaleSteps.factors[code]]));
      store_unit(row.levels + unit * kUnit, _mm256_shuffle_epi8(multiples, nibbles[half]));
    }
  }
}

/// sums[panel][row][token] += row × panel, for kRows rows and kPanels panels; `first` starts from zero.
template <size_t kPanels, size_t kRows>
ROCMFORGE_INLINE inline void multiply_lanes(const LaneRow* rows, const LanePanel* const (&panels)[kPanels],
                                            const LaneTable* tables, float* sums, size_t panel_sums, bool first) {
  F totals[kPanels][kRows];
  __m512i dots[kPanels][kRows];
  for (size_t panel = 0; panel < kPanels; panel++) {
    ROCMFORGE_UNROLL(8)
    for (size_t row = 0; row < kRows; row++) totals[panel][row] = zero();
  }
  for (size_t unit = 0; unit < kChunkUnits; unit++) {
    for (size_t panel = 0; panel < kPanels; panel++) {
      ROCMFORGE_UNROLL(8)
      for (size_t row = 0; row < kRows; row++) dots[panel][row] = _mm512_setzero_si512();
    }
    ROCMFORGE_UNROLL(8)
    for (size_t quad = 0; quad < kUnit / 4; quad++) {
      __m512i values[kPanels];
      for (size_t panel = 0; panel < kPanels; panel++)
        values[panel] = _mm512_loadu_si512(panels[panel]->values[unit * (kUnit / 4) + quad]);
      ROCMFORGE_UNROLL(8)
      for (size_t row = 0; row < kRows; row++) {
        int32_t four;
        memcpy(&four, rows[row].levels + unit * kUnit + quad * 4, sizeof four);
        const __m512i weight = _mm512_set1_epi32(four);
        for (size_t panel = 0; panel < kPanels; panel++)
          dots[panel][row] = _mm512_dpbusd_epi32(dots[panel][row], weight, values[panel]);
      }
    }
    ROCMFORGE_UNROLL(8)
    for (size_t row = 0; row < kRows; row++) {
      for (size_t panel = 0; panel < kPanels; panel++) {
        const F step = load(tables[panel].steps[0][0] + rows[row].steps[unit]);
        totals[panel][row] = fma(to_float(dots[panel][row]), step, totals[panel][row]);
      }
    }
  }
  ROCMFORGE_UNROLL(4)
  for (size_t pair = 0; pair < kChunkUnits / 2; pair++) {
    ROCMFORGE_UNROLL(8)
    for (size_t row = 0; row < kRows; row++) {
      int32_t two;
      memcpy(&two, rows[row].minima + 2 * pair, sizeof two);
      for (size_t panel = 0; panel < kPanels; panel++) {
        const __m512i begun = pair == 0 ? _mm512_setzero_si512() : dots[panel][row];
        dots[panel][row] =
            _mm512_dpwssd_epi32(begun, _mm512_loadu_si512(tables[panel].sums[pair]), _mm512_set1_epi32(two));
      }
    }
  }
  for (size_t panel = 0; panel < kPanels; panel++) {
    const F sum_scale = load(tables[panel].sum_scales);
    ROCMFORGE_UNROLL(8)
    for (size_t row = 0; row < kRows; row++) {
      float* const to = sums + panel * panel_sums + row * kLaneTokens;
      const F minima = mul(to_float(dots[panel][row]), sum_scale);
      const F before = first ? zero() : load(to);
      const F added = fma(totals[panel][row], set(rows[row].scale), before);
      store(to, _mm512_fnmadd_ps(minima, set(rows[row].minimum), added));
    }
  }
}

/// As many rows as a tile has. Panels are `panel_bytes` apart, and their sums `panel_sums` floats.
template <size_t kPanels>
__attribute__((noinline)) void multiply_lane_rows(const LaneRow* rows, const uint8_t* first_panel, size_t panel_bytes,
                                                  const LaneTable* tables, float* sums, size_t panel_sums, bool first,
                                                  Prefetch next) {
  constexpr size_t kRows = 8 / kPanels;
  const LanePanel* panels[kPanels];
  for (size_t panel = 0; panel < kPanels; panel++)
    panels[panel] = reinterpret_cast<const LanePanel*>(first_panel + panel * panel_bytes);
  for (size_t row = 0; row < kTileRows; row += kRows) {
    next.issue(row / kRows, kTileRows / kRows);
    multiply_lanes<kPanels, kRows>(rows + row, panels, tables, sums + row * kLaneTokens, panel_sums, first);
  }
}

/// The sums of 16 rows, which lie row by row, to their place token by token.
inline void write_lane_sums(const float* sums, size_t rows, size_t tokens, float* out, size_t out_stride) {
  ROCMFORGE_UNROLL(2)
  for (size_t half = 0; half < kLaneTokens; half += 8) {
    Bytes halves[kTileRows];
    __m512i columns[8];
    for (size_t row = 0; row < kTileRows; row++)
      halves[row] = load_32(reinterpret_cast<const uint8_t*>(sums + row * kLaneTokens + half));
    transpose_unit(halves, columns);
    float* const to = out + half * out_stride;
    if (rows >= kTileRows && half + 8 <= tokens) {
      ROCMFORGE_UNROLL(8)
      for (size_t token = 0; token < 8; token++) store(to + token * out_stride, _mm512_castsi512_ps(columns[token]));
    } else {
      for (size_t token = 0; token < 8 && half + token < tokens; token++)
        store_part(to + token * out_stride, _mm512_castsi512_ps(columns[token]), rows < kTileRows ? rows : kTileRows);
    }
  }
}

template <>
struct LaneForm<Q4_K> {
  static constexpr bool kExists = true;

  /// Panels that are multiplied together, so that they share what is broadcast of the rows.
  static constexpr size_t kPanels = 2;
  /// Those of a panel's values, scales and sums.
  static constexpr size_t kPanelLines = offsetof(LanePanel, sums_16) / kLineBytes;
  struct Scratch {
    LaneRow rows[kGemmRows];
    LaneTable tables[kPanels];
  };
  static constexpr size_t kScratchBytes = sizeof(Scratch);

  /// See gemm_quant. A row that is missing in the last tile repeats the last one, and its sums are not read.
  static void gemm(const Matrix& weight, size_t first_row, size_t row_count, const Activations& activations, float* out,
                   size_t out_stride, uint8_t* scratch, float* sums) {
    Scratch& own = *reinterpret_cast<Scratch*>(scratch);
    const size_t padded = (row_count + kTileRows - 1) / kTileRows * kTileRows;
    const size_t chunk_count = chunks_of(weight.width);
    for (size_t chunk = 0; chunk < chunk_count; chunk++) {
      for (size_t row = 0; row < padded; row++) {
        const size_t present = first_row + (row < row_count ? row : row_count - 1);
        unpack_lane_row(weight.data + present * weight.row_bytes + chunk * Q4_K::kBytes, own.rows[row]);
      }
      const size_t pairs = (activations.groups + kPanels - 1) / kPanels;
      ChunkPrefetch<Q4_K> upcoming;
      if (chunk + 1 < chunk_count) {
        upcoming = {weight, first_row, row_count, chunk + 1, pairs};
      } else if (first_row + 2 * row_count <= weight.rows) {
        // The next call's rows.
        upcoming = {weight, first_row + row_count, row_count, 0, pairs};
      }
      for (size_t panel = 0; panel < activations.groups; panel += kPanels) {
        upcoming.issue();
        const auto multiply = [&](auto count) {
          constexpr size_t kCount = decltype(count)::value;
          const uint8_t* const panels = activations.data + panel * activations.group_bytes + chunk * sizeof(LanePanel);
          for (size_t index = 0; index < kCount; index++) {
            prepare_table(*reinterpret_cast<const LanePanel*>(panels + index * activations.group_bytes),
                          own.tables[index]);
          }
          const bool follows = panel + 2 * kPanels <= activations.groups;
          // With each tile's rows, a share of the next panels, first of one and then of the other.
          const size_t share = (kPanelLines * kPanels * kTileRows + padded - 1) / padded;
          size_t line = 0;
          for (size_t row = 0; row < padded; row += kTileRows, line += share) {
            const size_t following = line / kPanelLines;
            const Prefetch next = follows && following < kPanels
                                      ? Prefetch{panels + (kPanels + following) * activations.group_bytes +
                                                     line % kPanelLines * kLineBytes,
                                                 share}
                                      : Prefetch{};
            float* const to = sums + (panel * padded + row) * kLaneTokens;
            multiply_lane_rows<kCount>(own.rows + row, panels, activations.group_bytes, own.tables, to,
                                       padded * kLaneTokens, chunk == 0, next);
            for (size_t index = 0; chunk + 1 == chunk_count && index < kCount; index++) {
              const size_t token = (panel + index) * kLaneTokens;
              write_lane_sums(to + index * padded * kLaneTokens, row_count - row, activations.tokens - token,
                              out + token * out_stride + row, out_stride);
            }
          }
        };
        if (panel + kPanels <= activations.groups) {
          multiply(std::integral_constant<size_t, kPanels>());
        } else {
          multiply(std::integral_constant<size_t, 1>());
        }
      }
    }
  }
};

}  // namespace
}  // namespace rocmforge
