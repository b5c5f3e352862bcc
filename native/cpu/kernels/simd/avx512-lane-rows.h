// What GEMM with 16 tokens in the lanes of a vector (avx512-lane-gemm.h) does for each type: how a row is unpacked, what is
// prepared of a panel for all rows, and how some rows are multiplied with some panels. Unpacking takes no shuffles, and
// results are to the bit those of tiles. To be included after the block types.

#pragma once

#include "avx512-super-blocks.h"

namespace rocmforge {
namespace {

using LanePanel = PanelChunk<kPanelTokens>;

template <class Type>
struct LaneRows;

/// Where the sums of some rows and panels are: sums[panel][row][token], those of panels `stride` floats apart.
struct LaneSums {
  float* data;
  size_t stride;
  /// Whether sums start from zero.
  bool first;

  float* at(size_t panel, size_t row) const { return data + panel * stride + row * kPanelTokens; }
  F before(size_t panel, size_t row) const { return first ? zero() : load(at(panel, row)); }
};

/// Dot products of kQuads quads of every row and panel, from `first` on.
template <size_t kQuads, size_t kPanels, size_t kRows, class Row>
ROCMFORGE_INLINE inline void dot_lanes(const Row* rows, const LanePanel* const (&panels)[kPanels], size_t first,
                                       __m512i (&dots)[kPanels][kRows]) {
  ROCMFORGE_UNROLL(8)
  for (size_t quad = first; quad < first + kQuads; quad++) {
    __m512i values[kPanels];
    for (size_t panel = 0; panel < kPanels; panel++) values[panel] = _mm512_loadu_si512(panels[panel]->values[quad]);
    ROCMFORGE_UNROLL(8)
    for (size_t row = 0; row < kRows; row++) {
      int32_t four;
      memcpy(&four, rows[row].levels + quad * 4, sizeof four);
      const __m512i weight = _mm512_set1_epi32(four);
      for (size_t panel = 0; panel < kPanels; panel++)
        dots[panel][row] = _mm512_dpbusd_epi32(dots[panel][row], weight, values[panel]);
    }
  }
}

// ---- Q4_K
// ------------------------------------------------------------------------------------

/// Scales of 6 bits are a step times a power of two, by which levels are multiplied when they are unpacked, so that there are
/// fewer products of steps with the tokens' scales; powers of two change no bit of a product. Steps are the odd numbers,
/// and 2 for a scale of 32: levels of 4 bits stay bytes up to a power of 16.
constexpr size_t kOddSteps = 32;
constexpr size_t kSteps = kOddSteps + 1;
constexpr int kMostShift = 4;

template <>
struct LaneRows<Q4_K> {
  /// One chunk of a weight row.
  struct alignas(64) Row {
    uint8_t levels[kChunk];
    /// Where in a panel's table the steps of units begin.
    uint32_t steps[kChunkUnits];
    int16_t minima[kChunkUnits];
    float scale;
    float minimum;
  };
  /// The tokens' scales times every step.
  struct alignas(64) Table {
    float scales[kChunkUnits][kSteps][kPanelTokens];
  };
  /// Up to this many rows a table costs more than it gains, and tiles are faster.
  static constexpr size_t kMaxTileRows = 32;
  /// With two panels; as many sums as leave all of them in registers.
  static constexpr size_t kRowsTogether = 6;

