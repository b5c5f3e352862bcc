// The paged KV cache as kernels see it; src/backends/gpu/memory/kv-layout.ts is the same for the host. Layers follow
// one another, and a layer is four planes, each from a multiple of 256 bytes on:
//
//   keys          [block][kv head][token in block][columns]       one row: 4, 2 or 1 bytes a column
//   key scales    [block][kv head][token in block][columns / 32]  f16, only of q8_0
//   values        as keys
//   value scales  as key scales
//
// Columns are the head's width rounded up to whole 16-byte chunks (q8_0: to whole scales); the rest is zero. A file
// that includes this defines KV_TYPE (0 f32, 1 f16, 2 q8_0), KEY_WIDTH, VALUE_WIDTH (0: the layer stores keys alone) and
// BLOCK_TOKENS. VALUES_IN_KEYS 1: values are the first VALUE_WIDTH columns of the keys, and the layer has two planes.
//
// Values are always finite. A value that is not, once it is rounded, becomes 0 and makes the key at its place NaN: all
// that attend to it come to NaN, and a place with a weight of 0 adds 0, whatever was there. Memory starts as zeros. A
// key that holds values and is not finite becomes zeros, with NaN in its last column (q8_0: its last scale), which no
// value reaches.
#pragma once
#include "device/order.h"
#include "device/step.h"

constexpr int kPlaneAlignment = 256;
/** Columns that share a scale in q8_0. */
constexpr int kScaleColumns = 32;
constexpr u16 kHalfNan = 0x7e00;

#ifndef VALUES_IN_KEYS
#define VALUES_IN_KEYS 0
#endif

/** The first Width columns of rows that are Stored columns wide. */
template <int Width, int Stored = Width>
struct CacheRow {
  /** Columns in 16 bytes. */
  static constexpr int kChunkColumns = KV_TYPE == 0 ? 4 : KV_TYPE == 1 ? 8 : 16;
  static constexpr int kAlignment = KV_TYPE == 2 ? kScaleColumns : kChunkColumns;
  static constexpr int kWidth = Width;
  static constexpr int kColumns = (Width + kAlignment - 1) / kAlignment * kAlignment;
  static constexpr int kChunks = kColumns / kChunkColumns;
  /** From one row to the next. */
  static constexpr int kBytes = (Stored + kAlignment - 1) / kAlignment * kAlignment / kChunkColumns * 16;
  static constexpr int kScales = KV_TYPE == 2 ? (Stored + kScaleColumns - 1) / kScaleColumns : 0;
};

typedef CacheRow<KEY_WIDTH> KeyRow;
typedef CacheRow<VALUE_WIDTH, VALUES_IN_KEYS ? KEY_WIDTH : VALUE_WIDTH> ValueRow;

/** Keys or values of one layer. */
struct CachePlane {
  u8* rows;
  u8* scales;
};

struct CacheLayer {
  CachePlane keys;
  CachePlane values;
};

DEVICE u64 plane_bytes(u64 bytes) { return (bytes + kPlaneAlignment - 1) / kPlaneAlignment * kPlaneAlignment; }

/** `a` has step, layer_bytes (of one block in all layers before this one) and layer_padding (bytes between them). */
template <typename Arguments>
DEVICE CacheLayer cache_layer(const Arguments& a, int kv_heads) {
  const u64 rows = u64(a.step->cache_blocks) * u64(kv_heads) * BLOCK_TOKENS;
  const u64 keys = plane_bytes(rows * KeyRow::kBytes), key_scales = plane_bytes(rows * KeyRow::kScales * 2);
  u8* const start =
      global_pointer<u8>(a.step->cache) + plane_bytes(u64(a.step->cache_blocks) * a.layer_bytes) + u64(a.layer_padding);
  const CachePlane key_plane = {start, start + keys};
  if (VALUES_IN_KEYS) return {key_plane, key_plane};
  const u64 values = plane_bytes(rows * ValueRow::kBytes);
  return {key_plane, {start + keys + key_scales, start + keys + key_scales + values}};
}

/** The row of a place in a block, in any plane of a layer. */
DEVICE u64 cache_row(int block, int offset, int kv_head, int kv_heads) {
  return (u64(block) * u64(kv_heads) + u64(kv_head)) * BLOCK_TOKENS + u64(offset);
}

/** 16 bytes of a row, and their scale where the type has one. */
struct CacheChunk {
  Words4 words;
  u16 scale;
};

template <typename HeadRow>
DEVICE CacheChunk fetch_chunk(const CachePlane& plane, u64 row, int chunk) {
  CacheChunk fetched;
  fetched.words = load_once(plane.rows + row * HeadRow::kBytes + chunk * 16);
  fetched.scale = 0;
  if (KV_TYPE == 2)
    fetched.scale = reinterpret_cast<const u16*>(plane.scales)[row * HeadRow::kScales + chunk * 16 / kScaleColumns];
  return fetched;
}

