// The matrix units of AMD (see device/matrix-unit.h), and the plain form for machines without: there the lanes meet in
// shared memory, in the lane layout of the units, so that the host runs the very index maps a card would.
#pragma once

#if defined(__AMDGCN__) && !defined(ROCMFORGE_EMULATOR)
#if defined(__gfx908__) || defined(__gfx90a__) || defined(__gfx940__) || defined(__gfx941__) || defined(__gfx942__) || \
    defined(__gfx950__)
#define MATRIX_MFMA 1
#elif MATRIX_LAYOUT == 11 || defined(__GFX12__)
#define MATRIX_WMMA 1
#endif
#endif

DEVICE Fragment load_fragment(const u16* shared, int stride) {
  Fragment fragment;
#pragma unroll
  for (int word = 0; word < kFragmentWords; word++) {
    const u16* pair = shared + fragment_line_of_word(word) * stride + fragment_k_of_word(word);
    fragment.words[word] = *reinterpret_cast<const u32*>(pair);
  }
  return fragment;
}

DEVICE Fragment load_fragment_transposed(const u16* shared, int stride) {
  Fragment fragment;
#pragma unroll
  for (int word = 0; word < kFragmentWords; word++) {
    const u16* first = shared + fragment_k_of_word(word) * stride + fragment_line_of_word(word);
    fragment.words[word] = u32(first[0]) | (u32(first[stride]) << 16);
  }
  return fragment;
}

/** `scratch` is 256 halves of shared memory that this wave alone uses. */
DEVICE Fragment fragment_from_tile(const Tile& tile, u16* scratch) {
  wave_barrier();
#pragma unroll
  for (int element = 0; element < kTileElements; element++) {
    scratch[tile_row(element) * 16 + tile_column(element)] = float_to_half(tile.values[element]);
  }
  wave_barrier();
  return load_fragment(scratch, 16);
}

#if defined(MATRIX_MFMA) || defined(MATRIX_WMMA)

typedef _Float16 MatrixHalves __attribute__((ext_vector_type(16 / kShares)));
typedef float MatrixSums __attribute__((ext_vector_type(kTileElements)));

DEVICE void multiply_add(Tile& tile, const Fragment& left, const Fragment& right) {
  const MatrixHalves rows = __builtin_bit_cast(MatrixHalves, left), columns = __builtin_bit_cast(MatrixHalves, right);
  const MatrixSums sums = __builtin_bit_cast(MatrixSums, tile);
#if defined(MATRIX_MFMA)
  tile = __builtin_bit_cast(Tile, __builtin_amdgcn_mfma_f32_16x16x16f16(rows, columns, sums, 0, 0, 0));
#elif MATRIX_LAYOUT == 11
  tile = __builtin_bit_cast(Tile, __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(rows, columns, sums));
#else
  tile = __builtin_bit_cast(Tile, __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(rows, columns, sums));
#endif
}

#if defined(MATRIX_LONG)
DEVICE void multiply_add(Tile& tile, const LongFragment& left, const LongFragment& right) {
  typedef _Float16 LongHalves __attribute__((ext_vector_type(8)));
  const LongHalves rows = __builtin_bit_cast(LongHalves, left), columns = __builtin_bit_cast(LongHalves, right);
  const MatrixSums sums = __builtin_bit_cast(MatrixSums, tile);
  tile = __builtin_bit_cast(Tile, __builtin_amdgcn_mfma_f32_16x16x32_f16(rows, columns, sums, 0, 0, 0));
}

DEVICE void multiply_add_half(Tile& tile, const LongFragment& left, const LongFragment& right) {
  multiply_add(tile, left, right);
}
#endif

#else

struct MatrixMeeting {
  u32 left[16][8];
  u32 right[16][8];
};

DEVICE void multiply_add(Tile& tile, const Fragment& left, const Fragment& right) {
  SHARED MatrixMeeting meetings[MATRIX_WAVES];
  MatrixMeeting& meeting = meetings[wave_index()];
#pragma unroll
  for (int word = 0; word < kFragmentWords; word++) {
    const int line = fragment_line_of_word(word), pair = fragment_k_of_word(word) / 2;
    meeting.left[line][pair] = left.words[word];
    meeting.right[line][pair] = right.words[word];
  }
  wave_barrier();
  // Not unrolled: where there are no units, registers are short too.
#pragma unroll 1
  for (int pair = 0; pair < 8; pair++) {
#pragma unroll
    for (int element = 0; element < kTileElements; element++) {
      const u32 row = meeting.left[tile_row(element)][pair], column = meeting.right[tile_column(element)][pair];
      const float sum = fma(half_to_float(u16(row)), half_to_float(u16(column)), tile.values[element]);
      tile.values[element] = fma(half_to_float(u16(row >> 16)), half_to_float(u16(column >> 16)), sum);
    }
  }
  wave_barrier();
}

#endif

DEVICE void multiply_add_half(Tile& tile, const Fragment& left, const Fragment& right) {
  multiply_add(tile, left, right);
}
