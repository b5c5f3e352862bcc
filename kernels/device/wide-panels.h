// Products of 64 rows by four waves together on the matrix units of NVIDIA's sm_90 (PTX ISA, "wgmma") over operands in
// shared memory that lie in panels: a panel is 64 columns of halves, 128 bytes a row, row after row, and the eight chunks of
// a row are exchanged so that chunk c of row r lies in place c ^ (r % 8) (the 128-byte swizzle). Panels begin at
// multiples of 1024 bytes. Elsewhere the same by device/matrix-unit.h, at once. Needs MATRIX_LAYOUT 80.
//
// Each wave has 16 rows of the left operand and of the sums, which are Tiles side by side.
//   multiply_rows<N>(sums, left, right, keep)    sums[row][n] (+)= Σ_k left[row][k] × right[n][k], 16 k from both places on
//   multiply_columns<N>(sums, left, right)       sums[row][n] += Σ_k left[row][k] × right[k][n], 16 k, left in registers
// Both are under way when they return; device/wide-matmul.h explains panels_begin() and the like.
#pragma once
#include "device/matrix-unit.h"

static_assert(MATRIX_LAYOUT == 80, "lanes hold operands as NVIDIA's do");

constexpr int kPanelColumns = 64;
constexpr int kPanelRowBytes = 128;
/** Rows whose chunks are exchanged in all the different ways. */
constexpr int kSwizzleRows = 8;
constexpr int kPanelAlignment = kSwizzleRows * kPanelRowBytes;

/** Where in a panel chunk 0 … 7 of a row lies. */
DEVICE int panel_chunk(int row, int chunk) { return row * kPanelRowBytes + ((chunk ^ (row % kSwizzleRows)) * 16); }

#if !defined(ROCMFORGE_EMULATOR)

/** A matrix descriptor: address, the two distances in units of 16 bytes, and the swizzle. */
typedef u64 PanelPlace;
/** Lines are rows of a panel. */
DEVICE PanelPlace rows_place(const u8* shared) {
  return u64((shared_address(shared) & 0x3ffff) >> 4) | (u64(1) << 16) | (u64(64) << 32) | (u64(1) << 62);
}
/** Lines are columns of panels that lie `panel_bytes` apart. */
DEVICE PanelPlace columns_place(const u8* shared, int panel_bytes) {
  return u64((shared_address(shared) & 0x3ffff) >> 4) | (u64(panel_bytes >> 4) << 16) | (u64(64) << 32) |
         (u64(1) << 62);
}
DEVICE PanelPlace bytes_on(PanelPlace place, int bytes) { return place + u64(bytes >> 4); }

/** The same; what lies on from it is computed from here on, instead of kept in registers all along. */
DEVICE PanelPlace place_anew(PanelPlace place) {
  asm volatile("" : "+l"(place));
  return place;
}

DEVICE void panels_written() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
DEVICE void panels_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DEVICE void panels_end() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int Groups>
DEVICE void panels_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Groups) : "memory");
}
/** Keeps the compiler from using sums before the wait that precedes this. */
template <int Count>
DEVICE void hold_tiles(Tile (&tiles)[Count]) {
#pragma unroll
  for (int tile = 0; tile < Count; tile++) {
#pragma unroll
    for (int element = 0; element < kTileElements; element++)
      asm volatile("" : "+f"(tiles[tile].values[element])::"memory");
  }
}

/** The first place from `shared` on where a panel may begin. */
DEVICE u8* panels_start(u8* shared) {
  return shared + (kPanelAlignment - shared_address(shared) % kPanelAlignment) % kPanelAlignment;
}
DEVICE bool any_lane(bool given) { return __any_sync(0xffffffffu, given) != 0; }
/** In one instruction; a NaN is passed over. */
DEVICE float max_number(float left, float right) { return fmaxf(left, right); }

