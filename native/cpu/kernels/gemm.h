// GEMM, the matmul of many tokens: up to 64 weight rows are unpacked chunk by chunk into tiles that stay in the
// first-level cache, and every panel of tokens runs over them; if a type has a form for one panel alone, no tile is
// made for it. Sums wait in the calling thread's scratch between chunks.

#pragma once

#include <type_traits>

#include "prefetch.h"
#include "matmul-interface.h"
#include "gemv.h"
#include "tile-form.h"
#include "unroll.h"

namespace rocmforge {
namespace {

static_assert(kGemmRows % kTileRows == 0, "tiles fill a call");
static_assert(sizeof(TileQuad) == sizeof(TileFloats), "floats are transposed as quads");
constexpr size_t kTiles = kGemmRows / kTileRows;
constexpr size_t kTileQuads = kChunk / 4;
constexpr size_t kTileSums = kPanelTokens * kTileRows;
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

inline size_t panels_of(size_t tokens) { return (tokens + kPanelTokens - 1) / kPanelTokens; }

size_t gemm_scratch_bytes(size_t, size_t tokens) {
  return sizeof(TileScratch) + panels_of(tokens) * kTiles * kTileSums * sizeof(float);
}

inline size_t rows_in_tile(size_t row_count, size_t tile) {
  const size_t rest = row_count - tile * kTileRows;
  return rest < kTileRows ? rest : kTileRows;
}

/// Part `part` of `parts` of the rows after a tile, which lie behind one another.
inline Prefetch next_tile(const Matrix& weight, size_t first_row, size_t part, size_t parts) {
  const size_t tile_bytes = kTileRows * weight.row_bytes;
  const uint8_t* from = weight.data + (first_row + kTileRows) * weight.row_bytes + tile_bytes * part / parts;
  const size_t bytes = tile_bytes / parts + kLineBytes;
  return from + bytes < end_of(weight) ? Prefetch{from, bytes / kLineBytes} : Prefetch{};
}

inline void prefetch_pages_of_tile(const Matrix& weight, size_t first_row) {
  const size_t end_row = first_row + kTileRows;
  prefetch_pages(weight.data + first_row * weight.row_bytes,
                 weight.data + (end_row < weight.rows ? end_row : weight.rows) * weight.row_bytes);
}

/// Up to this many panels, reading the weights takes longer than multiplying them.
constexpr size_t kSmallBatchPanels = 8;

/// Prefetches one chunk of the rows of a tile, some lines with each panel: each row is a stream of its own, too short for
/// the hardware to notice. Asking for all of it at once would stall the core.
template <class Type>
class ChunkPrefetch {
 public:
  ChunkPrefetch() = default;
  ChunkPrefetch(const Matrix& weight, size_t first_row, size_t chunk, size_t panels)
      : row_(weight.data + first_row * weight.row_bytes + chunk * Type::kBytes),
        row_bytes_(weight.row_bytes),
        left_(kTileRows * kRowLines),
        share_((left_ + panels - 1) / panels) {}

  /// Once for each panel.
  void issue() {
    const size_t count = share_ < left_ ? share_ : left_;
    left_ -= count;
    for (size_t index = 0; index < count; index++) {
      __builtin_prefetch(row_ + offset_, 0, 2);
      offset_ += kLineBytes;
      if (offset_ < kRowLines * kLineBytes) continue;
      offset_ = 0;
      row_ += row_bytes_;
    }
  }

 private:
  static constexpr size_t kRowLines = (Type::kBytes + kLineBytes - 1) / kLineBytes;

