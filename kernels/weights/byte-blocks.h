// Weights as signed bytes for the matrix units: ByteSource<Type> gives a lane its share (device/matrix-bytes.h) of four
// neighbouring blocks of a row in their device layout (weights/weights.h), and what the sums of their products are multiplied
// by. Types whose levels fit: Q4_0, Q8_0, Q4_K with one scale for a block, Q6_K with one for each group of 16. Rows have a
// multiple of four blocks.
//   Raw fetch(row, lane, blocks, block)          loads only; `block` is a multiple of four
//   planes                                       of 16 bytes a block that a raw has of the four blocks
//   fragment(raw, parts, i)                      of block i of the four; `parts` are the lane's shares of those planes
//   scale(raw, i, group)                         groups_alike: the same for both
//   minimum(raw, i)                              has_minimum: what is taken off every weight of the block
//   unit                                         a factor of all scales
// `row` is the same for all lanes of a wave, `lane` a lane's own bytes from there to its row.
#pragma once
#include "device/matrix-bytes.h"
#include "weights/weights.h"

constexpr int kByteBlocks = 4;

/** A lane's share of 16 bytes in each of four blocks. */
struct BlockParts {
  u32 words[kByteBlocks][kPartWords];
};

// Where four lanes have a row, each loads one of the four blocks and they exchange their parts in shared memory: loads of a
// part each would ask the cache for the same lines four times.
#if MATRIX_LAYOUT == 9

constexpr int kExchangeBytes = WAVE * 16;
typedef Words4 BlockPlane;

DEVICE BlockPlane fetch_plane(const u8* plane, u32 lane, int block) {
  return load_once(plane + u64(block) * 16 + (lane + u32(fragment_share()) * 16));
}

/** `exchange` is kExchangeBytes of shared memory that this wave alone uses. */
DEVICE BlockParts parts_of(const BlockPlane& plane, u8* exchange) {
  *reinterpret_cast<Words4*>(exchange + lane_index() * 16) = plane;
  wave_barrier();
  BlockParts parts;
#pragma unroll
  for (int i = 0; i < kByteBlocks; i++)
    parts.words[i][0] = load_u32(exchange + i * 256 + fragment_line(0) * 16 + fragment_share() * 4);
  wave_barrier();
  return parts;
}

#else

constexpr int kExchangeBytes = 16;
typedef BlockParts BlockPlane;

DEVICE BlockPlane fetch_plane(const u8* plane, u32 lane, int block) {
  BlockPlane parts;
#pragma unroll
  for (int i = 0; i < kByteBlocks; i++) {
    const Words2 words = load_words2(plane + u64(block + i) * 16 + (lane + u32(fragment_share()) * 8));
    parts.words[i][0] = words.x;
    parts.words[i][1] = words.y;
  }
  return parts;
}

DEVICE BlockParts parts_of(const BlockPlane& plane, u8*) { return plane; }

#endif

DEVICE float half_of(const Words2& four, int i) {
  const u32 pair = i < 2 ? four.x : four.y;
  return i % 2 == 0 ? low_half_to_float(pair) : high_half_to_float(pair);
}

template <int Type>
struct ByteSource;

template <>
struct ByteSource<kQ4_0> : Format<kQ4_0> {
  static constexpr int planes = 1;
  static constexpr bool groups_alike = true;
  /** Levels are at the top of their bytes. */
  static constexpr float unit = 0.0625f;
  struct Raw {
    BlockPlane loads[1];
    Words2 scales;
  };
  DEVICE Raw fetch(const u8* row, u32 lane, int blocks, int block) {
    return {{fetch_plane(row, lane, block)}, load_words2(row + u64(blocks) * 16 + u64(block) * 2 + lane)};
  }
  DEVICE ByteFragment fragment(const Raw&, const BlockParts (&parts)[planes], int i) {
    ByteFragment fragment;
#pragma unroll
    for (int word = 0; word < kPartWords; word++) {
      const u32 nibbles = parts[0].words[i][word];
      fragment.words[0][word] = ((nibbles << 4) & 0xf0f0f0f0u) ^ 0x80808080u;
      fragment.words[1][word] = (nibbles & 0xf0f0f0f0u) ^ 0x80808080u;
    }
    return fragment;
  }
  DEVICE float scale(const Raw& raw, int i, int) { return half_of(raw.scales, i); }
  DEVICE float minimum(const Raw&, int) { return 0; }
};

