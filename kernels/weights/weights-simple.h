// Device layouts of ggml's blocks of 32 with one scale, all repacked into planes (B = blocks in a row):
//
//   Q4_0  | nibbles 16 × B | d f16 × B |                       low nibbles are columns 0 to 15, high ones 16 to 31
//   Q4_1  | nibbles 16 × B | (d f16, m f16) × B |
//   Q5_0  | nibbles 16 × B | fifth bits 4 × B | d f16 × B |    bit 8k + i is column 4i + k's
//   Q5_1  | nibbles 16 × B | fifth bits 4 × B | (d, m) × B |
//   Q8_0  | columns 0 to 15: 16 × B | columns 16 to 31: 16 × B | d f16 × B |   so that neighbours load neighbours
#pragma once

/** Blocks of 32 neighbouring columns. */
struct NeighbourColumns {
  /** From the first group's columns to the second's, in 16 columns. */
  static constexpr int group_chunks = 1;
  DEVICE int column(int block, int group) { return block * 32 + group * 16; }
};

// A level less 8 (of 4 bits) or less 16 (of 5) is a signed byte at once when it sits at the byte's top with its highest
// bit turned over: 16 or 8 times the level, and the scale takes the factor back.

DEVICE void decode_fours_signed(const Words4& nibbles, Block& block) {
  const u32 words[4] = {nibbles.x, nibbles.y, nibbles.z, nibbles.w};
#pragma unroll
  for (int i = 0; i < 4; i++) {
    block.quads[0][i] = ((words[i] << 4) & 0xf0f0f0f0u) ^ 0x80808080u;
    block.quads[1][i] = (words[i] & 0xf0f0f0f0u) ^ 0x80808080u;
  }
}

DEVICE void decode_fours(const Words4& nibbles, Block& block) {
  const u32 words[4] = {nibbles.x, nibbles.y, nibbles.z, nibbles.w};
#pragma unroll
  for (int i = 0; i < 4; i++) {
    block.quads[0][i] = words[i] & 0x0f0f0f0fu;
    block.quads[1][i] = (words[i] >> 4) & 0x0f0f0f0fu;
  }
}

/** How Q4_0 and IQ4_NL lie, which differ in what a nibble stands for. */
struct NibblesAndScale : NeighbourColumns {
  static constexpr bool has_minimum = false;
  static constexpr bool one_scale = true;
  struct Raw {
    Words4 nibbles;
    u16 scale;
  };
  DEVICE u64 row_bytes(int width) { return padded_row(u64(width / 32) * 18); }
  DEVICE Raw fetch(const u8* row, int blocks, int block) {
    return {load_once(lane_place(row, 0, block * 16)), load_u16(lane_place(row, blocks * 16, block * 2))};
  }
};

template <>
struct Format<kQ4_0> : NibblesAndScale {
  DEVICE Block decode(const Raw& raw, int) {
    Block block;
    decode_fours_signed(raw.nibbles, block);
    block.scale[0] = block.scale[1] = half_to_float(raw.scale) * 0.0625f;
    block.minimum[0] = block.minimum[1] = 0;
    return block;
  }
};

template <>
struct Format<kQ4_1> : NeighbourColumns {
  static constexpr bool has_minimum = true;
  static constexpr bool one_scale = true;
  struct Raw {
    Words4 nibbles;
    u32 scales;
  };
  DEVICE u64 row_bytes(int width) { return padded_row(u64(width / 32) * 20); }
  DEVICE Raw fetch(const u8* row, int blocks, int block) {
    return {load_once(lane_place(row, 0, block * 16)), load_u32(lane_place(row, blocks * 16, block * 4))};
  }
  DEVICE Block decode(const Raw& raw, int) {
    Block block;
    decode_fours(raw.nibbles, block);
    block.scale[0] = block.scale[1] = low_half_to_float(raw.scales);
    block.minimum[0] = block.minimum[1] = -high_half_to_float(raw.scales);
    return block;
  }
};

template <>
struct Format<kQ5_0> : NeighbourColumns {
  static constexpr bool has_minimum = false;
  static constexpr bool one_scale = true;
  struct Raw {
    Words4 nibbles;
    u32 fifths;
    u16 scale;
  };
  DEVICE u64 row_bytes(int width) { return padded_row(u64(width / 32) * 22); }
  DEVICE Raw fetch(const u8* row, int blocks, int block) {
    return {load_once(lane_place(row, 0, block * 16)), load_u32(lane_place(row, blocks * 16, block * 4)),
            load_u16(lane_place(row, blocks * 20, block * 2))};
  }
  DEVICE Block decode(const Raw& raw, int) {
    const u32 words[4] = {raw.nibbles.x, raw.nibbles.y, raw.nibbles.z, raw.nibbles.w};
    Block block;
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const u32 low = ((words[i] << 3) & 0x78787878u) | ((raw.fifths << (7 - i)) & 0x80808080u);
      const u32 high = ((words[i] >> 1) & 0x78787878u) | ((raw.fifths << (3 - i)) & 0x80808080u);
      block.quads[0][i] = low ^ 0x80808080u;
      block.quads[1][i] = high ^ 0x80808080u;
    }
    block.scale[0] = block.scale[1] = half_to_float(raw.scale) * 0.125f;
    block.minimum[0] = block.minimum[1] = 0;
    return block;
  }
};

template <>
struct Format<kQ5_1> : NeighbourColumns {
  static constexpr bool has_minimum = true;
  static constexpr bool one_scale = true;
  struct Raw {
    Words4 nibbles;
    u32 fifths;
    u32 scales;
  };
  DEVICE u64 row_bytes(int width) { return padded_row(u64(width / 32) * 24); }
  DEVICE Raw fetch(const u8* row, int blocks, int block) {
    return {load_once(lane_place(row, 0, block * 16)), load_u32(lane_place(row, blocks * 16, block * 4)),
            load_u32(lane_place(row, blocks * 20, block * 4))};
  }
  DEVICE Block decode(const Raw& raw, int) {
    Block block;
    decode_fours(raw.nibbles, block);
#pragma unroll
    for (int i = 0; i < 4; i++) {
      block.quads[0][i] |= ((raw.fifths >> i) << 4) & 0x10101010u;
      block.quads[1][i] |= (raw.fifths >> i) & 0x10101010u;
    }
    block.scale[0] = block.scale[1] = low_half_to_float(raw.scales);
    block.minimum[0] = block.minimum[1] = -high_half_to_float(raw.scales);
    return block;
  }
};

template <>
struct Format<kQ8_0> : NeighbourColumns {
  static constexpr bool has_minimum = false;
  static constexpr bool one_scale = true;
  struct Raw {
    Words4 first, second;
    u16 scale;
  };
  DEVICE u64 row_bytes(int width) { return padded_row(u64(width / 32) * 34); }
  DEVICE Raw fetch(const u8* row, int blocks, int block) {
    return {load_once(lane_place(row, 0, block * 16)), load_once(lane_place(row, blocks * 16, block * 16)),
            load_u16(lane_place(row, blocks * 32, block * 2))};
  }
  DEVICE Block decode(const Raw& raw, int) {
    return {{{raw.first.x, raw.first.y, raw.first.z, raw.first.w},
             {raw.second.x, raw.second.y, raw.second.z, raw.second.w}},
            {half_to_float(raw.scale), half_to_float(raw.scale)},
            {0, 0}};
  }
};
