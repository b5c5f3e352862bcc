// GEMV, the matmul of a small batch: weights are streamed once, in the layout of the file, against up to eight tokens.
// They are read in order, which the hardware's own prefetcher handles best, except that it stops at the end of a page:
// the next page is asked for now and then, and more software prefetch than that made every type slower on Zen 4. On
// Cascade Lake each line is asked for a page early: Q4_K 14 -> 21 GB/s with two threads, Q4_0 15 -> 21, Q6_K 15 -> 22. So
// it is on Zen 5: decode of a Llama-3.2-1B in Q4_K_M 51 -> 61 GB/s, with contiguous shares (team.h) 69 of 70.
// A token's arithmetic is bit-exact regardless of how many other tokens share the pass.

#pragma once

#include "matmul-interface.h"
#include "weight-prefetch.h"
#include "unroll.h"

namespace rocmforge {
namespace {

/// Weights that several passes over the tokens may find in the cache again.
constexpr size_t kPassBytes = 256 * 1024;

/// One token alone asks for a line of the next page every four chunks.
constexpr size_t kPrefetchDistance = 4096;
constexpr size_t kPrefetchChunks = 4;

/// Past the end of the weight these are addresses that are not read, and a prefetch of them does nothing.
template <class Type>
inline void prefetch_stream(const uint8_t* at, size_t chunk) {
  if (kStreamsNeedPrefetch) {
    for (size_t byte = 0; byte < Type::kBytes; byte += kLineBytes) __builtin_prefetch(at + kPrefetchDistance + byte);
  } else if (chunk % kPrefetchChunks == 0) {
    __builtin_prefetch(at + kPrefetchDistance, 0, 2);
  }
}

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

template <class Type>
constexpr bool kCorrected = Type::kMinima || Type::kOffset != 0;

template <class Type, size_t kTokens>
inline void multiply_chunk(const uint8_t* levels, const typename RowScales<Type>::Result& scales,
                           const RowChunk* const* tokens, size_t chunk, RowSums* sums) {
  using Scales = typename RowScales<Type>::Result;
  Combined<Scales> combined[kTokens];
  ROCMFORGE_UNROLL(8)
  for (size_t token = 0; token < kTokens; token++) {
    combine<kCorrected<Type>>(scales, tokens[token][chunk], combined[token], sums[token]);
  }
  if constexpr (RowForm<Type>::kExists)
    return RowForm<Type>::template multiply<kTokens>(levels, tokens, chunk, combined, sums);
  ROCMFORGE_UNROLL(8)
  for (size_t unit = 0; unit < kChunkUnits; unit += kRowUnits) {
    const auto weight = row_levels<Type>(levels, unit);
    ROCMFORGE_UNROLL(8)
    for (size_t token = 0; token < kTokens; token++) {
      accumulate<Scales, Type::kSigned>(weight, tokens[token][chunk], unit, combined[token], sums[token]);
    }
  }
}

template <class Type, size_t kTokens>
void gemv_rows(const Matrix& weight, size_t first_row, size_t row_count, const Activations& activations,
               size_t first_token, float* out, size_t out_stride) {
  const RowChunk* tokens[kTokens];
  for (size_t token = 0; token < kTokens; token++) {
    tokens[token] =
        reinterpret_cast<const RowChunk*>(activations.data + (first_token + token) * activations.group_bytes);
  }
  const size_t whole_chunks = weight.width / kChunk;
  const size_t rest_units = weight.width % kChunk / kUnit;
  ChunkReader reader;
  reader.end = end_of(weight);
  for (size_t row = 0; row < row_count; row++) {
    const uint8_t* at = weight.data + (first_row + row) * weight.row_bytes;
    const uint8_t* row_end = at + weight.row_bytes;
    RowSums sums[kTokens];
    for (size_t token = 0; token < kTokens; token++) sums[token] = no_sums();
    for (size_t chunk = 0; chunk < whole_chunks; chunk++, at += Type::kBytes) {
      if (kTokens == 1) prefetch_stream<Type>(at, chunk);
      multiply_chunk<Type, kTokens>(at, RowScales<Type>::of(at), tokens, chunk, sums);
    }
    if (rest_units != 0) {
      const uint8_t* levels = reader.whole(at, Type::kBytes, row_end);
      multiply_chunk<Type, kTokens>(levels, first_units(RowScales<Type>::of(levels), rest_units), tokens, whole_chunks,
                                    sums);
    }
    constexpr float kFactor = Type::kMinima ? 1 : Type::kOffset;
    for (size_t token = 0; token < kTokens; token++) {
      out[token * out_stride + row] = total<typename RowScales<Type>::Result, kCorrected<Type>>(sums[token], kFactor);
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

/// kRows rows side by side, so that an activation once loaded serves all of them.
template <TensorType kType, size_t kTokens, size_t kRows>
inline void multiply_float_rows(const uint8_t* first, size_t row_bytes, size_t width, const float* const* tokens,
                                float* out, size_t out_stride) {
  F even[kTokens][kRows], odd[kTokens][kRows];
  for (size_t token = 0; token < kTokens; token++) {
    for (size_t row = 0; row < kRows; row++) even[token][row] = odd[token][row] = zero();
  }
  size_t column = 0;
  constexpr size_t kElement = kType == TensorType::f32 ? 4 : 2;
  for (; column + 2 * kLanes <= width; column += 2 * kLanes) {
    if (kTokens == 1 && kStreamsNeedPrefetch) {
      const uint8_t* const next_page = first + column * kElement + kPrefetchDistance;
      for (size_t byte = 0; byte < 2 * kLanes * kElement; byte += kLineBytes) __builtin_prefetch(next_page + byte);
    }
    F low[kRows], high[kRows];
    ROCMFORGE_UNROLL(2)
    for (size_t row = 0; row < kRows; row++) {
      const uint8_t* at = first + row * row_bytes;
      low[row] = load_floats<kType>(at, column);
      high[row] = load_floats<kType>(at, column + kLanes);
    }
    ROCMFORGE_UNROLL(4)
    for (size_t token = 0; token < kTokens; token++) {
      const F first_values = load(tokens[token] + column), second_values = load(tokens[token] + column + kLanes);
      ROCMFORGE_UNROLL(2)
      for (size_t row = 0; row < kRows; row++) {
        even[token][row] = fma(low[row], first_values, even[token][row]);
        odd[token][row] = fma(high[row], second_values, odd[token][row]);
      }
    }
  }
  for (; column < width; column += kLanes) {
    for (size_t row = 0; row < kRows; row++) {
      const uint8_t* at = first + row * row_bytes;
      const F weight =
          column + kLanes <= width ? load_floats<kType>(at, column) : load_last_floats<kType>(at, column, width);
      for (size_t token = 0; token < kTokens; token++) {
        even[token][row] = fma(weight, load(tokens[token] + column), even[token][row]);
      }
    }
  }
  for (size_t token = 0; token < kTokens; token++) {
    for (size_t row = 0; row < kRows; row++) {
      out[token * out_stride + row] = sum(add(even[token][row], odd[token][row]));
    }
  }
}

template <TensorType kType, size_t kTokens>
void gemv_float_rows(const Matrix& weight, size_t first_row, size_t row_count, const Activations& activations,
                     size_t first_token, float* out, size_t out_stride) {
  const float* tokens[kTokens];
  for (size_t token = 0; token < kTokens; token++) {
    tokens[token] = reinterpret_cast<const float*>(activations.data + (first_token + token) * activations.group_bytes);
  }
  // One token alone waits for memory, and a second row would only be a second stream.
  constexpr size_t kRows = kTokens > 1 && 4 * kTokens + 8 <= kRegisters ? 2 : 1;
  const uint8_t* at = weight.data + first_row * weight.row_bytes;
  size_t row = 0;
  for (; row + kRows <= row_count; row += kRows, at += kRows * weight.row_bytes) {
    multiply_float_rows<kType, kTokens, kRows>(at, weight.row_bytes, weight.width, tokens, out + row, out_stride);
  }
  for (; row < row_count; row++, at += weight.row_bytes) {
    multiply_float_rows<kType, kTokens, 1>(at, weight.row_bytes, weight.width, tokens, out + row, out_stride);
  }
}

template <class Type>
struct QuantGemv {
  static constexpr size_t kMaxTokens = kMaxRowTokens;
  template <size_t kTokens>
  static void run(const Matrix& weight, size_t first_row, size_t row_count, const Activations& activations,
                  size_t first_token, float* out, size_t out_stride) {
    gemv_rows<Type, kTokens>(weight, first_row, row_count, activations, first_token, out, out_stride);
  }
};

template <TensorType kType>
struct FloatGemv {
  /// Eight tokens of f32 would not stay in the first-level cache.
  static constexpr size_t kMaxTokens = kMaxRowTokens < 4 ? kMaxRowTokens : 4;
  template <size_t kTokens>
  static void run(const Matrix& weight, size_t first_row, size_t row_count, const Activations& activations,
                  size_t first_token, float* out, size_t out_stride) {
    gemv_float_rows<kType, kTokens>(weight, first_row, row_count, activations, first_token, out, out_stride);
  }
};

/// Cuts the tokens into passes of 8, 4, 2 and 1, and the rows so that later passes find them in the cache.
template <class Kernel>
void gemv_passes(const Matrix& weight, size_t first_row, size_t row_count, const Activations& activations,
                 size_t first_token, size_t tokens, float* out, size_t out_stride) {
  const bool one_pass = tokens <= Kernel::kMaxTokens && (tokens & (tokens - 1)) == 0;
  const size_t fitting = kPassBytes / weight.row_bytes;
  const size_t block = one_pass ? row_count : fitting == 0 ? 1 : fitting;
  for (size_t row = 0; row < row_count; row += block) {
    const size_t rows = row_count - row < block ? row_count - row : block;
    size_t token = 0;
    const auto pass = [&](auto run, size_t count) {
      for (; tokens - token >= count; token += count) {
        run(weight, first_row + row, rows, activations, first_token + token, out + token * out_stride + row,
            out_stride);
      }
    };
    if constexpr (Kernel::kMaxTokens >= 8) pass(Kernel::template run<8>, 8);
    if constexpr (Kernel::kMaxTokens >= 4) pass(Kernel::template run<4>, 4);
    pass(Kernel::template run<2>, 2);
    pass(Kernel::template run<1>, 1);
  }
}

}  // namespace
}  // namespace rocmforge
