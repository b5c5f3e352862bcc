// GEMM, the matmul of many tokens: weight rows are unpacked chunk by chunk into tiles, 64 rows at a time, which stay in the
// first-level cache, and every panel of tokens runs over them; then the next 64 rows, for which the panels' chunk is in
// the second-level cache. If a type has a form for one panel alone, no tile is made for it, nor if it has one for many
// panels with tokens in the lanes. Sums wait in the calling thread's scratch between chunks.

#pragma once

#include <algorithm>
#include <type_traits>

#include "prefetch.h"
#include "matmul-interface.h"
#include "weight-prefetch.h"
#include "gemv.h"
#include "one-panel.h"
#include "tile-form.h"
#include "unroll.h"

namespace rocmforge {
namespace {

static_assert(sizeof(TileQuad) == sizeof(TileFloats), "floats are transposed as quads");
/// Rows whose tiles are in the first-level cache together.
constexpr size_t kCachedRows = 64;
constexpr size_t kTiles = kCachedRows / kTileRows;
static_assert(kGemmRows % kCachedRows == 0, "sums of whole tiles fill the scratch");
/// Columns of one chunk of plain floats.
constexpr size_t kFloatChunk = 128;

struct alignas(64) LevelTile {
  TileQuad quads[kTileQuads];
  TileFloats scales[2 * kChunkUnits];
  TileFloats minima[2 * kChunkUnits];
};

struct alignas(64) FloatTile {
  float columns[kFloatChunk][kTileRows];
};

union TileScratch {
  LevelTile levels[kTiles];
  FloatTile floats[kTiles];
};

/// For what is unpacked of weight rows, in tiles or row by row.
constexpr size_t kRowScratchBytes =
    std::max({sizeof(TileScratch), LaneForm<Q4_K>::kScratchBytes, LaneForm<Q6_K>::kScratchBytes});

inline size_t panels_of(size_t tokens) { return (tokens + kPanelTokens - 1) / kPanelTokens; }

/// A panel of few tokens without the places of the others.
constexpr size_t kNarrowBytes = OnePanelForm<Q4_K>::kExists ? sizeof(PanelChunk<kOnePanelTokens>) : 0;

size_t gemm_scratch_bytes(size_t width, size_t tokens) {
  const size_t sums = panels_of(tokens) * kGemmRows * kPanelTokens * sizeof(float);
  return kRowScratchBytes + sums + chunks_of(width) * kNarrowBytes;
}

inline size_t rows_in_tile(size_t row_count, size_t tile) {
  const size_t rest = row_count - tile * kTileRows;
  return rest < kTileRows ? rest : kTileRows;
}

/// Up to this many tokens, reading the weights takes longer than multiplying them.
constexpr size_t kSmallBatchTokens = 64;

/// From here on, GEMM with tokens in lanes is faster than tiles.
constexpr size_t kFewestLanePanels = 6;

/// Those of a chunk of a panel.
constexpr size_t kPanelLines = sizeof(PanelChunk<kPanelTokens>) / kLineBytes;

/// One chunk of the rows from `first` on. A row that is missing repeats the last one, and its sums are not read.
template <class Type>
void unpack_tile(const Matrix& weight, size_t first, size_t rows, size_t chunk, ChunkReader* readers, LevelTile& tile) {
  constexpr size_t kGroups = kChunk / kGroup<Type>;
  const size_t rest = weight.width - chunk * kChunk;
  const uint8_t* chunks[kTileRows];
  for (size_t row = 0; row < kTileRows; row++) {
    const uint8_t* start = weight.data + (first + (row < rows ? row : rows - 1)) * weight.row_bytes;
    const uint8_t* at = start + chunk * Type::kBytes;
    chunks[row] = rest >= kChunk ? at : readers[row].whole(at, Type::kBytes, start + weight.row_bytes);
  }
  if constexpr (TileForm<Type>::kWhole) {
    if (rest >= kChunk) return TileForm<Type>::unpack(chunks, tile.quads, tile.scales, tile.minima);
  }
  for (size_t row = 0; row < kTileRows; row++) {
    typename Type::Scales chunk_scales = Type::scales(chunks[row]);
    if (rest < kChunk) chunk_scales = first_units(chunk_scales, rest / kUnit);
    float scales[2 * kChunkUnits];
    float minima[2 * kChunkUnits];
    store_scales(chunk_scales, scales, minima);
    for (size_t group = 0; group < kGroups; group++) {
      tile.scales[group][row] = scales[group];
      if (kTileMinima<Type>) tile.minima[group][row] = tile_minimum<Type>(scales[group], minima[group]);
    }
  }
  ROCMFORGE_UNROLL(8)
  for (size_t unit = 0; unit < kChunkUnits; unit++) {
    Bytes levels[kTileRows];
    for (size_t row = 0; row < kTileRows; row++) levels[row] = tile_levels<Type>(Type::levels(chunks[row], unit));
    store_tile_unit(levels, tile.quads + unit * kUnit / 4);
  }
}

/// Sums of a tile for a panel, which are those of the other tiles in the cache beside them, panel after panel.
inline size_t sums_at(size_t panels, size_t panel, size_t tile) {
  return ((tile / kTiles * panels + panel) * kTiles + tile % kTiles) * kTileSums;
}

/// What the tiles have summed for the tokens from `first_token` on, to its place.
inline void write_sums(const float* sums, size_t row_count, size_t first_token, size_t tokens, float* out,
                       size_t out_stride) {
  const size_t tiles = (row_count + kTileRows - 1) / kTileRows;
  for (size_t token = first_token; token < tokens; token++) {
    float* to = out + token * out_stride;
    for (size_t tile = 0; tile < tiles; tile++, to += kTileRows) {
      const float* from =
          sums + sums_at(panels_of(tokens), token / kPanelTokens, tile) + token % kPanelTokens * kTileRows;
      const size_t rows = rows_in_tile(row_count, tile);
      size_t row = 0;
      for (; row + kLanes <= rows; row += kLanes) store(to + row, load(from + row));
      if (row < rows) store_part(to + row, load(from + row), rows - row);
    }
  }
}

template <class Type>
void gemm_quant(const Matrix& weight, size_t first_row, size_t row_count, const Activations& activations, float* out,
                size_t out_stride, uint8_t* scratch) {
  LevelTile* tiles = reinterpret_cast<TileScratch*>(scratch)->levels;
  float* sums = reinterpret_cast<float*>(scratch + kRowScratchBytes);
  if constexpr (OnePanelForm<Type>::kExists) {
    if (activations.tokens <= kOnePanelTokens && weight.width % kChunk == 0) {
      const auto multiply = activations.tokens <= 2   ? multiply_one_panel<Type, 2>
                            : activations.tokens <= 4 ? multiply_one_panel<Type, 4>
                                                      : multiply_one_panel<Type, kOnePanelTokens>;
      uint8_t* const narrow = reinterpret_cast<uint8_t*>(sums + kGemmRows * kPanelTokens);
      multiply(weight, first_row, row_count, activations, sums, narrow);
      return write_sums(sums, row_count, 0, activations.tokens, out, out_stride);
    }
  }
  if constexpr (LaneForm<Type>::kExists) {
    if (activations.groups >= kFewestLanePanels && row_count > LaneForm<Type>::kMaxTileRows)
      return LaneForm<Type>::gemm(weight, first_row, row_count, activations, out, out_stride, scratch, sums);
  }
  const size_t tile_count = (row_count + kTileRows - 1) / kTileRows;
  // Whole tiles and panels go to their place with the last chunk; the rest waits for all of it.
  const bool direct = kWritesTarget && row_count % kTileRows == 0;
  const size_t written = direct ? activations.tokens / kPanelTokens * kPanelTokens : 0;
  const size_t last_chunk = chunks_of(weight.width) - 1;
  // Few panels take tile by tile, so that memory is read nearly in order.
  const bool few = kPrefetches && activations.tokens <= kSmallBatchTokens;
  const size_t together = few ? 1 : tile_count;
  ChunkReader readers[kTileRows];
  for (ChunkReader& reader : readers) reader.end = end_of(weight);
  for (size_t start = 0; start < tile_count; start += together) {
    if (few) prefetch_pages_of_tile(weight, first_row + (start + 1) * kTileRows);
    for (size_t chunk = 0; chunk < chunks_of(weight.width); chunk++) {
      for (size_t first = start; first < start + together; first += kTiles) {
        const size_t cached = start + together - first < kTiles ? start + together - first : kTiles;
        for (size_t tile = 0; tile < cached; tile++) {
          unpack_tile<Type>(weight, first_row + (first + tile) * kTileRows, rows_in_tile(row_count, first + tile),
                            chunk, readers, tiles[tile]);
        }
        ChunkPrefetch<Type> upcoming[kTiles];
        for (size_t tile = 0; !few && tile < cached; tile++) {
          const size_t row = first_row + (first + tile) * kTileRows;
          // After the last chunk the next call's rows begin.
          if (first + tile + kTiles < start + together) {
            upcoming[tile] = {weight, row + kCachedRows, kTileRows, chunk, activations.groups};
          } else if (chunk < last_chunk) {
            upcoming[tile] = {weight, first_row + tile * kTileRows, kTileRows, chunk + 1, activations.groups};
          } else if (row + kCachedRows + kTileRows <= weight.rows) {
            upcoming[tile] = {weight, row + kCachedRows, kTileRows, 0, activations.groups};
          }
        }
        for (size_t panel = 0; panel < activations.groups; panel++) {
          const PanelChunk<kPanelTokens>& tokens = reinterpret_cast<const PanelChunk<kPanelTokens>*>(
              activations.data + panel * activations.group_bytes)[chunk];
          const size_t token = panel * kPanelTokens;
          const size_t present = activations.tokens - token < kPanelTokens ? activations.tokens - token : kPanelTokens;
          const auto multiply = [&](auto width, size_t tile, Prefetch next) {
            const TileTarget target =
                chunk == last_chunk && token < written
                    ? TileTarget{out + token * out_stride + (first + tile) * kTileRows, out_stride}
                    : TileTarget{};
            multiply_tiles_of<Type, decltype(width)::value>(tiles + tile, tokens, present,
                                                            sums + sums_at(activations.groups, panel, first + tile),
                                                            chunk == 0, target, next);
          };
          for (size_t tile = 0; tile < cached; tile++) upcoming[tile].issue();
          size_t tile = 0;
          for (; tile + kTilesTogether <= cached; tile += kTilesTogether) {
            // Meanwhile a share of the next panel's chunk, which is far from this one's.
            const size_t line = tile * kPanelLines / kTiles;
            const Prefetch share = {
                reinterpret_cast<const uint8_t*>(&tokens) + activations.group_bytes + line * kLineBytes,
                kPanelLines * kTilesTogether / kTiles};
            const bool follows = !few && panel + 1 < activations.groups;
            multiply(std::integral_constant<size_t, kTilesTogether>(), tile, follows ? share : Prefetch{});
          }
          const Prefetch next = few && panel == 0
                                    ? next_tile(weight, first_row + first * kTileRows, chunk, chunks_of(weight.width))
                                    : Prefetch{};
          for (; tile < cached; tile++) multiply(std::integral_constant<size_t, 1>(), tile, next);
        }
      }
    }
  }
  write_sums(sums, row_count, written, activations.tokens, out, out_stride);
}

/// A float is four bytes, so rows of floats become columns as rows of levels become quads.
template <TensorType kType>
void unpack_float_tile(const Matrix& weight, size_t first, size_t rows, size_t column, size_t columns,
                       FloatTile& tile) {
  constexpr size_t kStep = 16;
  for (size_t index = 0; index < columns; index += kStep) {
    float values[kTileRows][kStep];
    for (size_t row = 0; row < kTileRows; row++) {
      const uint8_t* at = weight.data + (first + (row < rows ? row : rows - 1)) * weight.row_bytes;
      for (size_t lane = 0; lane < kStep; lane += kLanes) {
        const size_t from = column + index + lane;
        F loaded = zero();
        if (from + kLanes <= weight.width) {
          loaded = load_floats<kType>(at, from);
        } else if (from < weight.width) {
          loaded = load_last_floats<kType>(at, from, weight.width);
        }
        store(values[row] + lane, loaded);
      }
    }
    for (size_t part = 0; part < kStep; part += 8) {
      Bytes bytes[kTileRows];
      for (size_t row = 0; row < kTileRows; row++)
        bytes[row] = load_unit(reinterpret_cast<const uint8_t*>(values[row] + part));
      store_tile_unit(bytes, reinterpret_cast<TileQuad*>(tile.columns[index + part]));
    }
  }
}

__attribute__((noinline)) inline void multiply_float_tile(const FloatTile& tile, size_t columns, const float* tokens,
                                                          float* sums, bool first) {
  constexpr size_t kVectors = kTileRows / kLanes;
  // As many tokens at a time as leave every sum in a register.
  constexpr size_t kStep = kPanelTokens * kVectors + 4 <= kRegisters ? kPanelTokens : kPanelTokens / 2;
  for (size_t start = 0; start < kPanelTokens; start += kStep) {
    F totals[kStep][kVectors];
    for (size_t token = 0; token < kStep; token++) {
      for (size_t part = 0; part < kVectors; part++) {
        totals[token][part] = first ? zero() : load(sums + (start + token) * kTileRows + part * kLanes);
      }
    }
    for (size_t column = 0; column < columns; column++) {
      ROCMFORGE_UNROLL(4)
      for (size_t part = 0; part < kVectors; part++) {
        const F weight = load(tile.columns[column] + part * kLanes);
        ROCMFORGE_UNROLL(16)
        for (size_t token = 0; token < kStep; token++) {
          totals[token][part] = fma(weight, set(tokens[column * kPanelTokens + start + token]), totals[token][part]);
        }
      }
    }
    for (size_t token = 0; token < kStep; token++) {
      for (size_t part = 0; part < kVectors; part++)
        store(sums + (start + token) * kTileRows + part * kLanes, totals[token][part]);
    }
  }
}

template <TensorType kType>
void gemm_float(const Matrix& weight, size_t first_row, size_t row_count, const Activations& activations, float* out,
                size_t out_stride, uint8_t* scratch) {
  FloatTile* tiles = reinterpret_cast<TileScratch*>(scratch)->floats;
  float* sums = reinterpret_cast<float*>(scratch + kRowScratchBytes);
  const size_t tile_count = (row_count + kTileRows - 1) / kTileRows;
  for (size_t first = 0; first < tile_count; first += kTiles) {
    const size_t end = first + kTiles < tile_count ? first + kTiles : tile_count;
    for (size_t column = 0; column < weight.width; column += kFloatChunk) {
      const size_t columns = weight.width - column < kFloatChunk ? weight.width - column : kFloatChunk;
      for (size_t tile = first; tile < end; tile++) {
        unpack_float_tile<kType>(weight, first_row + tile * kTileRows, rows_in_tile(row_count, tile), column, columns,
                                 tiles[tile - first]);
      }
      // A tile alone fills a good part of the first-level cache, so it stays while the panels pass.
      for (size_t tile = first; tile < end; tile++) {
        for (size_t panel = 0; panel < activations.groups; panel++) {
          const float* tokens = reinterpret_cast<const float*>(activations.data + panel * activations.group_bytes) +
                                column * kPanelTokens;
          multiply_float_tile(tiles[tile - first], columns, tokens, sums + sums_at(activations.groups, panel, tile),
                              column == 0);
        }
      }
    }
  }
  write_sums(sums, row_count, 0, activations.tokens, out, out_stride);
}

}  // namespace
}  // namespace rocmforge
