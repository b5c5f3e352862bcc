// The matrix units of NVIDIA from sm_80 on (see device/matrix-unit.h).
#pragma once

DEVICE u32 shared_address(const void* pointer) {
  u32 address;
  asm("{ .reg .u64 wide; cvta.to.shared.u64 wide, %1; cvt.u32.u64 %0, wide; }" : "=r"(address) : "l"(pointer));
  return address;
}

DEVICE Fragment load_fragment(const u16* shared, int stride) {
  const int lane = lane_index();
  const u32 address = shared_address(shared + (lane % 16) * stride + (lane / 16) * 8);
  Fragment fragment;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(fragment.words[0]), "=r"(fragment.words[1]), "=r"(fragment.words[2]), "=r"(fragment.words[3])
               : "r"(address)
               : "memory");
  return fragment;
}

DEVICE Fragment load_fragment_transposed(const u16* shared, int stride) {
  const int lane = lane_index();
  const u32 address = shared_address(shared + (lane % 8 + lane / 16 * 8) * stride + (lane / 8 % 2) * 8);
  Fragment fragment;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(fragment.words[0]), "=r"(fragment.words[1]), "=r"(fragment.words[2]), "=r"(fragment.words[3])
               : "r"(address)
               : "memory");
  return fragment;
}

/** Needs no scratch here: where a lane's results lie is where its part of an operand lies. */
DEVICE Fragment fragment_from_tile(const Tile& tile, u16*) {
  Fragment fragment;
#pragma unroll
  for (int word = 0; word < 4; word++)
    fragment.words[word] = float2_to_half2(tile.values[2 * word], tile.values[2 * word + 1]);
  return fragment;
}

/** Half of that: 16 lines by 8, of which a lane has two words (of the left four). */
DEVICE void multiply_add_8(float (&sums)[4], u32 left0, u32 left1, u32 left2, u32 left3, u32 right0, u32 right1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(left0), "r"(left1), "r"(left2), "r"(left3), "r"(right0), "r"(right1));
}

DEVICE void multiply_add(Tile& tile, const Fragment& left, const Fragment& right) {
#pragma unroll
  for (int half = 0; half < 2; half++) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
        "%3};"
        : "+f"(tile.values[4 * half]), "+f"(tile.values[4 * half + 1]), "+f"(tile.values[4 * half + 2]),
          "+f"(tile.values[4 * half + 3])
        : "r"(left.words[0]), "r"(left.words[1]), "r"(left.words[2]), "r"(left.words[3]), "r"(right.words[half]),
          "r"(right.words[half + 2]));
  }
}

DEVICE void multiply_add_half(Tile& tile, const Fragment& left, const Fragment& right) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(tile.values[0]), "+f"(tile.values[1]), "+f"(tile.values[2]), "+f"(tile.values[3])
      : "r"(left.words[0]), "r"(left.words[1]), "r"(left.words[2]), "r"(left.words[3]), "r"(right.words[0]),
        "r"(right.words[2]));
}
