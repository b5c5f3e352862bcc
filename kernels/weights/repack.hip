// From the file's blocks to the device layouts that weights/weights.h draws: whole rows, staged as they lie in the
// file, to their place among the tensor's rows. TYPE0: the ggml type, one that is repacked (weight-layout.ts). One
// thread, one block.
// The source needs 2-byte alignment, the target 16. Grid: ⌈rows × (width ÷ 32) ÷ 256⌉.
// v1 two-byte loads, which neighbours serve each other from the first cache; 16-byte stores. Not measured yet.
#include "weights/weights.h"

struct RepackArguments {
  const u8* source;
  u8* target;
  int width;
  int rows;
};

DEVICE u32 word_at(const u8* address) { return u32(load_u16(address)) | (u32(load_u16(address + 2)) << 16); }

DEVICE Words4 words_at(const u8* address) {
  return {word_at(address), word_at(address + 4), word_at(address + 8), word_at(address + 12)};
}

DEVICE void store(u8* address, const Words4& words) { *reinterpret_cast<Words4*>(address) = words; }
DEVICE void store(u8* address, const Words2& words) { *reinterpret_cast<Words2*>(address) = words; }
DEVICE void store(u8* address, u32 word) { *reinterpret_cast<u32*>(address) = word; }
DEVICE void store(u8* address, u16 half) { *reinterpret_cast<u16*>(address) = half; }

/** put(source row, target row, blocks, block); a row of the source has source_bytes(width). */
template <int Type>
struct Repack;

/**
 * Blocks of 32: | head | nibbles 16 |, the head of `Head` bytes being d, or d and m, and fifth bits where there are.
 */
template <int Head, int ScaleBytes, bool Fifths>
struct RepackNibbles {
  /** Bit 4i + k of a word to bit 8k + i. */
  DEVICE u32 spread_bits(u32 bits) {
    u32 spread = 0;
    for (int i = 0; i < 8; i++) spread |= ((((bits >> (4 * i)) & 15u) * 0x00204081u) & 0x01010101u) << i;
    return spread;
  }
  DEVICE u64 source_bytes(int width) { return u64(width / 32) * (Head + 16); }
  DEVICE void put(const u8* source, u8* target, int blocks, int block) {
    const u8* const stored = source + block * (Head + 16);
    const int scales = blocks * (Fifths ? 20 : 16);
    store(target + block * 16, words_at(stored + Head));
    if (Fifths) store(target + blocks * 16 + block * 4, spread_bits(word_at(stored + ScaleBytes)));
    if (ScaleBytes == 2) store(target + scales + block * 2, load_u16(stored));
    if (ScaleBytes == 4) store(target + scales + block * 4, word_at(stored));
  }
};

template <>
struct Repack<kQ4_0> : RepackNibbles<2, 2, false> {};
template <>
struct Repack<kQ4_1> : RepackNibbles<4, 4, false> {};
template <>
struct Repack<kQ5_0> : RepackNibbles<6, 2, true> {};
template <>
struct Repack<kQ5_1> : RepackNibbles<8, 4, true> {};

/** The low nibbles of a word are its first quad, the high ones its second; `turned` bits are turned over. */
DEVICE u32 packed_word(u32 word, u32 turned = 0) {
  const u32 nibbles = word ^ turned;
  return pack_nibbles(nibbles & 0x0f0f0f0fu, (nibbles >> 4) & 0x0f0f0f0fu);
}

DEVICE Words4 packed_words(const u8* address) {
  return {packed_word(word_at(address)), packed_word(word_at(address + 4)), packed_word(word_at(address + 8)),
          packed_word(word_at(address + 12))};
}

/** Where weights-codebook.h wants the sign of a 4-bit float turned over. */
constexpr u32 kSmallFloatSigns = 0x88888888u;

