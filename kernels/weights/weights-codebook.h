// Device layouts of the types whose nibbles name one of 16 levels, all repacked into planes (B = blocks in a row):
//
//   IQ4_NL  | nibbles 16 × B | d f16 × B |                           low nibbles are columns 0 to 15, high ones 16 to 31
//   MXFP4   | nibbles 16 × B | power u8 × B |
//   IQ4_XS  | nibbles 16 × B | scale int8 × B | d f16 × B / 8 |      the scale is the file's less 32
#pragma once

/** Four signed levels a word, the first lowest. */
#define PACKED_LEVELS(a, b, c, d) (u32(u8(a)) | (u32(u8(b)) << 8) | (u32(u8(c)) << 16) | (u32(u8(d)) << 24))

/** -127 -104 -83 -65 -49 -35 -22 -10 1 13 25 38 53 69 89 113 */
DEVICE Words4 uneven_levels() {
  return {PACKED_LEVELS(-127, -104, -83, -65), PACKED_LEVELS(-49, -35, -22, -10), PACKED_LEVELS(1, 13, 25, 38),
          PACKED_LEVELS(53, 69, 89, 113)};
}

/** Twice the 4-bit floats; minus zero is zero. */
DEVICE Words4 small_float_levels() {
  return {PACKED_LEVELS(0, 1, 2, 3), PACKED_LEVELS(4, 6, 8, 12), PACKED_LEVELS(0, -1, -2, -3),
          PACKED_LEVELS(-4, -6, -8, -12)};
}

DEVICE void decode_levels(const Words4& nibbles, const Words4& levels, Block& block) {
  look_up_nibbles(nibbles.x, levels, block.quads[0][0], block.quads[1][0]);
  look_up_nibbles(nibbles.y, levels, block.quads[0][1], block.quads[1][1]);
  look_up_nibbles(nibbles.z, levels, block.quads[0][2], block.quads[1][2]);
  look_up_nibbles(nibbles.w, levels, block.quads[0][3], block.quads[1][3]);
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
    return {load_once(row + block * 16), row[blocks * 16 + block]};
  }
  DEVICE Block decode(const Raw& raw, int) {
    Block block;
    decode_levels(raw.nibbles, small_float_levels(), block);
    // 2 to the power less 128, since the levels are doubled; the two lowest powers are below the normal floats.
    const u32 bits = raw.power > 1 ? (raw.power - 1) << 23 : 0x00200000u << raw.power;
    block.scale[0] = block.scale[1] = float_of(bits);
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
    return {load_once(row + block * 16), row[blocks * 16 + block], load_u16(row + blocks * 17 + (block >> 3) * 2)};
  }
  DEVICE Block decode(const Raw& raw, int) {
    Block block;
    decode_levels(raw.nibbles, uneven_levels(), block);
    block.scale[0] = block.scale[1] = half_to_float(raw.unit) * float(i8(raw.scale));
    return block;
  }
};