  static void unpack(const uint8_t* chunk, Row& row) {
    row.scale = half_at(chunk);
    row.minimum = half_at(chunk + 2);
    const SixBitCodes codes = six_bit_codes(chunk);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(row.minima),
                     _mm_cvtepu8_epi16(_mm_cvtsi64_si128(static_cast<int64_t>(codes.minima))));
    const __m256i scales = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(static_cast<int64_t>(codes.scales)));
    const __m256i shifts = store_steps(scales, row.steps);
    const __m512i words = _mm512_castsi128_si512(_mm256_cvtepi32_epi16(shifts));
    // The lower nibbles are a unit, the upper ones the next.
    const __m512i second = halves_of_words(0, 1), nibble = _mm512_set1_epi8(15);
    const __m512i down = _mm512_slli_epi16(second, 2);
    ROCMFORGE_UNROLL(4)
    for (short pair = 0; pair < 4; pair++) {
      const __m512i both = _mm512_broadcast_i64x4(load_32(chunk + 16 + pair * 32));
      const __m512i levels = _mm512_and_si512(_mm512_srlv_epi16(both, down), nibble);
      const __m512i up = _mm512_permutexvar_epi16(_mm512_add_epi16(second, _mm512_set1_epi16(2 * pair)), words);
      _mm512_storeu_si512(row.levels + pair * 2 * kUnit, _mm512_sllv_epi16(levels, up));
    }
  }

  static void prepare(const LanePanel& panel, Table& table) {
    // All loads before the first store, so that they are waited for together.
    F scales[kChunkUnits];
    ROCMFORGE_UNROLL(8)
    for (size_t unit = 0; unit < kChunkUnits; unit++) scales[unit] = load(panel.scales[unit]);
    ROCMFORGE_UNROLL(8)
    for (size_t unit = 0; unit < kChunkUnits; unit++) {
      for (size_t step = 0; step < kOddSteps; step++)
        store(table.scales[unit][step], mul(scales[unit], set(static_cast<float>(2 * step + 1))));
      store(table.scales[unit][kOddSteps], add(scales[unit], scales[unit]));
    }
  }

  template <size_t kPanels, size_t kRows>
  ROCMFORGE_INLINE static void multiply(const Row* rows, const LanePanel* const (&panels)[kPanels], const Table* tables,
                                        const LaneSums& sums) {
    constexpr size_t kQuads = kUnit / 4;
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
      dot_lanes<kQuads>(rows, panels, unit * kQuads, dots);
      ROCMFORGE_UNROLL(8)
      for (size_t row = 0; row < kRows; row++) {
        for (size_t panel = 0; panel < kPanels; panel++) {
          const F scale = load(tables[panel].scales[0][0] + rows[row].steps[unit]);
          totals[panel][row] = fma(to_float(dots[panel][row]), scale, totals[panel][row]);
        }
      }
    }
    ROCMFORGE_UNROLL(4)
    for (size_t pair = 0; pair < kChunkUnits / 2; pair++) {
      ROCMFORGE_UNROLL(8)
      for (size_t row = 0; row < kRows; row++) {
        for (size_t panel = 0; panel < kPanels; panel++) {
          const __m512i begun = pair == 0 ? _mm512_setzero_si512() : dots[panel][row];
          dots[panel][row] = dot_words(begun, panels[panel]->short_sums[pair], rows[row].minima + 2 * pair);
        }
      }
    }
    for (size_t panel = 0; panel < kPanels; panel++) {
      const F sum_scale = load(panels[panel]->short_sum_scales);
      ROCMFORGE_UNROLL(8)
      for (size_t row = 0; row < kRows; row++) {
        store(sums.at(panel, row), add_super_block(sums.before(panel, row), totals[panel][row], set(rows[row].scale),
                                                   dots[panel][row], sum_scale, set(rows[row].minimum)));
      }
    }
  }

 private:
  static __m512i halves_of_words(short low, short high) {
    return _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_set1_epi16(low)), _mm256_set1_epi16(high), 1);
  }

  /// Stores where the units' steps are, and returns by how many bits their levels are shifted.
  static __m256i store_steps(__m256i scales, uint32_t* steps) {
    const __m256i lowest_bit = _mm256_and_si256(scales, _mm256_sub_epi32(_mm256_setzero_si256(), scales));
    // The exponent of a power of two; a scale of zero has none, and its levels are shifted away.
    const __m256i power =
        _mm256_sub_epi32(_mm256_srli_epi32(_mm256_castps_si256(_mm256_cvtepi32_ps(lowest_bit)), 23), set_all(127));
    const __m256i shifts = _mm256_min_epu32(power, set_all(kMostShift));
    const __m256i step = _mm256_srlv_epi32(scales, shifts);
    __m256i place = _mm256_srli_epi32(step, 1);
    place = _mm256_mask_mov_epi32(place, _mm256_cmpeq_epi32_mask(step, set_all(2)), set_all(kOddSteps));
    const __m256i units = _mm256_mullo_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), set_all(kSteps));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(steps),
                        _mm256_mullo_epi32(_mm256_add_epi32(units, place), set_all(kPanelTokens)));
    return _mm256_mask_mov_epi32(shifts, _mm256_testn_epi32_mask(scales, scales), set_all(16));
  }
  static __m256i set_all(int value) { return _mm256_set1_epi32(value); }
};