template <>
struct Repack<kIQ4_NL> {
  DEVICE u64 source_bytes(int width) { return u64(width / 32) * 18; }
  DEVICE void put(const u8* source, u8* target, int blocks, int block) {
    const u8* const stored = source + block * 18;
    store(target + block * 16, packed_words(stored + 2));
    store(target + blocks * 16 + block * 2, load_u16(stored));
  }
};

template <>
struct Repack<kQ8_0> {
  DEVICE u64 source_bytes(int width) { return u64(width / 32) * 34; }
  DEVICE void put(const u8* source, u8* target, int blocks, int block) {
    const u8* const stored = source + block * 34;
    store(target + block * 16, words_at(stored + 2));
    store(target + blocks * 16 + block * 16, words_at(stored + 18));
    store(target + blocks * 32 + block * 2, load_u16(stored));
  }
};

template <>
struct Repack<kMXFP4> {
  DEVICE u64 source_bytes(int width) { return u64(width / 32) * 17; }
  DEVICE void put(const u8* source, u8* target, int blocks, int block) {
    // Blocks of an odd length: every second one allows single bytes only.
    const u8* const stored = source + block * 17;
    u32 words[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const u8* const at = stored + 1 + i * 4;
      const u32 word = u32(at[0]) | (u32(at[1]) << 8) | (u32(at[2]) << 16) | (u32(at[3]) << 24);
      words[i] = packed_word(word, kSmallFloatSigns);
    }
    store(target + block * 16, Words4{words[0], words[1], words[2], words[3]});
    target[blocks * 16 + block] = stored[0];
  }
};

template <>
struct Repack<kNVFP4> {
  DEVICE u64 source_bytes(int width) { return u64(width / 64) * 36; }
  /** A NaN is zero; of any other code the top bit means nothing. */
  DEVICE u32 scale(u32 code) { return code == 0x7fu ? 0 : code & 0x7fu; }
  DEVICE void put(const u8* source, u8* target, int blocks, int block) {
    // A group of 16 has eight bytes: the low nibbles are its first half, the high ones its second.
    const u8* const stored = source + (block >> 1) * 36;
    const u8* const scales = stored + (block & 1) * 2;
    const u8* const nibbles = stored + 4 + (block & 1) * 16;
    u32 words[4];
#pragma unroll
    for (int i = 0; i < 2; i++) {
      const u32 first = word_at(nibbles + i * 4) ^ kSmallFloatSigns;
      const u32 second = word_at(nibbles + 8 + i * 4) ^ kSmallFloatSigns;
      words[i] = pack_nibbles(first & 0x0f0f0f0fu, second & 0x0f0f0f0fu);
      words[i + 2] = pack_nibbles((first >> 4) & 0x0f0f0f0fu, (second >> 4) & 0x0f0f0f0fu);
    }
    store(target + block * 16, Words4{words[0], words[1], words[2], words[3]});
    store(target + blocks * 16 + block * 2, u16(scale(scales[0]) | (scale(scales[1]) << 8)));
  }
};

template <>
struct Repack<kIQ4_XS> {
  DEVICE u64 source_bytes(int width) { return u64(width / 256) * 136; }
  DEVICE void put(const u8* source, u8* target, int blocks, int block) {
    const u8* const stored = source + (block >> 3) * 136;
    const int group = block & 7;
    const u32 low = (stored[4 + (group >> 1)] >> ((group & 1) * 4)) & 15u;
    const u32 high = (u32(load_u16(stored + 2)) >> (2 * group)) & 3u;
    store(target + block * 16, packed_words(stored + 8 + group * 16));
    target[blocks * 16 + block] = u8((low | (high << 4)) - 32u);
    if (group == 0) store(target + blocks * 17 + (block >> 3) * 2, load_u16(stored));
  }
};

/** The two bits of each column of a block of a K type, from 32 bytes that hold four blocks' side by side. */
DEVICE Words2 gather_pairs(const u8* bytes, int part) {
  u32 pairs[2] = {0, 0};
#pragma unroll
  for (int i = 0; i < 8; i++) pairs[i / 4] |= ((word_at(bytes + i * 4) >> (2 * part)) & 0x03030303u) << (2 * (i % 4));
  return {pairs[0], pairs[1]};
}