#define PANEL_TILE(n)                                                                                 \
  "+f"(sums[n].values[0]), "+f"(sums[n].values[1]), "+f"(sums[n].values[2]), "+f"(sums[n].values[3]), \
      "+f"(sums[n].values[4]), "+f"(sums[n].values[5]), "+f"(sums[n].values[6]), "+f"(sums[n].values[7])
#define PANEL_SUMS_32                                                                                          \
  "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, " \
  "%23, %24, %25, %26, %27, %28, %29, %30, %31"
#define PANEL_SUMS_64                                                                                      \
  PANEL_SUMS_32                                                                                            \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, " \
  "%52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define PANEL_SUMS_128                                                                                \
  PANEL_SUMS_64                                                                                       \
  ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82,"  \
  " %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, %98, %99, %100, %101," \
  " %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, %117,"  \
  " %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define PANEL_LEFT "r"(left.words[0]), "r"(left.words[1]), "r"(left.words[2]), "r"(left.words[3])

template <int Columns>
struct PanelMatmul;

template <>
struct PanelMatmul<64> {
  DEVICE void rows(Tile* sums, PanelPlace left, PanelPlace right, int keep) {
    asm volatile(
        "{ .reg .pred keep; setp.ne.b32 keep, %34, 0;"
        " wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 " PANEL_SUMS_32 "}, %32, %33, keep, 1, 1, 0, 0; }"
        : PANEL_TILE(0), PANEL_TILE(1), PANEL_TILE(2), PANEL_TILE(3)
        : "l"(left), "l"(right), "r"(keep));
  }
  DEVICE void columns(Tile* sums, const Fragment& left, PanelPlace right) {
    asm volatile(
        "{ .reg .pred keep; setp.ne.b32 keep, %37, 0;"
        " wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 " PANEL_SUMS_32
        "}, {%32, %33, %34, %35}, %36, keep, 1, 1, 1; }"
        : PANEL_TILE(0), PANEL_TILE(1), PANEL_TILE(2), PANEL_TILE(3)
        : PANEL_LEFT, "l"(right), "r"(1));
  }
};

template <>
struct PanelMatmul<128> {
  DEVICE void rows(Tile* sums, PanelPlace left, PanelPlace right, int keep) {
    asm volatile(
        "{ .reg .pred keep; setp.ne.b32 keep, %66, 0;"
        " wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 " PANEL_SUMS_64 "}, %64, %65, keep, 1, 1, 0, 0; }"
        : PANEL_TILE(0), PANEL_TILE(1), PANEL_TILE(2), PANEL_TILE(3), PANEL_TILE(4), PANEL_TILE(5), PANEL_TILE(6),
          PANEL_TILE(7)
        : "l"(left), "l"(right), "r"(keep));
  }
  DEVICE void columns(Tile* sums, const Fragment& left, PanelPlace right) {
    asm volatile(
        "{ .reg .pred keep; setp.ne.b32 keep, %69, 0;"
        " wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 " PANEL_SUMS_64
        "}, {%64, %65, %66, %67}, %68, keep, 1, 1, 1; }"
        : PANEL_TILE(0), PANEL_TILE(1), PANEL_TILE(2), PANEL_TILE(3), PANEL_TILE(4), PANEL_TILE(5), PANEL_TILE(6),
          PANEL_TILE(7)
        : PANEL_LEFT, "l"(right), "r"(1));
  }
};

template <>
struct PanelMatmul<256> {
  DEVICE void columns(Tile* sums, const Fragment& left, PanelPlace right) {
    asm volatile(
        "{ .reg .pred keep; setp.ne.b32 keep, %133, 0;"
        " wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 " PANEL_SUMS_128
        "}, {%128, %129, %130, %131}, %132, keep, 1, 1, 1; }"
        : PANEL_TILE(0), PANEL_TILE(1), PANEL_TILE(2), PANEL_TILE(3), PANEL_TILE(4), PANEL_TILE(5), PANEL_TILE(6),
          PANEL_TILE(7), PANEL_TILE(8), PANEL_TILE(9), PANEL_TILE(10), PANEL_TILE(11), PANEL_TILE(12), PANEL_TILE(13),
          PANEL_TILE(14), PANEL_TILE(15)
        : PANEL_LEFT, "l"(right), "r"(1));
  }
};