// ---- Q6_K
// ------------------------------------------------------------------------------------

template <>
struct LaneRows<Q6_K> {
  struct alignas(64) Row {
    /// As tile_levels has them.
    uint8_t levels[kChunk];
    float scales[2 * kChunkUnits];
  };
  struct Table {};
  static constexpr size_t kMaxTileRows = 0;
  static constexpr size_t kRowsTogether = 4;

  static void unpack(const uint8_t* chunk, Row& row) {
    store(row.scales, RowScales<Q6_K>::of(chunk).scales);
    ROCMFORGE_UNROLL(4)
    for (size_t unit = 0; unit < kChunkUnits; unit += kRowUnits) {
      const __m512i offset = _mm512_set1_epi8(static_cast<char>(128 - Q6_K::kOffset));
      _mm512_storeu_si512(row.levels + unit * kUnit, _mm512_add_epi8(row_levels<Q6_K>(chunk, unit), offset));
    }
  }

  static void prepare(const LanePanel&, Table&) {}

  template <size_t kPanels, size_t kRows>
  ROCMFORGE_INLINE static void multiply(const Row* rows, const LanePanel* const (&panels)[kPanels], const Table*,
                                        const LaneSums& sums) {
    constexpr size_t kQuads = kUnit / 8;
    F totals[kPanels][kRows];
    for (size_t panel = 0; panel < kPanels; panel++) {
      ROCMFORGE_UNROLL(8)
      for (size_t row = 0; row < kRows; row++) totals[panel][row] = sums.before(panel, row);
    }
    for (size_t unit = 0; unit < kChunkUnits; unit++) {
      F halves[kPanels][kRows];
      ROCMFORGE_UNROLL(2)
      for (size_t half = 0; half < 2; half++) {
        const size_t group = 2 * unit + half;
        __m512i dots[kPanels][kRows];
        for (size_t panel = 0; panel < kPanels; panel++) {
          const __m512i begun = _mm512_loadu_si512(panels[panel]->corrections_16[group]);
          ROCMFORGE_UNROLL(8)
          for (size_t row = 0; row < kRows; row++) dots[panel][row] = begun;
        }
        dot_lanes<kQuads>(rows, panels, group * kQuads, dots);
        ROCMFORGE_UNROLL(8)
        for (size_t row = 0; row < kRows; row++) {
          const F scale = set(rows[row].scales[group]);
          for (size_t panel = 0; panel < kPanels; panel++) {
            const F dot = to_float(dots[panel][row]);
            halves[panel][row] = half == 0 ? mul(dot, scale) : fma(dot, scale, halves[panel][row]);
          }
        }
      }
      for (size_t panel = 0; panel < kPanels; panel++) {
        const F scale = load(panels[panel]->scales[unit]);
        ROCMFORGE_UNROLL(8)
        for (size_t row = 0; row < kRows; row++)
          totals[panel][row] = fma(halves[panel][row], scale, totals[panel][row]);
      }
    }
    for (size_t panel = 0; panel < kPanels; panel++) {
      ROCMFORGE_UNROLL(8)
      for (size_t row = 0; row < kRows; row++) store(sums.at(panel, row), totals[panel][row]);
    }
  }
};

}  // namespace
}  // namespace rocmforge
