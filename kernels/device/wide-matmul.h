// Products of 64 × 16, 32, 64, 128 or 256 × 16 halves with f32 sums by four waves together, on the matrix units of NVIDIA's sm_90
// (PTX ISA, "wgmma"): the left operand comes from registers, the right one from shared memory, and both are read while
// the waves go on. Elsewhere the same by device/matrix-unit.h, at once. Needs MATRIX_LAYOUT 80, kTokens and kTiles.
//
// Each wave has 16 lines of the left operand as a Fragment, and its sums as kTiles Tiles side by side. The right operand
// is kTokens lines: chunk q of a line, 8 halves of k, lies at wide_chunk(q, line).
//   wide_inputs_written()   after a thread's own writes of the right operand, before the barrier that precedes products
//   wide_begin()            before products whose left operand or sums have been written by other instructions
//   wide_multiply_add<C>(sums, left, place)   of the first C lines; k from the chunk on where `place` is
//   wide_end()              makes a group of the products since the last one
//   wide_wait<Groups>()     until at most `Groups` groups are under way, whose operands must stay as they are
#pragma once
#include "device/matrix-unit.h"

static_assert(MATRIX_LAYOUT == 80, "lanes hold operands as NVIDIA's do");

/**
 * Where chunk q of a line lies. Side by side with those of other lines, with a chunk of padding between one q and the next, so
 * that threads may write several chunks of one line at a time. Or, if WIDE_SWIZZLED is 1, side by side with the other
 * chunks of its line: 128 bytes a line, in which chunk c is in place c ^ (line % 8), and eight chunks further the next
 * such panel (the 128-byte swizzle). Products read that faster; it begins at a multiple of 1024 bytes.
 */
#ifndef WIDE_SWIZZLED
#define WIDE_SWIZZLED 0
#endif
constexpr int kWideChunkBytes = kTokens * 16 + 16;
constexpr int kWidePanelBytes = kTokens * 128;
DEVICE int wide_chunk(int chunk, int line) {
  return WIDE_SWIZZLED ? chunk / 8 * kWidePanelBytes + line * 128 + (chunk % 8 ^ line % 8) * 16
                       : chunk * kWideChunkBytes + line * 16;
}

#if !defined(ROCMFORGE_EMULATOR)

/** A matrix descriptor: address, bytes from one chunk to the next and from 8 lines to the next, in units of 16, swizzle. */
typedef u64 WidePlace;
DEVICE WidePlace wide_place(const u8* shared) {
  const u64 address = u64((shared_address(shared) & 0x3ffff) >> 4);
  return WIDE_SWIZZLED ? address | (u64(1) << 16) | (u64(64) << 32) | (u64(1) << 62)
                       : address | (u64(kWideChunkBytes / 16) << 16) | (u64(8) << 32);
}
/** An even number of chunks. */
DEVICE WidePlace chunks_on(WidePlace place, int chunks) {
  return place +
         u64(WIDE_SWIZZLED ? chunks / 8 * (kWidePanelBytes / 16) + chunks % 8 : chunks * (kWideChunkBytes / 16));
}

/** The first place from `shared` on where swizzled lines may begin. */
DEVICE u8* wide_start(u8* shared) { return shared + (1024 - shared_address(shared) % 1024) % 1024; }

DEVICE void wide_inputs_written() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
DEVICE void wide_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DEVICE void wide_end() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int Groups>
DEVICE void wide_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Groups) : "memory");
}

#define WIDE_TILE(n)                                                                                  \
  "+f"(sums[n].values[0]), "+f"(sums[n].values[1]), "+f"(sums[n].values[2]), "+f"(sums[n].values[3]), \
      "+f"(sums[n].values[4]), "+f"(sums[n].values[5]), "+f"(sums[n].values[6]), "+f"(sums[n].values[7])
#define WIDE_TILES_2(n) WIDE_TILE(n), WIDE_TILE(n + 1)
#define WIDE_TILES_4(n) WIDE_TILES_2(n), WIDE_TILES_2(n + 2)
#define WIDE_TILES_8(n) WIDE_TILES_4(n), WIDE_TILES_4(n + 4)
#define WIDE_LEFT "r"(left.words[0]), "r"(left.words[1]), "r"(left.words[2]), "r"(left.words[3])
#define WIDE_SUMS_8 "%0, %1, %2, %3, %4, %5, %6, %7"
#define WIDE_SUMS_16 WIDE_SUMS_8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define WIDE_SUMS_32 WIDE_SUMS_16 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define WIDE_SUMS_64                                                                                      \
  WIDE_SUMS_32                                                                                            \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51," \
  " %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define WIDE_SUMS_128                                                                                               \
  WIDE_SUMS_64                                                                                                      \
  ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85," \
  " %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, %98, %99, %100, %101, %102, %103, %104, %105,"      \
  " %106, %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123,"    \
  " %124, %125, %126, %127"
