// Attention on the matrix units for wide heads: a block has up to 64 rows of queries, walks over tiles of positions, and
// its waves divide the columns of the values among them, so that sums of 512 columns fit into registers. Scores pass
// from the waves that compute them to all others through shared memory, as weights in f16.
//
//   scores   a wave has one tile of 16 rows by 16 positions or several; each row's highest score goes to shared memory
//   weights  2^(score − highest), and what sums so far have to be multiplied by
//   values   a wave has all rows and kWaveTiles × 16 columns
//
// Of a file that includes this: PARTS is 2 if queries and weights come as two halves, what f16 has of them and the rest,
// so that results are as good as those of f32; KV_TYPE is 1 then, or rows themselves would be rounded. ROW_TILES × 16
// rows, TILE_POSITIONS, STAGES (2: the next tile's rows are on their way while this one's are used).
#pragma once
#include "attention/wide-memory.h"

/** Scores of one tile; visible(row, position) says which count. */
template <typename Visible>
DEVICE void score_tile(int unit, int first_position, const u16* keys, const WideMemory& memory, Tile& scores,
                       Visible visible) {
  const int row = unit / kPositionTiles * 16, place = unit % kPositionTiles * 16;
  Tile parts[kParts];
#pragma unroll
  for (int part = 0; part < kParts; part++) clear_tile(parts[part]);
#pragma unroll 2
  for (int step = 0; step < kKeySteps; step++) {
    const Fragment key = load_fragment(keys + place * kKeyStride + step * 16, kKeyStride);
#pragma unroll
    for (int part = 0; part < kParts; part++) {
      multiply_add(parts[part],
                   load_fragment(memory.queries + (part * kRows + row) * kKeyStride + step * 16, kKeyStride), key);
    }
  }
  float highest[kRowSlots];
#pragma unroll
  for (int slot = 0; slot < kRowSlots; slot++) highest[slot] = negative_infinity();
#pragma unroll
  for (int element = 0; element < kTileElements; element++) {
    const int own = row + tile_row(element);
    float score = parts[0].values[element];
    if (kParts == 2) score = (score + parts[kParts - 1].values[element]) * memory.backs[own];
    score = visible(own, first_position + place + tile_column(element)) ? capped_score(score) : negative_infinity();
    scores.values[element] = score;
    highest[slot_of(element)] = max(highest[slot_of(element)], score);
  }
#pragma unroll
  for (int slot = 0; slot < kRowSlots; slot++) {
    const float top = wave_max<kRowLanes>(highest[slot]);
    const int own = row + tile_row(element_of_slot(slot));
    if (lane_index() % kRowLanes == 0) memory.tops[unit % kPositionTiles * kRows + own] = top;
  }
}

/** The weights of a tile, in as many parts as there are, to where the matrix units take them from. */
DEVICE void put_weights(const Tile& tile, u16* target) {
#pragma unroll
  for (int element = 0; element < kTileElements; element++) {
    u16* const to = target + tile_row(element) * kWeightStride + tile_column(element);
#if MATRIX_LAYOUT == 80
    // Neighbouring elements are neighbouring columns.
    if (element % 2 != 0) continue;
    const u32 first = float2_to_half2(tile.values[element], tile.values[element + 1]);
    *reinterpret_cast<u32*>(to) = first;
    if (kParts == 2)
      *reinterpret_cast<u32*>(to + kRows * kWeightStride) = float2_to_half2(
          tile.values[element] - half_to_float(u16(first)), tile.values[element + 1] - half_to_float(u16(first >> 16)));
#else
    const u16 first = float_to_half(tile.values[element]);
    to[0] = first;
    if (kParts == 2) to[kRows * kWeightStride] = float_to_half(tile.values[element] - half_to_float(first));
#endif
  }
}

/** Scores of a tile become weights; `older_half` says which of the two highest scores is the older one. */
DEVICE void weigh_tile(int unit, int older_half, Tile& scores, const WideMemory& memory) {
  const int row = unit / kPositionTiles * 16, tile = unit % kPositionTiles;
  float sums[kRowSlots], bases[kRowSlots];
#pragma unroll
  for (int slot = 0; slot < kRowSlots; slot++) {
    const int own = row + tile_row(element_of_slot(slot));
    const float older = memory.highest[older_half * kRows + own];
    float top = older;
#pragma unroll
    for (int other = 0; other < kPositionTiles; other++) top = max(top, memory.tops[other * kRows + own]);
    bases[slot] = top == negative_infinity() ? 0.0f : top;
    sums[slot] = 0.0f;
    if (tile == 0 && lane_index() % kRowLanes == 0) {
      memory.factors[own] = exponential2(older - bases[slot]);
      memory.highest[(1 - older_half) * kRows + own] = top;
    }
  }
#pragma unroll
  for (int element = 0; element < kTileElements; element++) {
    const float weight = exponential2(scores.values[element] - bases[slot_of(element)]);
    sums[slot_of(element)] += weight;
    scores.values[element] = weight * kWeightScale;
  }
  put_weights(scores, memory.weights + row * kWeightStride + tile * 16);
#pragma unroll
  for (int slot = 0; slot < kRowSlots; slot++) {
    const float sum = wave_sum<kRowLanes>(sums[slot]);
    const int own = row + tile_row(element_of_slot(slot));
    if (lane_index() % kRowLanes == 0) memory.sums[tile * kRows + own] = sum;
  }
}

