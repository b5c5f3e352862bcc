// Prepares activations for matmuls: quantized to 8 bits in blocks of 32, or left as f32; token by token, or panels of
// tokens interleaved. Bit-exact with the quantization in src/backends/reference/row-kernels.ts.

#pragma once

#include <cmath>

#include "matmul-interface.h"

namespace rocmforge {
namespace {

static_assert(kPanelTokens <= kMaxPanelTokens, "the engine has room for a panel");

/// The largest float below a half.
constexpr float kBelowHalf = 0x1.fffffep-2f;

struct QuantizedBlock {
  int8_t levels[kUnit];
  float scale;
  /// Of the first and the second 16 levels.
  float sums[2];
};

/// As the reference divides, in double precision: only where a quotient in f32 came out as a half, which may be
/// rounding.
inline void quantize_exactly(const float* values, QuantizedBlock& block) {
  block.sums[0] = block.sums[1] = 0;
  for (size_t index = 0; index < kUnit; index++) {
    const double quotient = nearbyint(static_cast<double>(values[index]) / static_cast<double>(block.scale));
    const double level = quotient > 127 ? 127 : quotient < -127 ? -127 : quotient;
    block.levels[index] = static_cast<int8_t>(level);
    block.sums[index / (kUnit / 2)] += static_cast<float>(level);
  }
}

inline void quantize_block(const float* values, QuantizedBlock& block) {
  constexpr size_t kVectors = kUnit / kLanes;
  F loaded[kVectors];
  F largest = zero();
  bool usable = true;
  for (size_t index = 0; index < kVectors; index++) {
    loaded[index] = load(values + index * kLanes);
    largest = max(largest, abs(loaded[index]));
    usable = all(finite(loaded[index])) && usable;
  }
  block.scale = usable ? reduce_max(largest) / 127.0f : __builtin_nanf("");
  if (!usable || block.scale == 0) {
    memset(block.levels, 0, sizeof block.levels);
    block.sums[0] = block.sums[1] = 0;
    return;
  }
  const F scale = set(block.scale);
  F farthest = zero();
  F sums[2] = {zero(), zero()};
  for (size_t index = 0; index < kVectors; index++) {
    const F quotient = div(loaded[index], scale);
    // A scale that is nearly zero is itself rounded coarsely, and quotients may pass 127.
    const F level = max(min(round(quotient), set(127)), set(-127));
    farthest = max(farthest, abs(sub(quotient, level)));
    store_i8(block.levels + index * kLanes, round_to_int(level));
    F& half = sums[index * kLanes / (kUnit / 2)];
    half = add(half, level);
  }
  // Sums of so few whole numbers are exact in any order.
  for (size_t half = 0; half < 2; half++) block.sums[half] = sum(sums[half]);
  if (any(greater(farthest, set(kBelowHalf)))) quantize_exactly(values, block);
}

/// Columns from `first` on, where a row may end within the block.
inline void quantize_columns(const float* row, size_t width, size_t first, QuantizedBlock& block) {
  if (first + kUnit <= width) return quantize_block(row + first, block);
  float values[kUnit] = {};
  if (first < width) memcpy(values, row + first, (width - first) * sizeof(float));
  quantize_block(values, block);
}

inline void quantize_q8_row(const float* row, size_t width, uint8_t* group) {
  RowChunk* chunks = reinterpret_cast<RowChunk*>(group);
  QuantizedBlock block;
  for (size_t unit = 0; unit < chunks_of(width) * kChunkUnits; unit++) {
    RowChunk& chunk = chunks[unit / kChunkUnits];
    const size_t index = unit % kChunkUnits;
    quantize_columns(row, width, unit * kUnit, block);
    memcpy(chunk.values + index * kUnit, block.levels, kUnit);
    int8_t* const halves = chunk.halves + index / 4 * 4 * kUnit + index % 4 * (kUnit / 2);
    memcpy(halves, block.levels, kUnit / 2);
    memcpy(halves + 2 * kUnit, block.levels + kUnit / 2, kUnit / 2);
    chunk.scales[index] = chunk.scales_16[2 * index] = chunk.scales_16[2 * index + 1] = block.scale;
    chunk.nibble_scales[index] = index % 2 == 0 ? block.scale : block.scale / 16;
    chunk.sums[index] = block.scale * (block.sums[0] + block.sums[1]);
    chunk.sums_16[2 * index] = block.scale * block.sums[0];
    chunk.sums_16[2 * index + 1] = block.scale * block.sums[1];
  }
}

inline void quantize_q8_panel(const float* const* rows, size_t width, size_t tokens, uint8_t* group) {
  PanelChunk<kPanelTokens>* chunks = reinterpret_cast<PanelChunk<kPanelTokens>*>(group);
  if (tokens < kPanelTokens) memset(group, 0, chunks_of(width) * sizeof *chunks);
  QuantizedBlock block;
  for (size_t token = 0; token < tokens; token++) {
    for (size_t unit = 0; unit < chunks_of(width) * kChunkUnits; unit++) {
      PanelChunk<kPanelTokens>& chunk = chunks[unit / kChunkUnits];
      const size_t index = unit % kChunkUnits;
      quantize_columns(rows[token], width, unit * kUnit, block);
      for (size_t quad = 0; quad < kUnit / 4; quad++) {
        memcpy(chunk.values[index * 8 + quad][token], block.levels + quad * 4, 4);
      }
      chunk.scales[index][token] = block.scale;
      chunk.sums[index][token] = block.scale * (block.sums[0] + block.sums[1]);
      chunk.corrections[index][token] = -128 * static_cast<int32_t>(block.sums[0] + block.sums[1]);
      for (size_t half = 0; half < 2; half++) {
        chunk.sums_16[2 * index + half][token] = block.scale * block.sums[half];
        chunk.corrections_16[2 * index + half][token] = -128 * static_cast<int32_t>(block.sums[half]);
      }
    }
  }
}

inline size_t padded_width(size_t width) { return (width + 15) / 16 * 16; }

inline void copy_f32_row(const float* row, size_t width, uint8_t* group) {
  memcpy(group, row, width * sizeof(float));
  memset(group + width * sizeof(float), 0, (padded_width(width) - width) * sizeof(float));
}

inline void copy_f32_panel(const float* const* rows, size_t width, size_t tokens, uint8_t* group) {
  float* columns = reinterpret_cast<float*>(group);
  if (tokens < kPanelTokens) memset(group, 0, width * kPanelTokens * sizeof(float));
  for (size_t column = 0; column < width; column++) {
    for (size_t token = 0; token < tokens; token++) columns[column * kPanelTokens + token] = rows[token][column];
  }
}

size_t group_bytes(ActivationFormat format, size_t width) {
  switch (format) {
    case ActivationFormat::q8_rows: return chunks_of(width) * sizeof(RowChunk);
    case ActivationFormat::q8_panels: return chunks_of(width) * sizeof(PanelChunk<kPanelTokens>);
    case ActivationFormat::f32_rows: return padded_width(width) * sizeof(float);
    case ActivationFormat::f32_panels: return padded_width(width) * kPanelTokens * sizeof(float);
  }
  return 0;
}

/// One group from the rows of its tokens.
inline void quantize_group(const float* const* rows, size_t tokens, ActivationFormat format, size_t width,
                           uint8_t* group) {
  switch (format) {
    case ActivationFormat::q8_rows: return quantize_q8_row(rows[0], width, group);
    case ActivationFormat::q8_panels: return quantize_q8_panel(rows, width, tokens, group);
    case ActivationFormat::f32_rows: return copy_f32_row(rows[0], width, group);
    case ActivationFormat::f32_panels: return copy_f32_panel(rows, width, tokens, group);
  }
}

void quantize(const float* input, size_t stride, size_t first_group, size_t groups, const Activations& activations) {
  const bool panels =
      activations.format == ActivationFormat::q8_panels || activations.format == ActivationFormat::f32_panels;
  const size_t group_tokens = panels ? kPanelTokens : 1;
  for (size_t group = first_group; group < first_group + groups; group++) {
    const size_t first = group * group_tokens;
    const size_t rest = activations.tokens > first ? activations.tokens - first : 0;
    const size_t tokens = rest < group_tokens ? rest : group_tokens;
    const float* rows[kPanelTokens] = {input + first * stride};
    for (size_t token = 1; token < tokens; token++) rows[token] = input + (first + token) * stride;
    quantize_group(rows, tokens, activations.format, activations.width,
                   activations.data + group * activations.group_bytes);
  }
}

void quantize_rows(const float* const* rows, const Activations& activations) {
  quantize_group(rows, activations.tokens, activations.format, activations.width, activations.data);
}

}  // namespace
}  // namespace rocmforge
