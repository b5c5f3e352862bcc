// Products of 16 × 16 × 16 halves with f32 sums, by one wave on the matrix units of the machine: NVIDIA mma (sm_80 on),
// AMD MFMA (gfx908 to gfx950, waves of 64) and WMMA (gfx11, gfx12, waves of 32); plain arithmetic everywhere else.
//
// Both operands are 16 *lines* along k, and no side is special: result[row][column] += Σ_k left[row][k] ×
// right[column][k].
// A Fragment is one lane's part of an operand, a Tile its part of a result. Every lane of the wave takes part in every
//   call. load_fragment(shared, stride)             line n begins at shared + n × stride (halves; rows aligned to 16
//   bytes) load_fragment_transposed(shared, stride)  k n begins there, lines lie side by side
//   pack_fragment(words, step)                from registers: see kShares
//   pack_long_fragment(words, step)           the same for the longest products, kLongSteps of them
//   fragment_from_tile(tile, scratch)         a result as the left operand of the next product: lines are its rows
//   multiply_add(tile, left, right)
//   multiply_add_half(tile, left, right)      the same for at most 8 lines of the right operand, of which a lane has the
//                                             first kHalfLines; other columns of the result are anything
//   tile_row(element), tile_column(element)   where element 0 … kTileElements − 1 of this lane's Tile lies
// As the sum does not care for the order along k, a lane may also fill fragments with what it happens to hold, as long
// as both operands do the same: lane shares of a line are kShares, each of kShareHalves; this lane's lines are
// fragment_line(0 … kLines − 1), its share is fragment_share(). 16 halves a lane make kSteps fragments.
#pragma once

#if !defined(MATRIX_LAYOUT)
#if !defined(ROCMFORGE_EMULATOR) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define MATRIX_LAYOUT 80
#elif WAVE == 64
#define MATRIX_LAYOUT 9
#elif defined(__GFX11__) || defined(__gfx1100__) || defined(__gfx1101__) || defined(__gfx1102__) || \
    defined(__gfx1103__) || defined(__gfx1150__) || defined(__gfx1151__) || defined(__gfx1152__) || \
    defined(__gfx1153__)
#define MATRIX_LAYOUT 11
#else
#define MATRIX_LAYOUT 12
#endif
#endif

/** Of the plain form: how many waves of a block may multiply. */
#if !defined(MATRIX_WAVES)
#define MATRIX_WAVES 8
#endif

constexpr int kTileElements = 256 / WAVE;

#if MATRIX_LAYOUT == 80
// NVIDIA m16n8k16 (PTX ISA, "Matrix fragments for mma.m16n8k16"), g = lane / 4, c = lane % 4:
//   operand word 2 j + i   line g + 8 i, k = 2 c + 8 j and the next          result e   row g + 8 × bit 1 of e
//   (two instructions, for columns 0 … 7 and 8 … 15)                                    column 2 c + bit 0 + 8 × bit 2
constexpr int kLines = 2, kShares = 4, kFragmentWords = 4, kHalfLines = 1;
DEVICE int fragment_line(int i) { return lane_index() / 4 + 8 * i; }
DEVICE int fragment_share() { return lane_index() % 4; }
DEVICE int fragment_line_of_word(int word) { return fragment_line(word % 2); }
DEVICE int fragment_k_of_word(int word) { return 2 * fragment_share() + 8 * (word / 2); }
DEVICE int tile_row(int element) { return lane_index() / 4 + 4 * (element & 2); }
DEVICE int tile_column(int element) { return 2 * (lane_index() % 4) + (element & 1) + 2 * (element & 4); }
#else
// AMD: a lane holds neighbouring k of one line. Result columns are lane % 16.
//   9   MFMA 16x16x16 f16, 64 lanes    line lane % 16, k = 4 × (lane / 16) + 0 … 3     result e: row 4 × (lane / 16) +
//   e 11  WMMA of gfx11, 32 lanes        line lane % 16, k = 0 … 15 in both half-waves   result e: row 2 e + lane / 16
//   12  WMMA of gfx12, 32 lanes        line lane % 16, k = 8 × (lane / 16) + 0 … 7     result e: row 8 × (lane / 16) +
// e (AMD matrix instruction calculator; CDNA3, RDNA3 and RDNA4 instruction set guides.)
constexpr int kLines = 1, kShares = MATRIX_LAYOUT == 9 ? 4 : MATRIX_LAYOUT == 12 ? 2 : 1, kFragmentWords = 8 / kShares;
constexpr int kHalfLines = 1;
DEVICE int fragment_line(int) { return lane_index() % 16; }
DEVICE int fragment_share() { return kShares == 1 ? 0 : lane_index() / 16; }
DEVICE int fragment_line_of_word(int) { return fragment_line(0); }
DEVICE int fragment_k_of_word(int word) { return 16 / kShares * fragment_share() + 2 * word; }
DEVICE int tile_row(int element) {
  return MATRIX_LAYOUT == 11 ? 2 * element + lane_index() / 16 : kTileElements * (lane_index() / 16) + element;
}
DEVICE int tile_column(int) { return lane_index() % 16; }
#endif

constexpr int kShareHalves = 16 / kShares;
constexpr int kSteps = 16 / kShareHalves;

struct Fragment {
  u32 words[kFragmentWords];
};

struct Tile {
  float values[kTileElements];
};

DEVICE void clear_tile(Tile& tile) {
#pragma unroll
  for (int element = 0; element < kTileElements; element++) tile.values[element] = 0;
}

/** Fragment `step` (a constant) of this lane's 16 halves of each of its lines. */
DEVICE Fragment pack_fragment(const u32 (&words)[kLines][8], int step) {
  Fragment fragment;
#pragma unroll
  for (int word = 0; word < kFragmentWords; word++) {
    fragment.words[word] = words[word % kLines][step * (kShareHalves / 2) + word / kLines];
  }
  return fragment;
}

// gfx950 multiplies 32 columns in the time of 16: two fragments of such a lane, one behind the other, are one operand there.
#if defined(__gfx950__) && !defined(ROCMFORGE_EMULATOR) && __has_builtin(__builtin_amdgcn_mfma_f32_16x16x32_f16)
#define MATRIX_LONG 1
constexpr int kLongSteps = kSteps / 2;
struct LongFragment {
  u32 words[2 * kFragmentWords];
};
DEVICE LongFragment pack_long_fragment(const u32 (&words)[kLines][8], int step) {
  LongFragment fragment;
#pragma unroll
  for (int word = 0; word < 2 * kFragmentWords; word++)
    fragment.words[word] = words[0][step * 2 * kFragmentWords + word];
  return fragment;
}
#else
constexpr int kLongSteps = kSteps;
typedef Fragment LongFragment;
DEVICE LongFragment pack_long_fragment(const u32 (&words)[kLines][8], int step) { return pack_fragment(words, step); }
#endif

#if MATRIX_LAYOUT == 80 && !defined(ROCMFORGE_EMULATOR)
#include "device/matrix-unit-cuda.h"
#else
#include "device/matrix-unit-amd.h"
#endif