/** Sums of a wave's columns, for all rows. */
struct WideSums {
  Tile values[kRowTiles][kWaveTiles];
};

DEVICE void add_values(const u16* values, const WideMemory& memory, WideSums& sums) {
#pragma unroll
  for (int tile = 0; tile < kRowTiles; tile++) {
    float factors[kRowSlots];
#pragma unroll
    for (int slot = 0; slot < kRowSlots; slot++)
      factors[slot] = memory.factors[tile * 16 + tile_row(element_of_slot(slot))];
#pragma unroll
    for (int element = 0; element < kTileElements; element++) {
      const float factor = factors[slot_of(element)];
#pragma unroll
      for (int column = 0; column < kWaveTiles; column++) sums.values[tile][column].values[element] *= factor;
    }
  }
#pragma unroll 1
  for (int step = 0; step < kPositionTiles; step++) {
    Fragment weights[kParts][kRowTiles];
#pragma unroll
    for (int part = 0; part < kParts; part++) {
#pragma unroll
      for (int tile = 0; tile < kRowTiles; tile++) {
        weights[part][tile] =
            load_fragment(memory.weights + (part * kRows + tile * 16) * kWeightStride + step * 16, kWeightStride);
      }
    }
#pragma unroll
    for (int column = 0; column < kWaveTiles; column++) {
      const int at = wave_index() * kWaveTiles + column;
      if (at >= kValueTiles) break;
      const Fragment value = load_fragment_transposed(values + step * 16 * kValueStride + at * 16, kValueStride);
#pragma unroll
      for (int part = 0; part < kParts; part++) {
#pragma unroll
        for (int tile = 0; tile < kRowTiles; tile++)
          multiply_add(sums.values[tile][column], weights[part][tile], value);
      }
    }
  }
}

/**
 * The whole walk, after queries are staged and the rows of the first two tiles are found, with the first one on its way.
 * Ends with a barrier.
 */
template <typename Visible>
DEVICE void walk_wide(const Walk& walk, const WideMemory& memory, WideSums& sums, Visible visible) {
#pragma unroll
  for (int tile = 0; tile < kRowTiles; tile++) {
#pragma unroll
    for (int column = 0; column < kWaveTiles; column++) clear_tile(sums.values[tile][column]);
  }
  for (int index = walk.first; index < walk.end; index++) {
    const bool more = index + 1 < walk.end;
    const int older_half = (index - walk.first) & 1;
    wait_for_copies();
    barrier();
    if (kStages == 2 && more) bring_tile(walk, index + 1, memory);
    const u16* const stage = stage_of(memory, index);
    Tile scores[kUnitRounds];
#pragma unroll
    for (int round = 0; round < kUnitRounds; round++) {
      const int unit = round * kWaves + wave_index();
      if (unit < kUnits) score_tile(unit, index * kTilePositions, stage, memory, scores[round], visible);
    }
    barrier();
    if (index + 2 < walk.end) find_wide_rows(walk, index + 2, memory);
#pragma unroll
    for (int round = 0; round < kUnitRounds; round++) {
      const int unit = round * kWaves + wave_index();
      if (unit < kUnits) weigh_tile(unit, older_half, scores[round], memory);
    }
    barrier();
    if (thread_index() < kRows) {
      float total = memory.totals[thread_index()] * memory.factors[thread_index()];
#pragma unroll
      for (int tile = 0; tile < kPositionTiles; tile++) total += memory.sums[tile * kRows + thread_index()];
      memory.totals[thread_index()] = total;
    }
    add_values(stage + (VALUES_IN_KEYS ? 0 : kKeyBytes / 2), memory, sums);
    if (kStages == 1 && more) {
      barrier();
      bring_tile(walk, index + 1, memory);
    }
  }
  barrier();
}

/** The highest score of a row over the whole walk. */
DEVICE float highest_of_row(const Walk& walk, const WideMemory& memory, int row) {
  return memory.highest[((walk.end - walk.first) & 1) * kRows + row];
}

/**
 * Calls give(row, column, present, sum) for all rows and this wave's columns, by all lanes; neighbouring lanes have
 * neighbouring columns. Uses the memory of queries and stages.
 */
template <typename Give>
DEVICE void give_wide(const WideSums& sums, u8* memory, Give give) {
  float* const own = reinterpret_cast<float*>(memory) + wave_index() * 16 * kWaveColumns;
#pragma unroll
  for (int tile = 0; tile < kRowTiles; tile++) {
    wave_barrier();
#pragma unroll
    for (int column = 0; column < kWaveTiles; column++) {
#pragma unroll
      for (int element = 0; element < kTileElements; element++)
        own[tile_row(element) * kWaveColumns + column * 16 + tile_column(element)] =
            sums.values[tile][column].values[element];
    }
    wave_barrier();
    for (int row = 0; row < 16; row++) {
      for (int first = 0; first < kWaveColumns; first += WAVE) {
        const int place = first + lane_index(), column = wave_index() * kWaveColumns + place;
        const bool present = place < kWaveColumns && column < VALUE_WIDTH;
        give(tile * 16 + row, column, present,
             present ? own[row * kWaveColumns + place] * (1.0f / kWeightScale) : 0.0f);
      }
    }
  }
}
