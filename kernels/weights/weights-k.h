// Device layouts of the K types: super-blocks of 256 weights, S = width / 256 of them and B = 8 × S pieces in a row.
//
//   Q4_K  | nibbles 16 × B | (scale:8 min:8) × B | (d f16, dmin f16) × S |
//         low nibbles are columns 0 to 15, high ones 16 to 31; the file's six-bit scales and minimums, a byte each
//   Q5_K  | d f16, dmin f16, scales 12, fifth bits 32, nibbles 128 | × S      as in the file
//         piece j of a super-block is its nibble bytes 16j to 16j + 15: their low halves belong to group j & ~1 of 32,
//         the high ones to group j | 1, columns 16 × (j & 1) on in both; bit g of a fifth-bits byte is group g's
//   Q2_K  | pairs 8 × B | (min:4 scale:4) 2 × B | (d f16, dmin f16) × S |
//   Q3_K  | pairs 8 × B | third bits 4 × B | scales int8 2 × B | d f16 × S |
//   Q6_K  | nibbles 16 × B | pairs 8 × B | scales int8 2 × B | d f16 × S |
//         columns 0 to 15 are the low nibbles, 16 to 31 the high ones; pairs: word per 16 columns, bits 8k + 2i and
//         8k + 2i + 1 are column 4i + k's; third bits: bit 8k + i is column 4i + k's
#pragma once

/** Scale and minimum of the two groups of 32 that a piece of Q5_K has a part of. */
DEVICE void decode_k_scales(const Words4& header, int piece, Piece& out) {
  // Two groups' bytes side by side: groups 0 to 3 lie whole in y and z, of 4 to 7 the low bits in w, the top ones above.
  // Masks and shifts instead of two ways: neighbouring lanes differ, and a stream's lane always has the same.
  const bool upper = (piece & 4) != 0;
  const int shift = (piece & 2) * 8, minimum_shift = shift + (piece & 4);
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
  DEVICE int column(int piece, int group) { return (piece >> 1) * 64 + (piece & 1) * 16 + group * 32; }
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
  DEVICE Raw fetch(const u8* row, int pieces, int piece) {
    return {load_once(row + piece * 16), load_u16(row + pieces * 16 + piece * 2),
            load_u32(row + pieces * 18 + (piece >> 3) * 4)};
  }
  DEVICE Piece decode(const Raw& raw, int) {
    Piece piece;
    decode_fours(raw.nibbles, piece);
    piece.scale[0] = piece.scale[1] = low_half_to_float(raw.units) * float(raw.scales & 0xffu);
    piece.minimum[0] = piece.minimum[1] = high_half_to_float(raw.units) * float(u32(raw.scales) >> 8);
    return piece;
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
  DEVICE Raw fetch(const u8* row, int, int piece) {
    const u8* const block = row + (piece >> 3) * 176;
    return {load_once(block + 48 + (piece & 7) * 16), load_shared(block + 16 + (piece & 1) * 16), load_shared(block)};
  }
  DEVICE Piece decode(const Raw& raw, int index) {
    const u32 fifths[4] = {raw.fifths.x, raw.fifths.y, raw.fifths.z, raw.fifths.w};
    Piece piece;
    decode_fours(raw.nibbles, piece);
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const u32 bits = fifths[i] >> (index & 6);
      piece.quads[0][i] |= (bits << 4) & 0x10101010u;
      piece.quads[1][i] |= (bits << 3) & 0x10101010u;
    }
    decode_k_scales(raw.header, index, piece);
    return piece;
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
  DEVICE Raw fetch(const u8* row, int pieces, int piece) {
    return {load_once(row + piece * 16), load_words2(row + pieces * 16 + piece * 8),
            load_u16(row + pieces * 24 + piece * 2), load_u16(row + pieces * 26 + (piece >> 3) * 2)};
  }
  DEVICE Piece decode(const Raw& raw, int) {
    const u32 words[4] = {raw.nibbles.x, raw.nibbles.y, raw.nibbles.z, raw.nibbles.w};
    Piece piece;
#pragma unroll
    for (int i = 0; i < 4; i++) {
      // Six bits at the top of the byte, the highest turned over: four times the level less 32.
      const u32 low = ((words[i] << 2) & 0x3c3c3c3cu) | ((raw.pairs.x << (6 - 2 * i)) & 0xc0c0c0c0u);
      const u32 high = ((words[i] >> 2) & 0x3c3c3c3cu) | ((raw.pairs.y << (6 - 2 * i)) & 0xc0c0c0c0u);
      piece.quads[0][i] = low ^ 0x80808080u;
      piece.quads[1][i] = high ^ 0x80808080u;
    }
    const float unit = half_to_float(raw.unit) * 0.25f;
    piece.scale[0] = unit * float(i8(raw.scales));
    piece.scale[1] = unit * float(i8(raw.scales >> 8));
    piece.minimum[0] = piece.minimum[1] = 0;
    return piece;
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
  DEVICE Raw fetch(const u8* row, int pieces, int piece) {
    return {load_words2(row + piece * 8), load_u32(row + pieces * 8 + piece * 4),
            load_u16(row + pieces * 12 + piece * 2), load_u16(row + pieces * 14 + (piece >> 3) * 2)};
  }
  DEVICE Piece decode(const Raw& raw, int) {
    Piece piece;
#pragma unroll
    for (int i = 0; i < 4; i++) {
      // Three bits at the top of the byte, the highest turned over: 32 times the level less 4.
      const u32 low = i < 3 ? raw.pairs.x << (5 - 2 * i) : raw.pairs.x >> 1;
      const u32 high = i < 3 ? raw.pairs.y << (5 - 2 * i) : raw.pairs.y >> 1;
      piece.quads[0][i] = ((low & 0x60606060u) | ((raw.thirds << (7 - i)) & 0x80808080u)) ^ 0x80808080u;
      piece.quads[1][i] = ((high & 0x60606060u) | ((raw.thirds << (3 - i)) & 0x80808080u)) ^ 0x80808080u;
    }
    const float unit = half_to_float(raw.unit) * 0.03125f;
    piece.scale[0] = unit * float(i8(raw.scales));
    piece.scale[1] = unit * float(i8(raw.scales >> 8));
    piece.minimum[0] = piece.minimum[1] = 0;
    return piece;
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
  DEVICE Raw fetch(const u8* row, int pieces, int piece) {
    return {load_words2(row + piece * 8), load_u16(row + pieces * 8 + piece * 2),
            load_u32(row + pieces * 10 + (piece >> 3) * 4)};
  }
  DEVICE Piece decode(const Raw& raw, int) {
    Piece piece;
#pragma unroll
    for (int i = 0; i < 4; i++) {
      piece.quads[0][i] = (raw.pairs.x >> (2 * i)) & 0x03030303u;
      piece.quads[1][i] = (raw.pairs.y >> (2 * i)) & 0x03030303u;
    }
    const float unit = low_half_to_float(raw.units), minimum_unit = high_half_to_float(raw.units);
    piece.scale[0] = unit * float(raw.scales & 15);
    piece.scale[1] = unit * float((raw.scales >> 8) & 15);
    piece.minimum[0] = minimum_unit * float((raw.scales >> 4) & 15);
    piece.minimum[1] = minimum_unit * float(raw.scales >> 12);
    return piece;
  }
};