/** `columns` lines of the right operand; l0 … l3, r and k are the numbers of the operands after the sums. */
#define WIDE_MATMUL(columns, sums_text, l0, l1, l2, l3, r, k)                                 \
  "{ .reg .pred keep; setp.ne.b32 keep, %" k ", 0; wgmma.mma_async.sync.aligned.m64n" columns \
  "k16.f32.f16.f16 {" sums_text "}, {%" l0 ", %" l1 ", %" l2 ", %" l3 "}, %" r ", keep, 1, 1, 0; }"

template <int Columns>
struct WideMatmul;

template <>
struct WideMatmul<16> {
  DEVICE void add(Tile* sums, const Fragment& left, WidePlace place) {
    asm volatile(WIDE_MATMUL("16", WIDE_SUMS_8, "8", "9", "10", "11", "12", "13")
                 : WIDE_TILE(0)
                 : WIDE_LEFT, "l"(place), "r"(1));
  }
};

template <>
struct WideMatmul<32> {
  DEVICE void add(Tile* sums, const Fragment& left, WidePlace place) {
    asm volatile(WIDE_MATMUL("32", WIDE_SUMS_16, "16", "17", "18", "19", "20", "21")
                 : WIDE_TILES_2(0)
                 : WIDE_LEFT, "l"(place), "r"(1));
  }
};

template <>
struct WideMatmul<64> {
  DEVICE void add(Tile* sums, const Fragment& left, WidePlace place) {
    asm volatile(WIDE_MATMUL("64", WIDE_SUMS_32, "32", "33", "34", "35", "36", "37")
                 : WIDE_TILES_4(0)
                 : WIDE_LEFT, "l"(place), "r"(1));
  }
};

template <>
struct WideMatmul<128> {
  DEVICE void add(Tile* sums, const Fragment& left, WidePlace place) {
    asm volatile(WIDE_MATMUL("128", WIDE_SUMS_64, "64", "65", "66", "67", "68", "69")
                 : WIDE_TILES_8(0)
                 : WIDE_LEFT, "l"(place), "r"(1));
  }
};

template <>
struct WideMatmul<256> {
  DEVICE void add(Tile* sums, const Fragment& left, WidePlace place) {
    asm volatile(WIDE_MATMUL("256", WIDE_SUMS_128, "128", "129", "130", "131", "132", "133")
                 : WIDE_TILES_8(0), WIDE_TILES_8(8)
                 : WIDE_LEFT, "l"(place), "r"(1));
  }
};

#undef WIDE_TILE
#undef WIDE_TILES_2
#undef WIDE_TILES_4
#undef WIDE_TILES_8
#undef WIDE_SUMS_8
#undef WIDE_SUMS_16
#undef WIDE_SUMS_32
#undef WIDE_SUMS_64
#undef WIDE_SUMS_128
#undef WIDE_MATMUL
#undef WIDE_LEFT

template <int Columns>
DEVICE void wide_multiply_add(Tile (&sums)[kTiles], const Fragment& left, WidePlace place) {
  WideMatmul<Columns>::add(sums, left, place);
}

#else

struct WidePlace {
  const u8* shared;
  int chunk;
};
DEVICE WidePlace wide_place(const u8* shared) { return {shared, 0}; }
DEVICE WidePlace chunks_on(WidePlace place, int chunks) { return {place.shared, place.chunk + chunks}; }
DEVICE u8* wide_start(u8* shared) { return shared + (1024 - u64(shared) % 1024) % 1024; }
DEVICE void wide_inputs_written() {}
DEVICE void wide_begin() {}
DEVICE void wide_end() {}
template <int Groups>
DEVICE void wide_wait() {}

template <int Columns>
DEVICE void wide_multiply_add(Tile (&sums)[kTiles], const Fragment& left, WidePlace place) {
  for (int tile = 0; tile < Columns / 16; tile++) {
    Fragment right;
    for (int word = 0; word < kFragmentWords; word++) {
      const int line = tile * 16 + fragment_line_of_word(word), k = fragment_k_of_word(word);
      const u8* const chunk = place.shared + wide_chunk(place.chunk + k / 8, line);
      right.words[word] = *reinterpret_cast<const u32*>(chunk + k % 8 * 2);
    }
    multiply_add(sums[tile], left, right);
  }
}

#endif
