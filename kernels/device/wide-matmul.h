// Products of 64 × 64 or 64 × 128 × 16 halves with f32 sums by four waves together, on the matrix units of NVIDIA's sm_90
// (PTX ISA, "wgmma"): the left operand comes from registers, the right one from shared memory, and both are read while
// the waves go on. Elsewhere the same by device/matrix-unit.h, at once. Needs MATRIX_LAYOUT 80, kTokens and kTiles.
//
// Each wave has 16 lines of the left operand as a Fragment, and its sums as kTiles Tiles side by side. The right operand
// is kTokens lines: chunk q of a line, 8 halves of k, lies at q × kWideChunkBytes + line × 16.
//   wide_inputs_written()   after a thread's own writes of the right operand, before the barrier that precedes products
//   wide_begin()            before products whose left operand or sums have been written by other instructions
//   wide_multiply_add<C>(sums, left, place)   of the first C lines; k from the chunk on where `place` is
//   wide_end()              makes a group of the products since the last one
//   wide_wait<Groups>()     until at most `Groups` groups are under way, whose operands must stay as they are
#pragma once
#include "device/matrix-unit.h"

static_assert(MATRIX_LAYOUT == 80, "lanes hold operands as NVIDIA's do");

/** One chunk of padding: what neighbouring threads write lies in different banks. */
constexpr int kWideChunkBytes = kTokens * 16 + 16;

#if !defined(ROCMFORGE_EMULATOR)

/** A matrix descriptor: address, bytes from one chunk to the next and from 8 lines to the next, in units of 16. */
typedef u64 WidePlace;
DEVICE WidePlace wide_place(const u8* shared) {
  return u64(shared_address(shared) >> 4) | (u64(kWideChunkBytes / 16) << 16) | (u64(8) << 32);
}
DEVICE WidePlace chunks_on(WidePlace place, int chunks) { return place + u64(chunks * (kWideChunkBytes / 16)); }

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
#define WIDE_LEFT "r"(left.words[0]), "r"(left.words[1]), "r"(left.words[2]), "r"(left.words[3])

template <int Columns>
struct WideMatmul;

template <>
struct WideMatmul<64> {
  DEVICE void add(Tile (&sums)[kTiles], const Fragment& left, WidePlace place) {
    asm volatile(
        "{ .reg .pred keep; setp.ne.b32 keep, %37, 0;"
        " wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16"
        " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, "
        "%23,"
        " %24, %25, %26, %27, %28, %29, %30, %31}, {%32, %33, %34, %35}, %36, keep, 1, 1, 0; }"
        : WIDE_TILE(0), WIDE_TILE(1), WIDE_TILE(2), WIDE_TILE(3)
        : WIDE_LEFT, "l"(place), "r"(1));
  }
};

#if TOKENS == 128
template <>
struct WideMatmul<128> {
  DEVICE void add(Tile (&sums)[kTiles], const Fragment& left, WidePlace place) {
    asm volatile(
        "{ .reg .pred keep; setp.ne.b32 keep, %69, 0;"
        " wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16"
        " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, "
        "%23,"
        " %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45,"
        " %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63},"
        " {%64, %65, %66, %67}, %68, keep, 1, 1, 0; }"
        : WIDE_TILE(0), WIDE_TILE(1), WIDE_TILE(2), WIDE_TILE(3), WIDE_TILE(4), WIDE_TILE(5), WIDE_TILE(6), WIDE_TILE(7)
        : WIDE_LEFT, "l"(place), "r"(1));
  }
};
#endif

#undef WIDE_TILE
#undef WIDE_LEFT

template <int Columns>
DEVICE void wide_multiply_add(Tile (&sums)[kTiles], const Fragment& left, WidePlace place) {
  WideMatmul<Columns>::add(sums, left, place);
}

#else

typedef const u8* WidePlace;
DEVICE WidePlace wide_place(const u8* shared) { return shared; }
DEVICE WidePlace chunks_on(WidePlace place, int chunks) { return place + chunks * kWideChunkBytes; }
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
      right.words[word] = *reinterpret_cast<const u32*>(place + k / 8 * kWideChunkBytes + line * 16 + k % 8 * 2);
    }
    multiply_add(sums[tile], left, right);
  }
}

#endif