template <>
struct Repack<kQ2_K> {
  DEVICE u64 source_bytes(int width) { return u64(width / 256) * 84; }
  DEVICE void put(const u8* source, u8* target, int blocks, int block) {
    const u8* const stored = source + (block >> 3) * 84;
    const int part = block & 7;
    store(target + block * 8, gather_pairs(stored + 16 + (part >> 2) * 32, part & 3));
    store(target + blocks * 8 + block * 2, load_u16(stored + part * 2));
    if (part == 0) store(target + blocks * 10 + (block >> 3) * 4, word_at(stored + 80));
  }
};

template <>
struct Repack<kTQ2_0> {
  DEVICE u64 source_bytes(int width) { return u64(width / 256) * 66; }
  DEVICE void put(const u8* source, u8* target, int blocks, int block) {
    const u8* const stored = source + (block >> 3) * 66;
    const int part = block & 7;
    // A code is the level plus 1; with its low bit turned over it is minus the level.
    const Words2 codes = gather_pairs(stored + (part >> 2) * 32, part & 3);
    store(target + block * 8, Words2{codes.x ^ 0x55555555u, codes.y ^ 0x55555555u});
    if (part == 0) store(target + blocks * 8 + (block >> 3) * 2, load_u16(stored + 64));
  }
};

template <>
struct Repack<kTQ1_0> {
  DEVICE u64 source_bytes(int width) { return u64(width / 256) * 54; }
  /** Of an element of a super-block: three runs of bytes, of which each has a digit of a run of elements. */
  DEVICE u32 digit(const u8* stored, int element) {
    const int first = element < 160 ? 0 : element < 240 ? 160 : 240;
    const int bytes = element < 160 ? 32 : element < 240 ? 16 : 4;
    const int place = element - first;
    u32 fraction = stored[first / 5 + place % bytes];
    for (int n = place / bytes; n > 0; n--) fraction = (fraction * 3) & 255u;
    return (fraction * 3) >> 8;
  }
  /** Digits of every fourth element as a fraction of 2 to the Bits, rounded up. */
  template <int Digits, int Bits>
  DEVICE u32 fraction(const u8* stored, int element) {
    u32 number = 0, numbers = 1;
#pragma unroll
    for (int i = 0; i < Digits; i++) {
      number = number * 3 + digit(stored, element + i * 4);
      numbers *= 3;
    }
    return ((number << Bits) + numbers - 1) / numbers;
  }
  DEVICE void put(const u8* source, u8* target, int blocks, int block) {
    const u8* const stored = source + (block >> 3) * 54;
    const int part = block & 7;
    u32 fives = 0, threes = 0;
    for (int k = 0; k < 4; k++) {
      fives |= fraction<5, 8>(stored, part * 32 + k) << (8 * k);
      threes |= (fraction<3, 5>(stored, part * 32 + 20 + k) >> 1) << (4 * (k ^ 1));
    }
    store(target + block * 4, fives);
    store(target + blocks * 4 + block * 2, u16(threes));
    if (part != 0) return;
    u32 last_bits = 0;
    for (int bit = 0; bit < 32; bit++)
      last_bits |= (fraction<3, 5>(stored, (bit & 7) * 32 + 20 + (bit >> 3)) & 1u) << bit;
    store(target + blocks * 6 + (block >> 3) * 4, last_bits);
    store(target + (blocks >> 3) * 52 + (block >> 3) * 2, load_u16(stored + 52));
  }
};

