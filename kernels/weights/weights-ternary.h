// Device layouts of the ternary types: 256 weights of −1, 0 or 1 under one scale, S = width / 256 of them and B = 8 × S
// blocks in a row.
//
//   TQ1_0  | fives 4 × B | threes 2 × B | last bits 4 × S | d f16 × S |
//          byte k of the fives: columns k, 4 + k … 16 + k as five base-3 digits, the fraction byte / 256; columns 20 + k,
//          24 + k and 28 + k likewise as fraction / 32, whose upper four bits are nibble k ^ 1 of the threes; its last
//          one is bit 8k + j of the last bits in block j of a super-block
//   TQ2_0  | pairs 8 × B | d f16 × S |
//          pairs: word per 16 columns, bits 8k + 2i and 8k + 2i + 1 are column 4i + k's: its level times −1, in two's
//          complement, so that the file's fourth code, 2, has a place
#pragma once

/** A digit of each of four fractions, less 1; two lanes of 16 bits a word have a fraction each, and keep the rest. */
DEVICE u32 next_digits(u32& even, u32& odd) {
  // Three times the fraction has its digit in the high byte; 127 more and the top bit turned over are −1 without a
  // borrow.
  even = even * 3 + 0x7f007f00u;
  odd = odd * 3 + 0x7f007f00u;
  const u32 digits = (((even >> 8) & 0x00ff00ffu) | (odd & 0xff00ff00u)) ^ 0x80808080u;
  even &= 0x00ff00ffu;
  odd &= 0x00ff00ffu;
  return digits;
}

template <>
struct Format<kTQ1_0> : NeighbourColumns {
  static constexpr bool has_minimum = false;
  static constexpr bool one_scale = true;
  struct Raw {
    u32 fives;
    u16 threes;
    u32 last_bits;
    u16 unit;
  };
  DEVICE u64 row_bytes(int width) { return padded_row(u64(width / 256) * 54); }
  DEVICE Raw fetch(const u8* row, int blocks, int block) {
    return {load_u32(lane_place(row, 0, block * 4)), load_u16(lane_place(row, blocks * 4, block * 2)),
            load_u32(lane_place(row, blocks * 6, (block >> 3) * 4)),
            load_u16(row + (blocks >> 3) * 52 + (block >> 3) * 2)};
  }
  DEVICE Block decode(const Raw& raw, int index) {
    Block block;
    u32 even = raw.fives & 0x00ff00ffu, odd = (raw.fives >> 8) & 0x00ff00ffu;
#pragma unroll
    for (int i = 0; i < 5; i++) block.quads[i / 4][i % 4] = next_digits(even, odd);
    const u32 threes = raw.threes, last = raw.last_bits >> (index & 7);
    even = ((threes | (threes << 8)) & 0x00f000f0u) | ((last << 3) & 0x00080008u);
    odd = (((threes << 4) | (threes << 12)) & 0x00f000f0u) | ((last >> 5) & 0x00080008u);
#pragma unroll
    for (int i = 5; i < 8; i++) block.quads[i / 4][i % 4] = next_digits(even, odd);
    block.scale[0] = block.scale[1] = half_to_float(raw.unit);
    block.minimum[0] = block.minimum[1] = 0;
    return block;
  }
};

template <>
struct Format<kTQ2_0> : NeighbourColumns {
  static constexpr bool has_minimum = false;
  static constexpr bool one_scale = true;
  struct Raw {
    Words2 pairs;
    u16 unit;
  };
  DEVICE u64 row_bytes(int width) { return padded_row(u64(width / 256) * 66); }
  DEVICE Raw fetch(const u8* row, int blocks, int block) {
    return {load_words2(lane_place(row, 0, block * 8)), load_u16(lane_place(row, blocks * 8, (block >> 3) * 2))};
  }
  DEVICE Block decode(const Raw& raw, int) {
    Block block;
#pragma unroll
    for (int i = 0; i < 4; i++) {
      // Two bits at the top of the byte: −64 times the level.
      block.quads[0][i] = (raw.pairs.x << (6 - 2 * i)) & 0xc0c0c0c0u;
      block.quads[1][i] = (raw.pairs.y << (6 - 2 * i)) & 0xc0c0c0c0u;
    }
    block.scale[0] = block.scale[1] = half_to_float(raw.unit) * -0.015625f;
    // Minus this is added to a product of zero and a negative scale, which must not stay a negative zero.
    block.minimum[0] = block.minimum[1] = -0.0f;
    return block;
  }
};