  const uint8_t* row_ = nullptr;
  size_t row_bytes_ = 0;
  size_t left_ = 0;
  size_t share_ = 0;
  size_t offset_ = 0;
};

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

/// What the tiles have summed for the tokens from `first_token` on, to its place.
inline void write_sums(const float* sums, size_t row_count, size_t first_token, size_t tokens, float* out,
                       size_t out_stride) {
  const size_t tiles = (row_count + kTileRows - 1) / kTileRows;
  for (size_t token = first_token; token < tokens; token++) {
    const float* from = sums + token / kPanelTokens * kTiles * kTileSums + token % kPanelTokens * kTileRows;
    float* to = out + token * out_stride;
    for (size_t tile = 0; tile < tiles; tile++, from += kTileSums, to += kTileRows) {
      const size_t rows = rows_in_tile(row_count, tile);
      size_t row = 0;
      for (; row + kLanes <= rows; row += kLanes) store(to + row, load(from + row));
      if (row < rows) store_part(to + row, load(from + row), rows - row);
    }
  }
}

template <class Type, size_t kTokens>
void multiply_one_panel(const Matrix& weight, size_t first_row, size_t row_count, const Activations& activations,
                        float* sums) {
  const PanelChunk<kPanelTokens>* const tokens = reinterpret_cast<const PanelChunk<kPanelTokens>*>(activations.data);
  const size_t chunk_count = chunks_of(weight.width);
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

template <class Type>
void gemm_quant(const Matrix& weight, size_t first_row, size_t row_count, const Activations& activations, float* out,
                size_t out_stride, uint8_t* scratch) {
  LevelTile* tiles = reinterpret_cast<TileScratch*>(scratch)->levels;
  float* sums = reinterpret_cast<float*>(scratch + sizeof(TileScratch));
  if constexpr (OnePanelForm<Type>::kExists) {
    if (activations.groups == 1 && weight.width % kChunk == 0) {
      const auto multiply = activations.tokens <= 2   ? multiply_one_panel<Type, 2>
                            : activations.tokens <= 4 ? multiply_one_panel<Type, 4>
                                                      : multiply_one_panel<Type, kPanelTokens>;
      multiply(weight, first_row, row_count, activations, sums);
      return write_sums(sums, row_count, 0, activations.tokens, out, out_stride);
    }
  }
  const size_t tile_count = (row_count + kTileRows - 1) / kTileRows;
  // Whole tiles and panels go to their place with the last chunk; the rest waits for all of it.
  const bool direct = kWritesTarget && row_count % kTileRows == 0;
  const size_t written = direct ? activations.tokens / kPanelTokens * kPanelTokens : 0;
  const size_t last_chunk = chunks_of(weight.width) - 1;
  // Few panels take tile by tile, so that memory is read nearly in order.
  const size_t together = kPrefetches && activations.groups <= kSmallBatchPanels ? 1 : tile_count;
  ChunkReader readers[kTileRows];
  for (ChunkReader& reader : readers) reader.end = end_of(weight);
  for (size_t first = 0; first < tile_count; first += together) {
    if (together == 1) prefetch_pages_of_tile(weight, first_row + (first + 1) * kTileRows);
    for (size_t chunk = 0; chunk < chunks_of(weight.width); chunk++) {
      for (size_t tile = first; tile < first + together; tile++) {
        unpack_tile<Type>(weight, first_row + tile * kTileRows, rows_in_tile(row_count, tile), chunk, readers,
                          tiles[tile - first]);
      }
      ChunkPrefetch<Type> upcoming[kTiles];
      for (size_t tile = 0; together > 1 && tile < together; tile++) {
        const size_t row = first_row + (first + tile) * kTileRows;
        // After the last chunk the next call's rows begin.
        if (chunk < last_chunk) {
          upcoming[tile] = {weight, row, chunk + 1, activations.groups};
        } else if (row + kGemmRows + kTileRows <= weight.rows) {
          upcoming[tile] = {weight, row + kGemmRows, 0, activations.groups};
        }
      }
      for (size_t panel = 0; panel < activations.groups; panel++) {
        const PanelChunk<kPanelTokens>& tokens = reinterpret_cast<const PanelChunk<kPanelTokens>*>(
            activations.data + panel * activations.group_bytes)[chunk];
        const size_t token = panel * kPanelTokens;
        const auto multiply = [&](auto width, size_t tile, Prefetch next) {
          const TileTarget target = chunk == last_chunk && token < written
                                        ? TileTarget{out + token * out_stride + tile * kTileRows, out_stride}
                                        : TileTarget{};
          multiply_tiles_of<Type, decltype(width)::value>(
              tiles + (tile - first), tokens, sums + (panel * kTiles + tile) * kTileSums, chunk == 0, target, next);
        };
        for (size_t tile = 0; tile < together; tile++) upcoming[tile].issue();
        size_t tile = first;
        for (; tile + kTilesTogether <= first + together; tile += kTilesTogether)
          multiply(std::integral_constant<size_t, kTilesTogether>(), tile, Prefetch{});
        const Prefetch next = together == 1 && panel == 0
                                  ? next_tile(weight, first_row + first * kTileRows, chunk, chunks_of(weight.width))
                                  : Prefetch{};
        for (; tile < first + together; tile++) multiply(std::integral_constant<size_t, 1>(), tile, next);
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
  float* sums = reinterpret_cast<float*>(scratch + sizeof(TileScratch));
  const size_t tile_count = (row_count + kTileRows - 1) / kTileRows;
  for (size_t column = 0; column < weight.width; column += kFloatChunk) {
    const size_t columns = weight.width - column < kFloatChunk ? weight.width - column : kFloatChunk;
    for (size_t tile = 0; tile < tile_count; tile++) {
      unpack_float_tile<kType>(weight, first_row + tile * kTileRows, rows_in_tile(row_count, tile), column, columns,
                               tiles[tile]);
    }
    // A tile alone fills a good part of the first-level cache, so it stays while the panels pass.
    for (size_t tile = 0; tile < tile_count; tile++) {
      for (size_t panel = 0; panel < activations.groups; panel++) {
        const float* tokens =
            reinterpret_cast<const float*>(activations.data + panel * activations.group_bytes) + column * kPanelTokens;
        multiply_float_tile(tiles[tile], columns, tokens, sums + (panel * kTiles + tile) * kTileSums, column == 0);
      }
    }
  }
  write_sums(sums, row_count, 0, activations.tokens, out, out_stride);
}

}  // namespace
}  // namespace rocmforge