template <>
struct Repack<kQ3_K> {
  DEVICE u64 source_bytes(int width) { return u64(width / 256) * 110; }
  DEVICE u32 scale(const u8* scales, int group) {
    const u32 low = (scales[group & 7] >> (group < 8 ? 0 : 4)) & 15u;
    const u32 high = (scales[8 + (group & 3)] >> (2 * (group >> 2))) & 3u;
    return ((low | (high << 4)) - 32u) & 255u;
  }
  DEVICE void put(const u8* source, u8* target, int blocks, int block) {
    const u8* const stored = source + (block >> 3) * 110;
    const int part = block & 7;
    u32 thirds = 0;
#pragma unroll
    for (int i = 0; i < 8; i++) thirds |= ((word_at(stored + i * 4) >> part) & 0x01010101u) << i;
    store(target + block * 8, gather_pairs(stored + 32 + (part >> 2) * 32, part & 3));
    store(target + blocks * 8 + block * 4, thirds);
    store(target + blocks * 12 + block * 2,
          u16(scale(stored + 96, part * 2) | (scale(stored + 96, part * 2 + 1) << 8)));
    if (part == 0) store(target + blocks * 14 + (block >> 3) * 2, load_u16(stored + 108));
  }
};

template <>
struct Repack<kQ4_K> {
  DEVICE u64 source_bytes(int width) { return u64(width / 256) * 144; }
  DEVICE void put(const u8* source, u8* target, int blocks, int block) {
    const u8* const stored = source + (block >> 3) * 144;
    const int group = block & 7;
    // Two groups share 32 bytes, one in the low halves and one in the high ones.
    const u8* const nibbles = stored + 16 + (group >> 1) * 32;
    const int shift = (group & 1) * 4;
    u32 words[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const u32 first = (word_at(nibbles + i * 4) >> shift) & 0x0f0f0f0fu;
      const u32 second = (word_at(nibbles + 16 + i * 4) >> shift) & 0x0f0f0f0fu;
      words[i] = first | (second << 4);
    }
    const u8* const scales = stored + 4;
    const u32 low = scales[group & 3], high = scales[4 + (group & 3)], rest = scales[8 + (group & 3)];
    const u32 scale = group < 4 ? low & 63u : (rest & 15u) | ((low >> 6) << 4);
    const u32 minimum = group < 4 ? high & 63u : (rest >> 4) | ((high >> 6) << 4);
    store(target + block * 16, Words4{words[0], words[1], words[2], words[3]});
    store(target + blocks * 16 + block * 2, u16(scale | (minimum << 8)));
    if (group == 0) store(target + blocks * 18 + (block >> 3) * 4, word_at(stored));
  }
};

template <>
struct Repack<kQ6_K> {
  DEVICE u64 source_bytes(int width) { return u64(width / 256) * 210; }
  DEVICE void put(const u8* source, u8* target, int blocks, int block) {
    const u8* const stored = source + (block >> 3) * 210;
    const int half = (block >> 2) & 1, part = block & 3;
    const u8* const low = stored + half * 64 + (part & 1) * 32;
    const int shift = (part >> 1) * 4;
    u32 words[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const u32 first = (word_at(low + i * 4) >> shift) & 0x0f0f0f0fu;
      const u32 second = (word_at(low + 16 + i * 4) >> shift) & 0x0f0f0f0fu;
      words[i] = first | (second << 4);
    }
    store(target + block * 16, Words4{words[0], words[1], words[2], words[3]});
    store(target + blocks * 16 + block * 8, gather_pairs(stored + 128 + half * 32, part));
    store(target + blocks * 24 + block * 2, load_u16(stored + 192 + (block & 7) * 2));
    if ((block & 7) == 0) store(target + blocks * 26 + (block >> 3) * 2, load_u16(stored + 208));
  }
};

KERNEL(repack_rows, RepackArguments, 256) {
  dependency_release();
  dependency_wait();
  const u32 blocks = u32(a.width) / kBlockWeights;
  const u64 index = u64(block_x()) * 256 + u64(thread_index());
  if (index >= u64(a.rows) * blocks) return;
  const u64 row = index / blocks;
  const int block = int(index - row * blocks);
  Repack<TYPE0>::put(a.source + row * Repack<TYPE0>::source_bytes(a.width),
                     a.target + row * Format<TYPE0>::row_bytes(a.width), int(blocks), block);
}
