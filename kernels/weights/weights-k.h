// Device layouts of the K types: super-blocks of 256 weights, S = width / 256 of them and B = 8 × S blocks in a row.
//
//   Q4_K  | nibbles 16 × B | (scale:8 min:8) × B | (d f16, dmin f16) × S |
//         low nibbles are columns 0 to 15, high ones 16 to 31; the file's six-bit scales and minimums, a byte each
//   Q5_K  | d f16, dmin f16, scales 12, fifth bits 32, nibbles 128 | × S      as in the file
//         block j of a super-block is its nibble bytes 16j to 16j + 15: their low halves belong to group j & ~1 of 32,
//         the high ones to group j | 1, columns 16 × (j & 1) on in both; bit g of a fifth-bits byte is group g's
//   Q2_K  | pairs 8 × B | (min:4 scale:4) 2 × B | (d f16, dmin f16) × S |
//   Q3_K  | pairs 8 × B | third bits 4 × B | scales int8 2 × B | d f16 × S |
//   Q6_K  | nibbles 16 × B | pairs 8 × B | scales int8 2 × B | d f16 × S |
//         columns 0 to 15 are the low nibbles, 16 to 31 the high ones; pairs: word per 16 columns, bits 8k + 2i and
//         8k + 2i + 1 are column 4i + k's; third bits: bit 8k + i is column 4i + k's
#pragma once

/** Scale and minimum of the two groups of 32 that a block of Q5_K has a part of. */
DEVICE void decode_k_scales(const Words4& header, int block, Block& out) {
  // Two groups' bytes side by side: groups 0 to 3 lie whole in y and z, of 4 to 7 the low bits in w, the top ones
  // above.
  // Masks and shifts instead of two ways: neighbouring lanes differ, and a stream's lane always has the same.
  const bool upper = (block & 4) != 0;
  const int shift = (block & 2) * 8, minimum_shift = shift + (block & 4);
  const u32 low_mask = upper ? 0x0f0fu : 0x3f3fu, top_mask = upper ? 0x3030u : 0u;
  const u32 scale = (((upper ? header.w : header.y) >> shift) & low_mask) | ((header.y >> (shift + 2)) & top_mask);
  const u32 minimum =
      (((upper ? header.w : header.z) >> minimum_shift) & low_mask) | ((header.z >> (shift + 2)) & top_mask);
  const float unit = low_half_to_float(header.x), minimum_unit = high_half_to_float(header.x);
  out.scale[0] = unit * float(scale & 0xffu);
  out.scale[1] = unit * float(scale >> 8);
  out.minimum[0] = minimum_unit * float(minimum & 0xffu);
  out.minimum[1] = minimum_unit * float(minimum >> 8);
}

struct HalvedColumns {
  static constexpr int group_chunks = 2;
  DEVICE int column(int block, int group) { return (block >> 1) * 64 + (block & 1) * 16 + group * 32; }
};

template <>
struct Format<kQ4_K> : NeighbourColumns {
  static constexpr bool has_minimum = true;
  static constexpr bool one_scale = true;
  struct Raw {
    Words4 nibbles;
    u16 scales;
    u32 units;
  };
  DEVICE u64 row_bytes(int width) { return padded_row(u64(width / 256) * 148); }
  DEVICE Raw fetch(const u8* row, int blocks, int block) {
    return {load_once(lane_place(row, 0, block * 16)), load_u16(lane_place(row, blocks * 16, block * 2)),
            load_u32(lane_place(row, blocks * 18, (block >> 3) * 4))};
  }
  DEVICE Block decode(const Raw& raw, int) {
    Block block;
    decode_fours(raw.nibbles, block);
    block.scale[0] = block.scale[1] = low_half_to_float(raw.units) * float(raw.scales & 0xffu);
    block.minimum[0] = block.minimum[1] = high_half_to_float(raw.units) * float(u32(raw.scales) >> 8);
    return block;
  }
};

template <>
struct Format<kQ5_K> : HalvedColumns {
  static constexpr bool has_minimum = true;
  static constexpr bool one_scale = false;
  struct Raw {
    Words4 nibbles, fifths, header;
  };
  DEVICE u64 row_bytes(int width) { return u64(width / 256) * 176; }
  DEVICE Raw fetch(const u8* row, int, int block) {
    const u8* const stored = row + (block >> 3) * 176;
    return {load_once(stored + 48 + (block & 7) * 16), load_shared(stored + 16 + (block & 1) * 16),
            load_shared(stored)};
  }
  DEVICE Block decode(const Raw& raw, int index) {
    const u32 fifths[4] = {raw.fifths.x, raw.fifths.y, raw.fifths.z, raw.fifths.w};
    Block block;
    decode_fours(raw.nibbles, block);
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const u32 bits = fifths[i] >> (index & 6);
      block.quads[0][i] |= (bits << 4) & 0x10101010u;
      block.quads[1][i] |= (bits << 3) & 0x10101010u;
    }
    decode_k_scales(raw.header, index, block);
    return block;
  }
};

