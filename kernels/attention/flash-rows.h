// What attention/flash.hip and attention/wide-flash.hip have of their tokens: queries on their way into panels, and results on
// their way out of the registers of a team's four waves. Defines: those of attention/flash-tile.h and attention/output.h.
#pragma once
#include "attention/flash-tile.h"
#include "attention/output.h"

/** Columns that a wave writes at a time, and what it needs of shared memory for its 16 rows of them. */
constexpr int kResultColumns = 32;
constexpr int kResultFloats = 16 * kResultColumns;

/** A tile's 64 queries of a head, times the scale and log2 e, by Threads; rows that are not there as zeros. */
template <int Threads, typename Arguments>
DEVICE void stage_queries(const Arguments& a, int first_token, int tokens, int head, int first_position, u8* target) {
  constexpr int Chunks = KEY_WIDTH / 8;
#pragma unroll 4
  for (int index = thread_index() % Threads; index < kTileTokens * Chunks; index += Threads) {
    const int row = index / Chunks, chunk = index % Chunks;
    const float factor = score_factor(a.scale, first_position + row);
    u32 words[4] = {};
    if (row < tokens) {
      const float* const from =
          a.query + u64(first_token + row) * u64(a.query_stride) + u64(head * KEY_WIDTH + chunk * 8);
#pragma unroll
      for (int pair = 0; pair < 4; pair++)
        words[pair] = u32(saturated_half(from[pair * 2] * factor)) | u32(saturated_half(from[pair * 2 + 1] * factor))
                                                                         << 16;
    }
    *reinterpret_cast<Words4*>(target + chunk / 8 * kQueryPanelBytes + panel_chunk(row, chunk % 8)) = {
        words[0], words[1], words[2], words[3]};
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

/** The team's columns from `column` on, some at a time through this wave's part of shared memory; rows past `tokens` are not written. */
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
