// A tile of slots that share an expert, as matmul/expert-order.hip leaves it, or of tokens that share the shared expert.
#pragma once
#include "device/portable.h"

struct GroupTile {
  int matrix;
  /** Of the tile's slots among the sorted ones; its first token if it is the shared expert's or if there is no router. */
  int first;
  int count;
  /** Whether the matrix is that of the shared expert, which the tile's tokens all have. */
  bool shared;
};

/**
 * Those of the shared expert have `SharedTokens` tokens. Tile number `index` of a step of `rows` tokens; false: there are fewer. The tiles of the shared expert, if there is one,
 * come first: they are the fullest.
 */
template <int SharedTokens, bool SharedExpert>
DEVICE bool find_expert_tile(const int* tiles, const int* tile_count, int rows, int index, GroupTile& tile) {
  if (SharedExpert) {
    const int shared_tiles = (rows + SharedTokens - 1) / SharedTokens;
    if (index < shared_tiles) {
      tile = {0, index * SharedTokens, min(rows - index * SharedTokens, SharedTokens), true};
      return true;
    }
    index -= shared_tiles;
  }
  // Both at once: there is room for as many tiles as the grid has.
  const int count = *tile_count;
  const int* const entry = tiles + u64(index) * 3;
  tile = {entry[0], entry[1], entry[2], false};
  return index < count && tile.count > 0;
}