template <>
struct Format<kQ6_K> : NeighbourColumns {
  static constexpr bool has_minimum = false;
  static constexpr bool one_scale = false;
  struct Raw {
    Words4 nibbles;
    Words2 pairs;
    u16 scales, unit;
  };
  DEVICE u64 row_bytes(int width) { return padded_row(u64(width / 256) * 210); }
  DEVICE Raw fetch(const u8* row, int blocks, int block) {
    return {load_once(lane_place(row, 0, block * 16)), load_words2(lane_place(row, blocks * 16, block * 8)),
            load_u16(lane_place(row, blocks * 24, block * 2)),
            load_u16(lane_place(row, blocks * 26, (block >> 3) * 2))};
  }
  DEVICE Block decode(const Raw& raw, int) {
    const u32 words[4] = {raw.nibbles.x, raw.nibbles.y, raw.nibbles.z, raw.nibbles.w};
#if defined(__CUDA_ARCH__)
    const u32 pairs[2] = {raw.pairs.x, raw.pairs.y}, top = 0x80808080u;
#else
    // All pairs at once: instructions of three operands that would do it in passing are NVIDIA's.
    const u32 pairs[2] = {raw.pairs.x ^ 0xaaaaaaaau, raw.pairs.y ^ 0xaaaaaaaau}, top = 0;
#endif
    Block block;
#pragma unroll
    for (int i = 0; i < 4; i++) {
      // Six bits at the top of the byte, the highest turned over: four times the level less 32.
      const u32 low = ((words[i] << 2) & 0x3c3c3c3cu) | ((pairs[0] << (6 - 2 * i)) & 0xc0c0c0c0u);
      const u32 high = ((words[i] >> 2) & 0x3c3c3c3cu) | ((pairs[1] << (6 - 2 * i)) & 0xc0c0c0c0u);
      block.quads[0][i] = low ^ top;
      block.quads[1][i] = high ^ top;
    }
    const float unit = half_to_float(raw.unit) * 0.25f;
    block.scale[0] = unit * float(i8(raw.scales));
    block.scale[1] = unit * float(i8(raw.scales >> 8));
    block.minimum[0] = block.minimum[1] = 0;
    return block;
  }
};

template <>
struct Format<kQ3_K> : NeighbourColumns {
  static constexpr bool has_minimum = false;
  static constexpr bool one_scale = false;
  struct Raw {
    Words2 pairs;
    u32 thirds;
    u16 scales, unit;
  };
  DEVICE u64 row_bytes(int width) { return padded_row(u64(width / 256) * 114); }
  DEVICE Raw fetch(const u8* row, int blocks, int block) {
    return {load_words2(lane_place(row, 0, block * 8)), load_u32(lane_place(row, blocks * 8, block * 4)),
            load_u16(lane_place(row, blocks * 12, block * 2)),
            load_u16(lane_place(row, blocks * 14, (block >> 3) * 2))};
  }
  DEVICE Block decode(const Raw& raw, int) {
    Block block;
#pragma unroll
    for (int i = 0; i < 4; i++) {
      // Three bits at the top of the byte, the highest turned over: 32 times the level less 4.
      const u32 low = i < 3 ? raw.pairs.x << (5 - 2 * i) : raw.pairs.x >> 1;
      const u32 high = i < 3 ? raw.pairs.y << (5 - 2 * i) : raw.pairs.y >> 1;
      block.quads[0][i] = ((low & 0x60606060u) | ((raw.thirds << (7 - i)) & 0x80808080u)) ^ 0x80808080u;
      block.quads[1][i] = ((high & 0x60606060u) | ((raw.thirds << (3 - i)) & 0x80808080u)) ^ 0x80808080u;
    }
    const float unit = half_to_float(raw.unit) * 0.03125f;
    block.scale[0] = unit * float(i8(raw.scales));
    block.scale[1] = unit * float(i8(raw.scales >> 8));
    block.minimum[0] = block.minimum[1] = 0;
    return block;
  }
};

template <>
struct Format<kQ2_K> : NeighbourColumns {
  static constexpr bool has_minimum = true;
  static constexpr bool one_scale = false;
  struct Raw {
    Words2 pairs;
    u16 scales;
    u32 units;
  };
  DEVICE u64 row_bytes(int width) { return padded_row(u64(width / 256) * 84); }
  DEVICE Raw fetch(const u8* row, int blocks, int block) {
    return {load_words2(lane_place(row, 0, block * 8)), load_u16(lane_place(row, blocks * 8, block * 2)),
            load_u32(lane_place(row, blocks * 10, (block >> 3) * 4))};
  }
  DEVICE Block decode(const Raw& raw, int) {
    Block block;
#pragma unroll
    for (int i = 0; i < 4; i++) {
      block.quads[0][i] = (raw.pairs.x >> (2 * i)) & 0x03030303u;
      block.quads[1][i] = (raw.pairs.y >> (2 * i)) & 0x03030303u;
    }
    const float unit = low_half_to_float(raw.units), minimum_unit = high_half_to_float(raw.units);
    block.scale[0] = unit * float(raw.scales & 15);
    block.scale[1] = unit * float((raw.scales >> 8) & 15);
    block.minimum[0] = minimum_unit * float((raw.scales >> 4) & 15);
    block.minimum[1] = minimum_unit * float(raw.scales >> 12);
    return block;
  }
};