template <>
struct ByteSource<kQ8_0> : Format<kQ8_0> {
  static constexpr int planes = 2;
  static constexpr bool groups_alike = true;
  static constexpr float unit = 1.0f;
  struct Raw {
    BlockPlane loads[2];
    Words2 scales;
  };
  DEVICE Raw fetch(const u8* row, u32 lane, int blocks, int block) {
    return {{fetch_plane(row, lane, block), fetch_plane(row + u64(blocks) * 16, lane, block)},
            load_words2(row + u64(blocks) * 32 + u64(block) * 2 + lane)};
  }
  DEVICE ByteFragment fragment(const Raw&, const BlockParts (&parts)[planes], int i) {
    ByteFragment fragment;
#pragma unroll
    for (int word = 0; word < kPartWords; word++) {
      fragment.words[0][word] = parts[0].words[i][word];
      fragment.words[1][word] = parts[1].words[i][word];
    }
    return fragment;
  }
  DEVICE float scale(const Raw& raw, int i, int) { return half_of(raw.scales, i); }
  DEVICE float minimum(const Raw&, int) { return 0; }
};

template <>
struct ByteSource<kQ4_K> : Format<kQ4_K> {
  static constexpr int planes = 1;
  static constexpr bool groups_alike = true;
  static constexpr float unit = 1.0f;
  struct Raw {
    BlockPlane loads[1];
    Words2 scales;
    u32 units;
  };
  DEVICE Raw fetch(const u8* row, u32 lane, int blocks, int block) {
    return {{fetch_plane(row, lane, block)},
            load_words2(row + u64(blocks) * 16 + u64(block) * 2 + lane),
            load_u32(row + u64(blocks) * 18 + u64(block / 8) * 4 + lane)};
  }
  DEVICE ByteFragment fragment(const Raw&, const BlockParts (&parts)[planes], int i) {
    ByteFragment fragment;
#pragma unroll
    for (int word = 0; word < kPartWords; word++) {
      fragment.words[0][word] = parts[0].words[i][word] & 0x0f0f0f0fu;
      fragment.words[1][word] = (parts[0].words[i][word] >> 4) & 0x0f0f0f0fu;
    }
    return fragment;
  }
  DEVICE float scale(const Raw& raw, int i, int) {
    const u32 pair = i < 2 ? raw.scales.x : raw.scales.y;
    return low_half_to_float(raw.units) * float((pair >> (i % 2 * 16)) & 0xffu);
  }
  DEVICE float minimum(const Raw& raw, int i) {
    const u32 pair = i < 2 ? raw.scales.x : raw.scales.y;
    return high_half_to_float(raw.units) * float((pair >> (i % 2 * 16 + 8)) & 0xffu);
  }
};

template <>
struct ByteSource<kQ6_K> : Format<kQ6_K> {
  static constexpr int planes = 1;
  static constexpr bool groups_alike = false;
  static constexpr float unit = 0.25f;
  struct Raw {
    BlockPlane loads[1];
    Words4 pairs[2];
    Words2 scales;
    u16 unit;
  };
  DEVICE Raw fetch(const u8* row, u32 lane, int blocks, int block) {
    const u8* const pairs = row + u64(blocks) * 16 + u64(block) * 8 + lane;
    return {{fetch_plane(row, lane, block)},
            {load_once(pairs), load_once(pairs + 16)},
            load_words2(row + u64(blocks) * 24 + u64(block) * 2 + lane),
            load_u16(row + u64(blocks) * 26 + u64(block / 8) * 2 + lane)};
  }
  DEVICE ByteFragment fragment(const Raw& raw, const BlockParts (&parts)[planes], int i) {
    const Words4& pairs = raw.pairs[i / 2];
    const u32 first = i % 2 == 0 ? pairs.x : pairs.z, second = i % 2 == 0 ? pairs.y : pairs.w;
    ByteFragment fragment;
#pragma unroll
    for (int word = 0; word < kPartWords; word++) {
      // As in Format<kQ6_K>::decode: six bits at the top of the byte, the highest turned over.
      const int shift = 6 - 2 * (fragment_share() * kPartWords + word);
      const u32 nibbles = parts[0].words[i][word];
      fragment.words[0][word] = ((nibbles << 2) & 0x3c3c3c3cu) | (((first ^ 0xaaaaaaaau) << shift) & 0xc0c0c0c0u);
      fragment.words[1][word] = ((nibbles >> 2) & 0x3c3c3c3cu) | (((second ^ 0xaaaaaaaau) << shift) & 0xc0c0c0c0u);
    }
    return fragment;
  }
  DEVICE float scale(const Raw& raw, int i, int group) {
    const u32 pair = i < 2 ? raw.scales.x : raw.scales.y;
    return half_to_float(raw.unit) * float(i8(pair >> (i % 2 * 16 + group * 8)));
  }
  DEVICE float minimum(const Raw&, int) { return 0; }
};
