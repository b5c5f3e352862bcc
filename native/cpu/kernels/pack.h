// Activations on their way into products: rounded to 8 bits in blocks of 32, or left as f32; token by token, or panels
// of tokens interleaved. Rounding is that of src/backends/reference/row-kernels.ts to the bit.

#pragma once

#include <cmath>

#include "kernel-table.h"

namespace rocmforge {
namespace {

struct RoundedBlock {
  int8_t levels[kUnit];
  float scale;
  /// Of the first and the second 16 levels.
  float sums[2];
};

/// As the reference divides, in double precision: only where a quotient in f32 came out as a half, which may be
/// rounding.
inline void round_exactly(const float* values, float scale, int8_t* levels) {
  for (size_t index = 0; index < kUnit; index++) {
    const double level = nearbyint(static_cast<double>(values[index]) / static_cast<double>(scale));
    levels[index] = static_cast<int8_t>(level > 127 ? 127 : level < -127 ? -127 : level);
  }
}

inline void round_block(const float* values, RoundedBlock& block) {
  constexpr size_t kVectors = kUnit / kLanes;
  F loaded[kVectors];
  F largest = zero();
  bool usable = true;
  for (size_t index = 0; index < kVectors; index++) {
    loaded[index] = load(values + index * kLanes);
    largest = max(largest, abs(loaded[index]));
    usable = all(finite(loaded[index])) && usable;
  }
  block.scale = usable ? highest(largest) / 127.0f : __builtin_nanf("");
  if (!usable || block.scale == 0) {
    memset(block.levels, 0, sizeof block.levels);
    block.sums[0] = block.sums[1] = 0;
    return;
  }
  const F scale = set(block.scale);
  F halves = zero();
  for (size_t index = 0; index < kVectors; index++) {
    const F quotient = div(loaded[index], scale);
    // A scale that is nearly zero is itself rounded coarsely, and quotients may pass 127.
    const F level = max(min(round(quotient), set(127)), set(-127));
    halves = max(halves, abs(sub(quotient, level)));
    store_i8(block.levels + index * kLanes, round_to_int(level));
  }
  if (highest(halves) >= 0.5f) round_exactly(values, block.scale, block.levels);
  for (size_t half = 0; half < 2; half++) {
    F levels = zero();
    for (size_t index = 0; index < kUnit / 2; index += kLanes)
      levels = add(levels, load_i8(block.levels + half * 16 + index));
    block.sums[half] = sum(levels);
  }
}

/// Columns from `first` on, where a row may end within the block.
inline void round_columns(const float* row, size_t width, size_t first, RoundedBlock& block) {
  if (first + kUnit <= width) return round_block(row + first, block);
  float values[kUnit] = {};
  if (first < width) memcpy(values, row + first, (width - first) * sizeof(float));
  round_block(values, block);
}

inline void pack_q8_row(const float* row, size_t width, uint8_t* group) {
  RowChunk* chunks = reinterpret_cast<RowChunk*>(group);
  RoundedBlock block;
  for (size_t unit = 0; unit < chunks_of(width) * kChunkUnits; unit++) {
    RowChunk& chunk = chunks[unit / kChunkUnits];
    const size_t place = unit % kChunkUnits;
    round_columns(row, width, unit * kUnit, block);
    memcpy(chunk.values + place * kUnit, block.levels, kUnit);
    chunk.scales[place] = chunk.scales_16[2 * place] = chunk.scales_16[2 * place + 1] = block.scale;
    chunk.sums[place] = block.scale * (block.sums[0] + block.sums[1]);
    chunk.sums_16[2 * place] = block.scale * block.sums[0];
    chunk.sums_16[2 * place + 1] = block.scale * block.sums[1];
  }
}

inline void pack_q8_panel(const float* input, size_t stride, size_t width, size_t tokens, uint8_t* group) {
  PanelChunk<kPanelTokens>* chunks = reinterpret_cast<PanelChunk<kPanelTokens>*>(group);
  if (tokens < kPanelTokens) memset(group, 0, chunks_of(width) * sizeof *chunks);
  RoundedBlock block;
  for (size_t token = 0; token < tokens; token++) {
    for (size_t unit = 0; unit < chunks_of(width) * kChunkUnits; unit++) {
      PanelChunk<kPanelTokens>& chunk = chunks[unit / kChunkUnits];
      const size_t place = unit % kChunkUnits;
      round_columns(input + token * stride, width, unit * kUnit, block);
      for (size_t quad = 0; quad < kUnit / 4; quad++) {
        memcpy(chunk.values[place * 8 + quad][token], block.levels + quad * 4, 4);
      }
      chunk.scales[place][token] = block.scale;
      chunk.sums[place][token] = block.scale * (block.sums[0] + block.sums[1]);
      chunk.corrections[place][token] = -128 * static_cast<int32_t>(block.sums[0] + block.sums[1]);
      for (size_t half = 0; half < 2; half++) {
        chunk.sums_16[2 * place + half][token] = block.scale * block.sums[half];
        chunk.corrections_16[2 * place + half][token] = -128 * static_cast<int32_t>(block.sums[half]);
      }
    }
  }
}

inline size_t padded_width(size_t width) { return (width + 15) / 16 * 16; }

inline void pack_f32_row(const float* row, size_t width, uint8_t* group) {
  memcpy(group, row, width * sizeof(float));
  memset(group + width * sizeof(float), 0, (padded_width(width) - width) * sizeof(float));
}

inline void pack_f32_panel(const float* input, size_t stride, size_t width, size_t tokens, uint8_t* group) {
  float* columns = reinterpret_cast<float*>(group);
  if (tokens < kPanelTokens) memset(group, 0, width * kPanelTokens * sizeof(float));
  for (size_t column = 0; column < width; column++) {
    for (size_t token = 0; token < tokens; token++)
      columns[column * kPanelTokens + token] = input[token * stride + column];
  }
}

size_t group_bytes(PackFormat format, size_t width) {
  switch (format) {
    case PackFormat::q8_rows: return chunks_of(width) * sizeof(RowChunk);
    case PackFormat::q8_panels: return chunks_of(width) * sizeof(PanelChunk<kPanelTokens>);
    case PackFormat::f32_rows: return padded_width(width) * sizeof(float);
    case PackFormat::f32_panels: return padded_width(width) * kPanelTokens * sizeof(float);
  }
  return 0;
}

void pack(const float* input, size_t stride, size_t first_group, size_t groups, const Packed& packed) {
  const bool panels = packed.format == PackFormat::q8_panels || packed.format == PackFormat::f32_panels;
  const size_t group_tokens = panels ? kPanelTokens : 1;
  for (size_t group = first_group; group < first_group + groups; group++) {
    uint8_t* target = packed.data + group * packed.group_bytes;
    const size_t first = group * group_tokens;
    const size_t rest = packed.tokens > first ? packed.tokens - first : 0;
    const size_t tokens = rest < group_tokens ? rest : group_tokens;
    const float* rows = input + first * stride;
    switch (packed.format) {
      case PackFormat::q8_rows: pack_q8_row(rows, packed.width, target); break;
      case PackFormat::q8_panels: pack_q8_panel(rows, stride, packed.width, tokens, target); break;
      case PackFormat::f32_rows: pack_f32_row(rows, packed.width, target); break;
      case PackFormat::f32_panels: pack_f32_panel(rows, stride, packed.width, tokens, target); break;
    }
  }
}

}  // namespace
}  // namespace rocmforge
