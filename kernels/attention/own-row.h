// A token's own key and value on the way from f32 columns in shared memory to the cache and, as the cache keeps them,
// to the registers of the lanes that attend to them. Rounding is that of store_row in attention/kv-cache.h.
#pragma once
#include "attention/rows.h"
#include "device/quad.h"

/**
 * Whether the cache can hold this number: a number that it cannot hold makes the whole position invalid
 * (attention/kv-cache.h).
 */
DEVICE bool is_storable(float value) {
  if (KV_TYPE == 0) return is_finite(value);
  // The scale of 32 columns is that of the largest, so no column asks for less than it gets.
  return (float_to_half(KV_TYPE == 1 ? value : magnitude(value) / 127.0f) & 0x7c00) != 0x7c00;
}

/** 16 bytes of a row, from its f32 columns; every lane of the wave calls, neighbours with neighbouring chunks. */
template <typename HeadRow, bool Finite>
DEVICE CacheChunk encode_chunk(const Quad* columns, int chunk) {
  constexpr int Quads = HeadRow::kChunkColumns / 4;
  Quad quads[Quads];
#pragma unroll
  for (int quad = 0; quad < Quads; quad++) quads[quad] = columns[min(chunk, HeadRow::kChunks - 1) * Quads + quad];
  u32 words[4];
  CacheChunk quantized = empty_chunk();
  if (KV_TYPE == 0) {
#pragma unroll
    for (int word = 0; word < 4; word++)
      words[word] = Finite && !is_finite(quads[0].at[word]) ? 0u : bits_of(quads[0].at[word]);
  }
  if (KV_TYPE == 1) {
#pragma unroll
    for (int word = 0; word < 4; word++) {
      const u32 pair =
          float2_to_half2(quads[word / 2 % Quads].at[word % 2 * 2], quads[word / 2 % Quads].at[word % 2 * 2 + 1]);
      const u32 low = Finite && (pair & 0x7c00u) == 0x7c00u ? 0u : pair & 0xffffu;
      const u32 high = Finite && (pair & 0x7c000000u) == 0x7c000000u ? 0u : pair & 0xffff0000u;
      words[word] = low | high;
    }
  }
  if (KV_TYPE == 2) {
    u32 peak = 0;
#pragma unroll
    for (int column = 0; column < HeadRow::kChunkColumns; column++)
      peak = max(peak, magnitude_bits(quads[column / 4].at[column % 4]));
    static_assert(KV_TYPE != 2 || kScaleColumns == 2 * HeadRow::kChunkColumns, "two neighbouring lanes share a scale");
    const Levels levels = levels_for(max(peak, wave_xor(peak, 1)));
#pragma unroll
    for (int word = 0; word < 4; word++) {
      words[word] = 0;
#pragma unroll
      for (int byte = 0; byte < 4; byte++)
        words[word] |= u32(level_of(quads[word % Quads].at[byte], levels)) << (byte * 8);
    }
    quantized.scale = Finite && levels.bad ? u16(0) : levels.scale;
  }
  quantized.words = {words[0], words[1], words[2], words[3]};
  return quantized;
}

/** The key of a position whose value was not finite. */
DEVICE CacheChunk invalid_chunk() {
  const u32 word = KV_TYPE == 0 ? 0x7fc00000u : KV_TYPE == 1 ? 0x7e007e00u : 0u;
  return {{word, word, word, word}, kHalfNan};
}

template <typename HeadRow>
DEVICE void store_chunk(const CachePlane& plane, u64 row, int chunk, const CacheChunk& stored) {
  *reinterpret_cast<Words4*>(plane.rows + row * HeadRow::kBytes + chunk * 16) = stored.words;
  if (KV_TYPE == 2 && chunk % 2 == 0)
    reinterpret_cast<u16*>(plane.scales)[row * HeadRow::kScales + chunk / 2] = stored.scale;
}

/** The row at `position` that this block has made itself. */
struct OwnRow {
  int position;
  /** In any plane of the layer. */
  int row;
  bool invalid;
  /** Whether it is this block that writes it to the cache; others have made it as well. */
  bool stored;
};

/** Puts the row at its place in a batch, and into the cache; Key says which of the two it is. One wave has work. */
template <typename Shape, bool Key>
DEVICE void take_own(const Source& source, const CachePlane& plane, const OwnRow& own, const Quad* columns, int batch,
                     CacheChunk* chunks) {
  typedef typename Shape::Row HeadRow;
  const int place = own.position - source.first;
  const int round = Shape::round_of(place) - batch * Shape::kBatch;
  if (round < 0 || round >= Shape::kBatch || wave_index() != Shape::wave_of(place)) return;
  const bool mine = Shape::place(batch, round) == place;
#pragma unroll
  for (int index = 0; index < Shape::kLaneChunks; index++) {
    const int chunk = Shape::chunk(index);
    CacheChunk quantized = encode_chunk<HeadRow, !Key>(columns, chunk);
    if (Key && own.invalid) quantized = invalid_chunk();
    if (!mine || chunk >= HeadRow::kChunks) continue;
#pragma unroll
    for (int other = 0; other < Shape::kBatch; other++) {
      if (other == round) chunks[other * Shape::kLaneChunks + index] = quantized;
    }
    if (own.stored) store_chunk<HeadRow>(plane, u64(own.row), chunk, quantized);
  }
}
