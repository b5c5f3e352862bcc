// Device layouts of the types whose nibbles name one of 16 levels, all repacked into planes (B = blocks in a row):
//
//   IQ4_NL  | nibbles 16 × B | d f16 × B |
//   MXFP4   | nibbles 16 × B | power u8 × B |
//   NVFP4   | nibbles 16 × B | (first UE4M3, second UE4M3) × B |     of 7 bits, without a NaN
//   IQ4_XS  | nibbles 16 × B | scale int8 × B | d f16 × B / 8 |      the scale is the file's less 32
//
// Word i of a block's nibbles has columns 4i to 4i + 3 and 16 + 4i to 19 + 4i, in the order that the machine looks up
// fastest: pack_nibbles of device/portable.h. Bit 3 of a 4-bit float is turned over: set for positive ones.
#pragma once

/** Four signed levels a word, the first lowest. */
#define PACKED_LEVELS(a, b, c, d) (u32(u8(a)) | (u32(u8(b)) << 8) | (u32(u8(c)) << 16) | (u32(u8(d)) << 24))

/** -127 -104 -83 -65 -49 -35 -22 -10 1 13 25 38 53 69 89 113 */
DEVICE Words4 uneven_levels() {
  return {PACKED_LEVELS(-127, -104, -83, -65), PACKED_LEVELS(-49, -35, -22, -10), PACKED_LEVELS(1, 13, 25, 38),
          PACKED_LEVELS(53, 69, 89, 113)};
}

DEVICE void decode_levels(const Words4& nibbles, const Words4& levels, Block& block) {
  look_up_nibbles(nibbles.x, levels, block.quads[0][0], block.quads[1][0]);
  look_up_nibbles(nibbles.y, levels, block.quads[0][1], block.quads[1][1]);
  look_up_nibbles(nibbles.z, levels, block.quads[0][2], block.quads[1][2]);
  look_up_nibbles(nibbles.w, levels, block.quads[0][3], block.quads[1][3]);
  block.minimum[0] = block.minimum[1] = 0;
}

/** Twice the 4-bit floats; minus zero is zero. */
DEVICE void decode_small_floats(const Words4& nibbles, Block& block) {
  const u32 words[4] = {nibbles.x, nibbles.y, nibbles.z, nibbles.w};
#pragma unroll
  for (int i = 0; i < 4; i++)
    look_up_signed(words[i], PACKED_LEVELS(0, 1, 2, 3), PACKED_LEVELS(4, 6, 8, 12), block.quads[0][i],
                   block.quads[1][i]);
  block.minimum[0] = block.minimum[1] = 0;
}

template <>
struct Format<kIQ4_NL> : NibblesAndScale {
  DEVICE Block decode(const Raw& raw, int) {
    Block block;
    decode_levels(raw.nibbles, uneven_levels(), block);
    block.scale[0] = block.scale[1] = half_to_float(raw.scale);
    return block;
  }
};

template <>
struct Format<kMXFP4> : NeighbourColumns {
  static constexpr bool has_minimum = false;
  static constexpr bool one_scale = true;
  struct Raw {
    Words4 nibbles;
    u32 power;
  };
  DEVICE u64 row_bytes(int width) { return padded_row(u64(width / 32) * 17); }
  DEVICE Raw fetch(const u8* row, int blocks, int block) {
    return {load_once(lane_place(row, 0, block * 16)), row[blocks * 16 + block]};
  }
  DEVICE Block decode(const Raw& raw, int) {
    Block block;
    decode_small_floats(raw.nibbles, block);
    // 2 to the power less 128, since the levels are doubled; the two lowest powers are below the normal floats.
    const u32 bits = raw.power > 1 ? (raw.power - 1) << 23 : 0x00200000u << raw.power;
    block.scale[0] = block.scale[1] = float_of(bits);
    return block;
  }
};

template <>
struct Format<kNVFP4> : NeighbourColumns {
  static constexpr bool has_minimum = false;
  static constexpr bool one_scale = false;
  struct Raw {
    Words4 nibbles;
    u16 scales;
  };
  DEVICE u64 row_bytes(int width) { return padded_row(u64(width / 32) * 18); }
  DEVICE Raw fetch(const u8* row, int blocks, int block) {
    return {load_once(lane_place(row, 0, block * 16)), load_u16(lane_place(row, blocks * 16, block * 2))};
  }
  DEVICE Block decode(const Raw& raw, int) {
    Block block;
    decode_small_floats(raw.nibbles, block);
    // Four bits of exponent and three of mantissa in their places of a half, whose bias is 8 more: the factor is 2 to
    // the 8, less one since the levels are doubled.
    block.scale[0] = half_to_float(u16((raw.scales << 7) & 0x3f80)) * 128.0f;
    block.scale[1] = half_to_float(u16((raw.scales >> 1) & 0x3f80)) * 128.0f;
    return block;
  }
};

template <>
struct Format<kIQ4_XS> : NeighbourColumns {
  static constexpr bool has_minimum = false;
  static constexpr bool one_scale = true;
  struct Raw {
    Words4 nibbles;
    u32 scale;
    u16 unit;
  };
  DEVICE u64 row_bytes(int width) { return padded_row(u64(width / 256) * 138); }
  DEVICE Raw fetch(const u8* row, int blocks, int block) {
    return {load_once(lane_place(row, 0, block * 16)), row[blocks * 16 + block],
            load_u16(lane_place(row, blocks * 17, (block >> 3) * 2))};
  }
  DEVICE Block decode(const Raw& raw, int) {
    Block block;
    decode_levels(raw.nibbles, uneven_levels(), block);
    block.scale[0] = block.scale[1] = half_to_float(raw.unit) * float(i8(raw.scale));
    return block;
  }
};
