// How results of attention/wide-flash.hip leave the registers of a team: when all is computed, a wave's 16 rows of the team's
// columns fit into the shared memory that queries and keys had, all at once. Defines: those of attention/flash-rows.h.
#pragma once
#include "attention/flash-rows.h"

/** What a wave has of shared memory for results. */
constexpr int kWaveResultFloats = 16 * kTeamColumns;

/** Where a column of a row lies: rows begin in different banks. */
DEVICE int result_place(int row, int column) { return row * kTeamColumns + (column ^ (row % 4 * 8)); }

/** The team's columns from `column` on, through `own`, this wave's part of shared memory. */
template <typename Arguments>
DEVICE void write_wide_results(const Arguments& a, int first_token, int tokens, int column, const Running& running,
                               float* own) {
#pragma unroll
  for (int tile = 0; tile < kValueTiles; tile++) {
#pragma unroll
    for (int element = 0; element < kTileElements; element += 2) {
      // Neighbouring elements are neighbouring columns.
      const float* const values = running.values[tile].values + element;
      const float total = running.total[slot_of(element)];
      *reinterpret_cast<FloatPair*>(own + result_place(tile_row(element), tile * 16 + tile_column(element))) = {
          {values[0] * total, values[1] * total}};
    }
  }
  wave_barrier();
  constexpr int Parts = kTeamColumns / 32;
#pragma unroll 1
  for (int row = 0; row < 16; row++) {
    const int token = wave_index() % 4 * 16 + row;
    float results[Parts];
#pragma unroll
    for (int part = 0; part < Parts; part++) results[part] = own[result_place(row, part * 32 + lane_index())];
#pragma unroll
    for (int part = 0; part < Parts; part++)
      write_column(a, first_token + token, column + part * 32 + lane_index(), token < tokens, results[part]);
  }
}