#undef PANEL_TILE
#undef PANEL_SUMS_32
#undef PANEL_SUMS_64
#undef PANEL_SUMS_128
#undef PANEL_LEFT

template <int Columns>
DEVICE void multiply_rows(Tile* sums, PanelPlace left, PanelPlace right, bool keep) {
  PanelMatmul<Columns>::rows(sums, left, right, keep ? 1 : 0);
}
template <int Columns>
DEVICE void multiply_columns(Tile* sums, const Fragment& left, PanelPlace right) {
  PanelMatmul<Columns>::columns(sums, left, right);
}

#else

/** An address before chunks are exchanged, and the distance of panels. */
struct PanelPlace {
  const u8* address;
  int panel_bytes;
};
DEVICE PanelPlace rows_place(const u8* shared) { return {shared, 0}; }
DEVICE PanelPlace columns_place(const u8* shared, int panel_bytes) { return {shared, panel_bytes}; }
DEVICE PanelPlace bytes_on(PanelPlace place, int bytes) { return {place.address + bytes, place.panel_bytes}; }

DEVICE PanelPlace place_anew(PanelPlace place) { return place; }

DEVICE void panels_written() {}
DEVICE void panels_begin() {}
DEVICE void panels_end() {}
template <int Groups>
DEVICE void panels_wait() {}
template <int Count>
DEVICE void hold_tiles(Tile (&)[Count]) {}
DEVICE u8* panels_start(u8* shared) {
  return shared + (kPanelAlignment - u64(shared) % kPanelAlignment) % kPanelAlignment;
}
DEVICE bool any_lane(bool given) { return wave_sum(given ? 1 : 0) > 0; }
DEVICE float max_number(float left, float right) { return max(left, right); }

/** The chunk of an address is exchanged by what row of its eight it is in. */
DEVICE u16 panel_half(const u8* address) {
  const u64 bits = u64(address);
  return *reinterpret_cast<const u16*>(bits ^ ((bits >> 7 & 7) << 4));
}
DEVICE u32 panel_pair(const u8* first, const u8* second) {
  return u32(panel_half(first)) | u32(panel_half(second)) << 16;
}

DEVICE Fragment rows_fragment(PanelPlace place, int first_row) {
  Fragment fragment;
  for (int word = 0; word < kFragmentWords; word++) {
    const u8* const pair =
        place.address + (first_row + fragment_line_of_word(word)) * kPanelRowBytes + fragment_k_of_word(word) * 2;
    fragment.words[word] = panel_pair(pair, pair + 2);
  }
  return fragment;
}

DEVICE Fragment columns_fragment(PanelPlace place, int first_column) {
  Fragment fragment;
  for (int word = 0; word < kFragmentWords; word++) {
    const int column = first_column + fragment_line_of_word(word);
    const u8* const first = place.address + column / kPanelColumns * place.panel_bytes + column % kPanelColumns * 2 +
                            fragment_k_of_word(word) * kPanelRowBytes;
    fragment.words[word] = panel_pair(first, first + kPanelRowBytes);
  }
  return fragment;
}

template <int Columns>
DEVICE void multiply_rows(Tile* sums, PanelPlace left, PanelPlace right, bool keep) {
  const Fragment own = rows_fragment(left, wave_index() % 4 * 16);
  for (int tile = 0; tile < Columns / 16; tile++) {
    if (!keep) clear_tile(sums[tile]);
    multiply_add(sums[tile], own, rows_fragment(right, tile * 16));
  }
}
template <int Columns>
DEVICE void multiply_columns(Tile* sums, const Fragment& left, PanelPlace right) {
  for (int tile = 0; tile < Columns / 16; tile++) multiply_add(sums[tile], left, columns_fragment(right, tile * 16));
}

#endif
