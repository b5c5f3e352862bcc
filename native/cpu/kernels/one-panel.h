// GEMM of a panel of few tokens, for types with a form that multiplies it with 16 rows as they lie in the file. To be
// included after the tiles of one instruction set.

#pragma once

#include <cstring>

#include "matmul-interface.h"
#include "tile-form.h"
#include "weight-prefetch.h"

namespace rocmforge {
namespace {

constexpr size_t kTileQuads = kChunk / 4;
constexpr size_t kTileSums = kPanelTokens * kTileRows;

/// What forms for one panel read of it.
template <size_t kTokens>
inline void copy_tokens(const PanelChunk<kPanelTokens>& from, PanelChunk<kTokens>& to) {
  for (size_t quad = 0; quad < kTileQuads; quad++) memcpy(to.values[quad], from.values[quad], sizeof to.values[quad]);
  for (size_t unit = 0; unit < kChunkUnits; unit++) memcpy(to.scales[unit], from.scales[unit], sizeof to.scales[unit]);
  for (size_t pair = 0; pair < kChunkUnits / 2; pair++)
    memcpy(to.short_sums[pair], from.short_sums[pair], sizeof to.short_sums[pair]);
  memcpy(to.short_sum_scales, from.short_sum_scales, sizeof to.short_sum_scales);
  for (size_t group = 0; group < 2 * kChunkUnits; group++)
    memcpy(to.corrections_16[group], from.corrections_16[group], sizeof to.corrections_16[group]);
}

/// Copies of the tokens alone fit into the first-level cache beside the weights. `scratch` has room for them.
template <class Type, size_t kTokens>
void multiply_one_panel(const Matrix& weight, size_t first_row, size_t row_count, const Activations& activations,
                        float* sums, uint8_t* scratch) {
  const PanelChunk<kPanelTokens>* const panel = reinterpret_cast<const PanelChunk<kPanelTokens>*>(activations.data);
  PanelChunk<kTokens>* const tokens = reinterpret_cast<PanelChunk<kTokens>*>(scratch);
  const size_t chunk_count = chunks_of(weight.width);
  for (size_t chunk = 0; chunk < chunk_count; chunk++) copy_tokens(panel[chunk], tokens[chunk]);
  for (size_t first = 0; first < row_count; first += kTileRows, sums += kTileSums) {
    prefetch_pages_of_tile(weight, first_row + first + kTileRows);
    const uint8_t* chunks[kTileRows];
    for (size_t row = 0; row < kTileRows; row++) {
      const size_t present = first + row < row_count ? first + row : row_count - 1;
      chunks[row] = weight.data + (first_row + present) * weight.row_bytes;
    }
    for (size_t chunk = 0; chunk < chunk_count; chunk++) {
      OnePanelForm<Type>::template multiply<kTokens>(chunks, tokens[chunk], sums, chunk == 0,
                                                     next_tile(weight, first_row + first, chunk, chunk_count));
      for (const uint8_t*& at : chunks) at += Type::kBytes;
    }
  }
}

}  // namespace
}  // namespace rocmforge
