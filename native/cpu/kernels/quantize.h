// Prepares activations for matmuls: quantized to 8 bits in blocks of 32, or left as f32; token by token, or panels of
// tokens interleaved. Bit-exact with the quantization in src/backends/reference/row-kernels.ts.

#pragma once

#include <cmath>

#include "matmul-interface.h"

namespace rocmforge {
namespace {

static_assert(kPanelTokens <= kMaxPanelTokens, "the engine has room for a panel");

/// A product with the inverse of a scale is less than this from the exact quotient, whatever the level.
constexpr float kQuotientError = 0x1p-15f;
/// Scales below this are rounded coarsely, or have no inverse.
constexpr float kSmallestScale = 0x1p-100f;

/// As the reference divides, in double precision: only where a product came so near to a half that the exact quotient
/// may be on its other side.
inline void quantize_exactly(const float* values, float scale, int8_t* levels) {
  for (size_t index = 0; index < kUnit; index++) {
    const double quotient = nearbyint(static_cast<double>(values[index]) / static_cast<double>(scale));
    levels[index] = static_cast<int8_t>(quotient > 127 ? 127 : quotient < -127 ? -127 : quotient);
  }
}

/// Writes the levels of a block, and returns their scale.
inline float quantize_block(const float* values, int8_t* levels) {
  constexpr size_t kVectors = kUnit / kLanes;
  F loaded[kVectors];
  F largest = zero();
  bool usable = true;
  for (size_t index = 0; index < kVectors; index++) {
    loaded[index] = load(values + index * kLanes);
    largest = max(largest, abs(loaded[index]));
    usable = all(finite(loaded[index])) && usable;
  }
  const float scale = usable ? reduce_max(largest) / 127.0f : __builtin_nanf("");
  if (!(scale >= kSmallestScale)) {
    memset(levels, 0, kUnit);
    if (usable && scale != 0) quantize_exactly(values, scale, levels);
    return scale;
  }
  const F inverse = set(1.0f / scale);
  F farthest = zero();
  for (size_t index = 0; index < kVectors; index++) {
    const F quotient = mul(loaded[index], inverse);
    const F level = round(quotient);
    farthest = max(farthest, abs(sub(quotient, level)));
    store_i8(levels + index * kLanes, round_to_int(level));
  }
  if (any(greater(farthest, set(0.5f - kQuotientError)))) quantize_exactly(values, scale, levels);
  return scale;
}

/// Columns from `first` on, where a row may end within the block.
inline float quantize_columns(const float* row, size_t width, size_t first, int8_t* levels) {
  if (first + kUnit <= width) return quantize_block(row + first, levels);
  float values[kUnit] = {};
  if (first < width) memcpy(values, row + first, (width - first) * sizeof(float));
  return quantize_block(values, levels);
}

inline void quantize_q8_row(const float* row, size_t width, uint8_t* group) {
  RowChunk* chunks = reinterpret_cast<RowChunk*>(group);
  for (size_t unit = 0; unit < chunks_of(width) * kChunkUnits; unit++) {
    RowChunk& chunk = chunks[unit / kChunkUnits];
    const size_t index = unit % kChunkUnits;
    int8_t* const levels = chunk.values + index * kUnit;
    const float scale = quantize_columns(row, width, unit * kUnit, levels);
    int8_t* const halves = chunk.halves + index / 4 * 4 * kUnit + index % 4 * (kUnit / 2);
    memcpy(halves, levels, kUnit / 2);
    memcpy(halves + 2 * kUnit, levels + kUnit / 2, kUnit / 2);
    chunk.scales[index] = chunk.scales_16[2 * index] = chunk.scales_16[2 * index + 1] = scale;
    chunk.nibble_scales[index] = index % 2 == 0 ? scale : scale / 16;
    const int32_t first = sum_of_half(levels), second = sum_of_half(levels + kUnit / 2);
    chunk.sums[index] = scale * static_cast<float>(first + second);
    chunk.sums_16[2 * index] = scale * static_cast<float>(first);
    chunk.sums_16[2 * index + 1] = scale * static_cast<float>(second);
  }
}

/// Chunk by chunk: what the tokens write to stays in the first-level cache. Tokens that are missing are zeros.
inline void quantize_q8_panel(const float* const* rows, size_t width, size_t tokens, uint8_t* group) {
  PanelChunk<kPanelTokens>* chunks = reinterpret_cast<PanelChunk<kPanelTokens>*>(group);
  PanelUnit<kPanelTokens> units[kChunkUnits] = {};
  for (size_t chunk = 0; chunk < chunks_of(width); chunk++) {
    for (size_t token = 0; token < tokens; token++) {
      for (size_t unit = 0; unit < kChunkUnits; unit++) {
        units[unit].scales[token] =
            quantize_columns(rows[token], width, chunk * kChunk + unit * kUnit, units[unit].levels[token]);
      }
    }
    for (size_t unit = 0; unit < kChunkUnits; unit++) interleave_unit(units[unit], unit, chunks[chunk]);
    shorten_sums(chunks[chunk]);
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
