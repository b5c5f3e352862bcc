// Products of 16 × 16 × 32 signed bytes on the matrix units that have twice the rate for them (see device/matrix-unit.h): AMD's
// MFMA from gfx940 on and WMMA of gfx12; plain arithmetic elsewhere, in the lane layout of those. Sums are whole numbers below
// 2^22.
//
// Of a line's 32 bytes, two groups of 16, share s of kShares has bytes s × kPartBytes on of each group. Lines, rows and columns
// of lanes are those of the products of halves.
//   multiply_bytes<Groups>(left, right)            1: of the first groups alone, 2: of the second, 3: of both; kSumOffset more
//                                                  than the products' sums
//   multiply_add_scaled(tile, sums, row scales, column scale)
//   multiply_add_floats(tile, left, right)         of MATRIX_LAYOUT 9: products of 16 × 16 × 4 floats, one of each line a lane
#pragma once
#include "device/matrix-unit.h"

#if MATRIX_LAYOUT != 9 && MATRIX_LAYOUT != 12
#error "bytes are multiplied in the lane layouts 9 and 12 only"
#endif

#if defined(MATRIX_MFMA) && !defined(__gfx908__) && !defined(__gfx90a__)
#define MATRIX_BYTES_MFMA 1
#elif defined(MATRIX_WMMA) && MATRIX_LAYOUT == 12
#define MATRIX_BYTES_WMMA 1
#endif

constexpr int kPartBytes = 16 / kShares;
constexpr int kPartWords = kPartBytes / 4;

/** One lane's part of 32 bytes of a line, by groups. */
struct ByteFragment {
  u32 words[2][kPartWords];
};

// A sum that begins with the bits of 3 × 2^22 is, as a float, that number and the sum. So it needs no conversion: it is scaled
// by an fma that takes the scaled number off, rounding once, because a scale of at most 22 bits times 3 is exact.
constexpr int kSumBits = 0x4b400000;
constexpr float kSumOffset = 12582912.0f;

/** A scale of at most 22 bits, as those of all weights are (11 bits of a half times 8), and what it takes off. */
struct SumScale {
  float scale, offset;
};

DEVICE SumScale sum_scale(float scale) { return {scale, scale * -kSumOffset}; }

#if defined(MATRIX_BYTES_MFMA) || defined(MATRIX_BYTES_WMMA)

typedef int MatrixWords __attribute__((ext_vector_type(kTileElements)));
typedef float FloatPair __attribute__((ext_vector_type(2)));

template <int Groups>
DEVICE Tile multiply_bytes(const ByteFragment& left, const ByteFragment& right) {
  MatrixWords sums = kSumBits;
#if defined(MATRIX_BYTES_MFMA)
  ByteFragment columns = right;
  if (Groups == 1) columns.words[1][0] = 0;
  if (Groups == 2) columns.words[0][0] = 0;
  sums = __builtin_amdgcn_mfma_i32_16x16x32_i8(__builtin_bit_cast(long, left), __builtin_bit_cast(long, columns), sums,
                                               0, 0, 0);
#else
  typedef int Pair __attribute__((ext_vector_type(2)));
#pragma unroll
  for (int group = 0; group < 2; group++) {
    if ((Groups & (1 << group)) == 0) continue;
    const Pair rows = {int(left.words[group][0]), int(left.words[group][1])};
    const Pair columns = {int(right.words[group][0]), int(right.words[group][1])};
    sums = __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32_gfx12(true, rows, true, columns, sums, false);
  }
#endif
  return __builtin_bit_cast(Tile, sums);
}

DEVICE void multiply_add_scaled(Tile& tile, const Tile& sums, const Tile& row_scales, const SumScale& column) {
  const FloatPair scale = column.scale, offset = column.offset;
#pragma unroll
  for (int i = 0; i < kTileElements; i += 2) {
    const FloatPair scaled = __builtin_elementwise_fma(FloatPair{sums.values[i], sums.values[i + 1]}, scale, offset);
    const FloatPair pair = __builtin_elementwise_fma(scaled, FloatPair{row_scales.values[i], row_scales.values[i + 1]},
                                                     FloatPair{tile.values[i], tile.values[i + 1]});
    tile.values[i] = pair.x;
    tile.values[i + 1] = pair.y;
  }
}

#else

struct ByteMeeting {
  u32 left[16][8];
  u32 right[16][8];
};

/** One for all groups: a template's would be one for each. */
DEVICE ByteMeeting& byte_meeting() {
  SHARED ByteMeeting meetings[MATRIX_WAVES];
  return meetings[wave_index()];
}

template <int Groups>
DEVICE Tile multiply_bytes(const ByteFragment& left, const ByteFragment& right) {
  ByteMeeting& meeting = byte_meeting();
#pragma unroll
  for (int i = 0; i < 2 * kPartWords; i++) {
    const int group = i / kPartWords, word = i % kPartWords, at = group * 4 + fragment_share() * kPartWords + word;
    meeting.left[fragment_line(0)][at] = left.words[group][word];
    meeting.right[fragment_line(0)][at] = right.words[group][word];
  }
  wave_barrier();
  Tile tile;
#pragma unroll
  for (int element = 0; element < kTileElements; element++) {
    int sum = 0;
#pragma unroll 1
    for (int word = Groups == 2 ? 4 : 0; word < (Groups == 1 ? 4 : 8); word++)
      sum = dot4(int(meeting.left[tile_row(element)][word]), int(meeting.right[tile_column(element)][word]), sum);
    tile.values[element] = float_of(u32(sum + kSumBits));
  }
  wave_barrier();
  return tile;
}

DEVICE void multiply_add_scaled(Tile& tile, const Tile& sums, const Tile& row_scales, const SumScale& column) {
#pragma unroll
  for (int i = 0; i < kTileElements; i++)
    tile.values[i] = fma(fma(sums.values[i], column.scale, column.offset), row_scales.values[i], tile.values[i]);
}

#endif

#if MATRIX_LAYOUT == 9

#if defined(MATRIX_BYTES_MFMA)

DEVICE void multiply_add_floats(Tile& tile, float left, float right) {
  const MatrixSums sums = __builtin_bit_cast(MatrixSums, tile);
  tile = __builtin_bit_cast(Tile, __builtin_amdgcn_mfma_f32_16x16x4f32(left, right, sums, 0, 0, 0));
}

#else

DEVICE void multiply_add_floats(Tile& tile, float left, float right) {
  ByteMeeting& meeting = byte_meeting();
  meeting.left[fragment_line(0)][fragment_share()] = bits_of(left);
  meeting.right[fragment_line(0)][fragment_share()] = bits_of(right);
  wave_barrier();
#pragma unroll
  for (int i = 0; i < kTileElements; i++) {
#pragma unroll
    for (int share = 0; share < kShares; share++)
      tile.values[i] = fma(float_of(meeting.left[tile_row(i)][share]), float_of(meeting.right[tile_column(i)][share]),
                           tile.values[i]);
  }
  wave_barrier();
}

#endif

#endif