DEVICE CacheChunk empty_chunk() { return {{0, 0, 0, 0}, 0}; }

/** The columns of a chunk, without its scale. */
DEVICE void widen(const Words4& chunk, float* columns) {
  const u32 words[4] = {chunk.x, chunk.y, chunk.z, chunk.w};
#pragma unroll
  for (int index = 0; index < 4; index++) {
    if (KV_TYPE == 0) columns[index] = float_of(words[index]);
    if (KV_TYPE == 1) {
      columns[index * 2] = half_to_float(u16(words[index]));
      columns[index * 2 + 1] = half_to_float(u16(words[index] >> 16));
    }
    if (KV_TYPE == 2) {
      // Conversions of integers are slow: a byte in the last bits of 2^23 is exact, and so is taking 2^23 + 128 away.
      const u32 raised = words[index] ^ 0x80808080u;
#pragma unroll
      for (int byte = 0; byte < 4; byte++) {
        columns[index * 4 + byte] = float_of(0x4b000000u | ((raised >> (byte * 8)) & 255u)) - 8388736.0f;
      }
    }
  }
}

/** How 32 columns become bytes, as GGUF's Q8_0 is encoded: a scale rounded to f16, levels by the scale before that. */
struct Levels {
  u16 scale;
  float inverse;
  /** A column is not finite, or too large: the scale is not a number that f16 has. */
  bool bad;
  bool zero;
};

/** Of columns whose largest magnitude has these bits. */
DEVICE Levels levels_for(u32 peak_bits) {
  const float peak = float_of(peak_bits);
  const float scale = peak / 127.0f;
  Levels levels;
  levels.scale = is_finite(peak) ? float_to_half(scale) : kHalfNan;
  levels.bad = (levels.scale & 0x7c00) == 0x7c00;
  levels.inverse = scale == 0.0f ? 0.0f : 1.0f / scale;
  // Below 2^-119 the inverse is infinite; the scale as f16 is 0 then, so any level will do.
  levels.zero = levels.bad || !is_finite(levels.inverse);
  return levels;
}

/** Halves away from zero. */
DEVICE u8 level_of(float value, const Levels& levels) {
  const float level = levels.zero ? 0.0f : value * levels.inverse;
  const int whole = int(magnitude(level));
  const int away = magnitude(level) - float(whole) >= 0.5f ? whole + 1 : whole;
  return u8(level < 0.0f ? -away : away);
}

/**
 * Rounds `columns` (one head's, in memory that the wave shares) to the cache's type and stores them, by one whole wave.
 * With Finite set, what is not finite is stored as 0. Returns whether anything was not.
 */
template <typename HeadRow, bool Finite>
DEVICE bool store_row(const CachePlane& plane, u64 row, const float* columns) {
  bool invalid = false;
#pragma unroll 1
  for (int first = 0; first < HeadRow::kColumns; first += WAVE) {
    const int column = first + lane_index();
    float value = column < HeadRow::kWidth ? columns[column] : 0.0f;
    if (KV_TYPE == 0) {
      const bool bad = !is_finite(value);
      invalid = invalid || bad;
      if (column < HeadRow::kColumns)
        reinterpret_cast<float*>(plane.rows + row * HeadRow::kBytes)[column] = Finite && bad ? 0.0f : value;
    }
    if (KV_TYPE == 1) {
      const u16 half = float_to_half(value);
      const bool bad = (half & 0x7c00) == 0x7c00;
      invalid = invalid || bad;
      if (column < HeadRow::kColumns)
        reinterpret_cast<u16*>(plane.rows + row * HeadRow::kBytes)[column] = Finite && bad ? u16(0) : half;
    }
    if (KV_TYPE == 2) {
      const Levels levels = levels_for(wave_max<32>(magnitude_bits(value)));
      invalid = invalid || levels.bad;
      if (column < HeadRow::kColumns) {
        plane.rows[row * HeadRow::kBytes + column] = level_of(value, levels);
        if (column % kScaleColumns == 0) {
          reinterpret_cast<u16*>(plane.scales)[row * HeadRow::kScales + column / kScaleColumns] =
              Finite && levels.bad ? u16(0) : levels.scale;
        }
      }
    }
  }
  return wave_sum(invalid ? 1 : 0) > 0;
}

/**
 * The same for a key that holds values: if anything in it is not finite, the row becomes zeros but for its last column,
 * which becomes NaN. `columns` is overwritten.
 */
template <typename HeadRow>
DEVICE void store_shared_row(const CachePlane& plane, u64 row, float* columns) {
  if (!store_row<HeadRow, false>(plane, row, columns)) return;
  wave_barrier();
  for (int column = lane_index(); column < HeadRow::kWidth; column += WAVE)
    columns[column] = column == HeadRow::kWidth - 1 ? float_of(0x7fc00000u) : 0.0f;
  wave_barrier();
  store_row<HeadRow, false>(plane, row, columns);
}
