// What attention/flash.hip and attention/wide-flash.hip have of their tokens: queries on their way into panels, and results on
// their way out of the registers of a team's four waves. Defines: those of attention/flash-tile.h and attention/output.h.
#pragma once
#include "attention/flash-tile.h"
#include "attention/output.h"

/** Columns that a wave writes at a time, and what it needs of shared memory for its 16 rows of them. */
constexpr int kResultColumns = 32;
constexpr int kResultFloats = 16 * kResultColumns;

/**
 * A tile's 64 queries of a head, times the scale and log2 e, by Threads; rows that are not there as zeros. A wave has whole
 * rows, and its lanes neighbouring columns of a panel, one at a time: a view of columns begins anywhere. Many loads are under
 * way at once.
 */
template <int Threads, typename Arguments>
DEVICE void stage_queries(const Arguments& a, int first_token, int tokens, int head, int first_position, u8* target) {
  constexpr int Panels = KEY_WIDTH / kPanelColumns, Waves = Threads / WAVE, Rows = Panels > 4 ? 4 : 8;
  static_assert(2 * WAVE == kPanelColumns && kTileTokens % (Waves * Rows) == 0, "whole panels and rounds");
  const int lane = lane_index();
  const float* const queries = a.query + u64(first_token) * u64(a.query_stride) + u64(head * KEY_WIDTH + 2 * lane);
#pragma unroll 1
  for (int first = wave_index() % Waves; first < kTileTokens; first += Waves * Rows) {
    float low[Rows][Panels], high[Rows][Panels];
#pragma unroll
    for (int index = 0; index < Rows; index++) {
      const float* const from = queries + u64(min(first + index * Waves, tokens - 1)) * u64(a.query_stride);
#pragma unroll
      for (int panel = 0; panel < Panels; panel++) {
        low[index][panel] = from[panel * kPanelColumns];
        high[index][panel] = from[panel * kPanelColumns + 1];
      }
    }
#pragma unroll
    for (int index = 0; index < Rows; index++) {
      const int row = first + index * Waves;
      const float factor = score_factor(a.scale, first_position + row);
      u8* const to = target + panel_chunk(row, lane / 4) + lane % 4 * 4;
#pragma unroll
      for (int panel = 0; panel < Panels; panel++) {
        const u32 word =
            u32(saturated_half(low[index][panel] * factor)) | u32(saturated_half(high[index][panel] * factor)) << 16;
        *reinterpret_cast<u32*>(to + panel * kQueryPanelBytes) = row < tokens ? word : 0;
      }
    }
  }
}

/** Sums of weights, of which four lanes have a part each, become what results are multiplied by. */
template <typename Arguments>
DEVICE void end_totals(const Arguments& a, int head, Running& running) {
#pragma unroll
  for (int slot = 0; slot < 2; slot++) {
    running.total[slot] += wave_xor(running.total[slot], 1);
    running.total[slot] += wave_xor(running.total[slot], 2);
    const float base = running.highest[slot] == negative_infinity() ? 0.0f : running.highest[slot];
    running.total[slot] = 1.0f / with_sink(a, head, base, running.total[slot]);
  }
}

/**
 * The team's columns from `column` on, some at a time through this wave's part of shared memory; rows past `tokens` are not
 * written.
 */
template <typename Arguments>
DEVICE void write_results(const Arguments& a, int first_token, int tokens, int column, const Running& running,
                          float* own) {
  const int wave = wave_index() % 4;
#pragma unroll
  for (int part = 0; part < kTeamColumns; part += kResultColumns) {
    wave_barrier();
#pragma unroll
    for (int tile = 0; tile < kResultColumns / 16; tile++) {
#pragma unroll
      for (int element = 0; element < kTileElements; element++) {
        const int row = tile_row(element);
        own[row * kResultColumns + ((tile * 16 + tile_column(element)) ^ (row % 8 * 4))] =
            running.values[part / 16 + tile].values[element] * running.total[slot_of(element)];
      }
    }
    wave_barrier();
    if (tokens == 0) continue;
#pragma unroll 4
    for (int row = 0; row < 16; row++) {
      const int token = wave * 16 + row;
      write_column(a, first_token + token, column + part + lane_index(), token < tokens,
                   own[row * kResultColumns + (lane_index() ^ (row % 8 * 4))]);
    }
  }
}
