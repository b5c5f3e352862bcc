// Products of a few tokens: weights stream by once, in the layout of the file, against up to eight tokens.
// A token's arithmetic is the same instruction by instruction however many others share the pass.

#pragma once

#include "kernel-table.h"

namespace rocmforge {
namespace {

/// How far ahead of the multiplication weights are asked for.
#ifndef ROCMFORGE_PREFETCH
#define ROCMFORGE_PREFETCH 4096
#endif
constexpr size_t kPrefetchBytes = ROCMFORGE_PREFETCH;
/// Weights that several passes over the tokens may find in the cache again.
constexpr size_t kPassBytes = 256 * 1024;

/// A chunk's bytes where 256 elements may be read: the chunk itself, or a padded copy at the very end of the weight.
struct ChunkReader {
  const uint8_t* end;
  alignas(64) uint8_t copy[kChunkUnits * 34];

  const uint8_t* whole(const uint8_t* chunk, size_t chunk_bytes, const uint8_t* row_end) {
    if (chunk + chunk_bytes <= end) return chunk;
    const size_t length = static_cast<size_t>(row_end - chunk);
    memcpy(copy, chunk, length);
    memset(copy + length, 0, chunk_bytes - length);
    return copy;
  }
};

inline const uint8_t* end_of(const Matrix& weight) { return weight.data + weight.rows * weight.row_bytes; }

template <class Type>
constexpr bool kCorrected = Type::kMinima || Type::kOffset != 0;

template <class Type, size_t kTokens>
inline void multiply_chunk(const uint8_t* levels, const typename Type::Scales& scales, const RowChunk* const* tokens,
                           size_t chunk, RowSums* sums) {
  Combined<typename Type::Scales> combined[kTokens];
#pragma GCC unroll 8
  for (size_t token = 0; token < kTokens; token++) {
    combine<kCorrected<Type>>(scales, tokens[token][chunk], combined[token], sums[token]);
  }
#pragma GCC unroll 8
  for (size_t unit = 0; unit < kChunkUnits; unit += kRowUnits) {
    const auto weight = row_levels<Type>(levels, unit);
#pragma GCC unroll 8
    for (size_t token = 0; token < kTokens; token++) {
      accumulate<typename Type::Scales, Type::kSigned>(weight, tokens[token][chunk], unit, combined[token], sums[token]);
    }
  }
}

template <class Type, size_t kTokens>
void multiply_row_range(const Matrix& weight, size_t first_row, size_t row_count, const Packed& packed, size_t first_token,
                        float* out, size_t out_stride) {
  const RowChunk* tokens[kTokens];
  for (size_t token = 0; token < kTokens; token++) {
    tokens[token] = reinterpret_cast<const RowChunk*>(packed.data + (first_token + token) * packed.group_bytes);
  }
  const size_t whole_chunks = weight.width / kChunk;
  const size_t rest_units = weight.width % kChunk / kUnit;
  const uint8_t* last = weight.data + (first_row + row_count) * weight.row_bytes - Type::kBytes;
  ChunkReader reader;
  reader.end = end_of(weight);
  typename Type::Scales scales = {};
  if (whole_chunks != 0) scales = Type::scales(weight.data + first_row * weight.row_bytes);
  for (size_t row = 0; row < row_count; row++) {
    const uint8_t* at = weight.data + (first_row + row) * weight.row_bytes;
    const uint8_t* row_end = at + weight.row_bytes;
    RowSums sums[kTokens];
    for (size_t token = 0; token < kTokens; token++) sums[token] = no_sums();
    for (size_t chunk = 0; chunk < whole_chunks; chunk++, at += Type::kBytes) {
      const uint8_t* ahead = at + kPrefetchBytes < last ? at + kPrefetchBytes : last;
#pragma GCC unroll 8
      for (size_t line = 0; line < Type::kBytes; line += 64) prefetch(ahead + line);
      // Scales take a long chain of instructions; a chunk early, nothing waits for them.
      const uint8_t* next = chunk + 1 < whole_chunks ? at + Type::kBytes : row_end;
      const typename Type::Scales next_scales = Type::scales(next < last ? next : last);
      multiply_chunk<Type, kTokens>(at, scales, tokens, chunk, sums);
      scales = next_scales;
    }
    if (rest_units != 0) {
      const uint8_t* levels = reader.whole(at, Type::kBytes, row_end);
      multiply_chunk<Type, kTokens>(levels, first_units(Type::scales(levels), rest_units), tokens, whole_chunks, sums);
    }
    constexpr float kFactor = Type::kMinima ? 1 : Type::kOffset;
    for (size_t token = 0; token < kTokens; token++) {
      out[token * out_stride + row] = total<kCorrected<Type>>(sums[token], kFactor);
    }
  }
}

template <TensorType kType>
inline F load_floats(const uint8_t* from, size_t column) {
  if constexpr (kType == TensorType::f16) return load_f16(from + column * 2);
  if constexpr (kType == TensorType::bf16) return load_bf16(from + column * 2);
  return load(reinterpret_cast<const float*>(from + column * 4));
}

/// The last columns of a row, with zeros after them.
template <TensorType kType>
inline F load_last_floats(const uint8_t* from, size_t column, size_t width) {
  constexpr size_t kElement = kType == TensorType::f32 ? 4 : 2;
  uint8_t padded[kLanes * kElement] = {};
  memcpy(padded, from + column * kElement, (width - column) * kElement);
  return load_floats<kType>(padded, 0);
}

template <TensorType kType, size_t kTokens>
void multiply_float_range(const Matrix& weight, size_t first_row, size_t row_count, const Packed& packed, size_t first_token,
                          float* out, size_t out_stride) {
  constexpr size_t kElement = kType == TensorType::f32 ? 4 : 2;
  const float* tokens[kTokens];
  for (size_t token = 0; token < kTokens; token++) {
    tokens[token] = reinterpret_cast<const float*>(packed.data + (first_token + token) * packed.group_bytes);
  }
  const uint8_t* last = weight.data + (first_row + row_count) * weight.row_bytes - 1;
  const size_t width = weight.width;
  for (size_t row = 0; row < row_count; row++) {
    const uint8_t* at = weight.data + (first_row + row) * weight.row_bytes;
    F even[kTokens], odd[kTokens];
    for (size_t token = 0; token < kTokens; token++) even[token] = odd[token] = zero();
    size_t column = 0;
    for (; column + 2 * kLanes <= width; column += 2 * kLanes) {
      const uint8_t* ahead = at + column * kElement + kPrefetchBytes;
      prefetch(ahead < last ? ahead : last);
      const F first = load_floats<kType>(at, column);
      const F second = load_floats<kType>(at, column + kLanes);
#pragma GCC unroll 8
      for (size_t token = 0; token < kTokens; token++) {
        even[token] = fma(first, load(tokens[token] + column), even[token]);
        odd[token] = fma(second, load(tokens[token] + column + kLanes), odd[token]);
      }
    }
    for (; column < width; column += kLanes) {
      const F first = column + kLanes <= width ? load_floats<kType>(at, column) : load_last_floats<kType>(at, column, width);
      for (size_t token = 0; token < kTokens; token++) even[token] = fma(first, load(tokens[token] + column), even[token]);
    }
    for (size_t token = 0; token < kTokens; token++) out[token * out_stride + row] = sum(add(even[token], odd[token]));
  }
}

template <class Type>
struct QuantRows {
  template <size_t kTokens>
  static void run(const Matrix& weight, size_t first_row, size_t row_count, const Packed& packed, size_t first_token, float* out,
                  size_t out_stride) {
    multiply_row_range<Type, kTokens>(weight, first_row, row_count, packed, first_token, out, out_stride);
  }
};

template <TensorType kType>
struct FloatRows {
  template <size_t kTokens>
  static void run(const Matrix& weight, size_t first_row, size_t row_count, const Packed& packed, size_t first_token, float* out,
                  size_t out_stride) {
    multiply_float_range<kType, kTokens>(weight, first_row, row_count, packed, first_token, out, out_stride);
  }
};

/// Cuts the tokens into passes of 8, 4, 2 and 1, and the rows so that later passes find them in the cache.
template <class Kernel>
void multiply_passes(const Matrix& weight, size_t first_row, size_t row_count, const Packed& packed, size_t first_token,
                     size_t tokens, float* out, size_t out_stride) {
  const size_t fitting = kPassBytes / weight.row_bytes;
  const size_t block = tokens == 1 || tokens == 2 || tokens == 4 || tokens == 8 ? row_count : fitting == 0 ? 1 : fitting;
  for (size_t row = 0; row < row_count; row += block) {
    const size_t rows = row_count - row < block ? row_count - row : block;
    for (size_t token = 0; token < tokens;) {
      const size_t rest = tokens - token;
      float* target = out + token * out_stride + row;
      const size_t from = first_token + token;
      if (rest >= 8) {
        Kernel::template run<8>(weight, first_row + row, rows, packed, from, target, out_stride);
        token += 8;
      } else if (rest >= 4) {
        Kernel::template run<4>(weight, first_row + row, rows, packed, from, target, out_stride);
        token += 4;
      } else if (rest >= 2) {
        Kernel::template run<2>(weight, first_row + row, rows, packed, from, target, out_stride);
        token += 2;
      } else {
        Kernel::template run<1>(weight, first_row + row, rows, packed, from, target, out_stride);
        token += 1;
      }
    }
  }
}

}  // namespace
}  // namespace rocmforge
