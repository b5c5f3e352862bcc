// One weight row as f32, for embeddings: what the decoders in src/quant/ give, to the bit.
// Scale × level is exact or round once, so plain f32 arithmetic in the same order is enough.

#pragma once

#include "gemv.h"

namespace rocmforge {
namespace {

template <class Type>
void decode_quant_row(const uint8_t* row, size_t width, float* out) {
  ChunkReader reader;
  const uint8_t* row_end = row + width * Type::kBytes / kChunk;
  reader.end = row_end;
  for (size_t start = 0; start < width; start += kChunk, row += Type::kBytes) {
    const uint8_t* chunk = reader.whole(row, Type::kBytes, row_end);
    float scales[2 * kChunkUnits];
    float minima[2 * kChunkUnits];
    store_scales(Type::scales(chunk), scales, minima);
    for (size_t unit = 0; unit < kChunkUnits && start + unit * kUnit < width; unit++) {
      uint8_t levels[kUnit];
      store_unit(levels, Type::levels(chunk, unit));
      for (size_t index = 0; index < kUnit; index++) {
        const size_t group = (unit * kUnit + index) / kGroup<Type>;
        const int level = (Type::kSigned ? static_cast<int8_t>(levels[index]) : levels[index]) - Type::kOffset;
        const float value = scales[group] * static_cast<float>(level);
        out[start + unit * kUnit + index] = Type::kMinima ? value - minima[group] : value;
      }
    }
  }
}

template <TensorType kType>
void decode_float_row(const uint8_t* row, size_t width, float* out) {
  size_t column = 0;
  for (; column + kLanes <= width; column += kLanes) store(out + column, load_floats<kType>(row, column));
  if (column < width) store_part(out + column, load_last_floats<kType>(row, column, width), width - column);
}

}  // namespace
}  // namespace rocmforge
