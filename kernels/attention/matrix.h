// Scores and weighted values of split attention on the matrix units (m16n8k16, NVIDIA), from rows of f16 as
// attention/rows.h leaves them in registers: nothing of a row passes through shared memory. A number that is not exact
// in f16 comes as two, what f16 has of it and the rest, side by side along the operand's eight lines: line 2 h is head
// h's first part, line 2 h + 1 its second, so four heads fill them, and sums are as good as those of f32.
//
//   scores   left: 16 keys, rows of rounds 0 and 1    right: lines of queries    result: a lane has both parts of its
//   head values   left: lines of weights of 16 positions   right: 8 columns a time    result: two neighbouring lines,
//   four lanes apart
#pragma once
#include "device/matrix-unit.h"

static_assert(Keys::kBatches == 1 && Keys::kBatch == 2 && Values::kBatches == 1 && Values::kBatch == 4,
              "the rows of one operand");

/** Weights are at most 1; f16 has most bits for numbers of this size, and less to lose for small ones. */
constexpr float kWeightScale = 16384.0f;

/** The line of a lane's share of an operand: which head of the four, and which part. */
DEVICE int line_head() { return lane_index() / 8; }
DEVICE bool is_second_part() { return (lane_index() & 4) != 0; }

/** Two numbers' first or second parts. */
DEVICE u32 part_of(float low, float high) {
  const u32 first = float2_to_half2(low, high);
  const u32 rest = float2_to_half2(low - half_to_float(u16(first)), high - half_to_float(u16(first >> 16)));
  return is_second_part() ? rest : first;
}

/** The power of two that brings the head's largest column near 2^13, and the one that takes it back. */
struct QueryScale {
  float to;
  float back;
};

DEVICE QueryScale query_scale(float largest) {
  // Of an infinite one too, which stays what it is; nothing is brought up by more than 2^126.
  const int field = min(267 - int((bits_of(largest) >> 23) & 255u), 253);
  return {float_of(u32(field) << 23), float_of(u32(254 - field) << 23)};
}

/** Scores of the heads from `head` on, and the highest of each. */
DEVICE void score_by_matrix(const Source& source, int head, const CacheChunk* keys, SplitMemory& memory) {
  const bool present = line_head() < kHeadsAtOnce;
  Quad query[Keys::kLaneChunks][kChunkQuads];
  float largest = 0.0f;
#pragma unroll
  for (int index = 0; index < Keys::kLaneChunks; index++) {
#pragma unroll
    for (int quad = 0; quad < kChunkQuads; quad++) {
      const int at = ((head + (present ? line_head() : 0)) * kChunkQuads + quad) * KeyRow::kChunks + Keys::chunk(index);
      query[index][quad] = memory.pool[at];
#pragma unroll
      for (int column = 0; column < 4; column++) largest = max(largest, magnitude(query[index][quad].at[column]));
    }
  }
  largest = max(largest, wave_xor(largest, 1));
  largest = max(largest, wave_xor(largest, 2));
  const QueryScale scale = query_scale(largest);

  float sums[2][4] = {};
#pragma unroll
  for (int index = 0; index < Keys::kLaneChunks; index++) {
    u32 columns[4];
#pragma unroll
    for (int word = 0; word < 4; word++) {
      const Quad& quad = query[index][word / 2];
      const u32 part = part_of(quad.at[word % 2 * 2] * scale.to, quad.at[word % 2 * 2 + 1] * scale.to);
      columns[word] = present ? part : 0u;
    }
    const Words4& upper = keys[index].words;
    const Words4& lower = keys[Keys::kLaneChunks + index].words;
    multiply_add_8(sums[0], upper.x, lower.x, upper.y, lower.y, columns[0], columns[1]);
    multiply_add_8(sums[1], upper.z, lower.z, upper.w, lower.w, columns[2], columns[3]);
  }

  // This lane's results are of the head that its place among four stands for.
  const int own_head = lane_index() % 4;
  const float back = float_of(wave_exchange(bits_of(scale.back), own_head * 8));
  float highest = negative_infinity();
#pragma unroll
  for (int round = 0; round < 2; round++) {
    const int place = Keys::place(0, round);
    const float sum =
        (sums[0][2 * round] + sums[1][2 * round] + (sums[0][2 * round + 1] + sums[1][2 * round + 1])) * back;
    const float score = is_visible(source, source.first + place) ? capped_score(sum) : negative_infinity();
    if (own_head < kHeadsAtOnce)
      reinterpret_cast<float*>(memory.scores)[place * kPaddedHeads + head + own_head] = score;
    highest = max(highest, score);
  }
#pragma unroll
  for (int mask = 4; mask < WAVE; mask *= 2) highest = max(highest, wave_xor(highest, mask));
  if (lane_index() < kHeadsAtOnce) memory.highest[wave_index()][head + lane_index()] = highest;
}

/** Low or high halves of two words. */
DEVICE u32 pair_halves(u32 first, u32 second, bool high) {
  return __byte_perm(first, second, high ? 0x7632u : 0x5410u);
}

/** This wave's share of the values' sums, to part[head][column]; `head` is the first of the four. */
DEVICE void add_by_matrix(const SplitMemory& memory, int head, const CacheChunk* values, float* part) {
  const bool present = line_head() < kHeadsAtOnce;
  const int own_head = head + (present ? line_head() : 0);
  const float base = base_of_weights(highest_of(memory, own_head));
  const float* const scores = reinterpret_cast<const float*>(memory.scores) + own_head;
  float weights[4];
#pragma unroll
  for (int round = 0; round < 4; round++) {
    weights[round] =
        present ? exponential2(scores[Values::place(0, round) * kPaddedHeads] - base) * kWeightScale : 0.0f;
  }
  const u32 left[2] = {part_of(weights[0], weights[1]), part_of(weights[2], weights[3])};
#pragma unroll
  for (int index = 0; index < Values::kLaneChunks; index++) {
    float kept[8];
#pragma unroll
    for (int column = 0; column < 8; column++) {
      u32 words[4];
#pragma unroll
      for (int round = 0; round < 4; round++) {
        const Words4& row = values[round * Values::kLaneChunks + index].words;
        words[round] = column / 2 == 0 ? row.x : column / 2 == 1 ? row.y : column / 2 == 2 ? row.z : row.w;
      }
      float sums[4] = {};
      multiply_add_8(sums, left[0], 0u, left[1], 0u, pair_halves(words[0], words[1], column % 2 != 0),
                     pair_halves(words[2], words[3], column % 2 != 0));
      // Of two lines that belong together one lane keeps the even result, and the other the odd one.
      const float given = is_second_part() ? sums[0] : sums[1];
      kept[column] = ((is_second_part() ? sums[1] : sums[0]) + wave_xor(given, 4)) * (1.0f / kWeightScale);
    }
    if (!present) continue;
    const int chunk = index * Values::kLanes + lane_index() % 4 * 2 + (is_second_part() ? 1 : 0);
    Quad* const out = reinterpret_cast<Quad*>(part + line_head() * ValueRow::kColumns + chunk * kChunkColumns);
    out[0] = {{kept[0], kept[1], kept[2], kept[3]}};
    out[1] = {{kept[4], kept[5], kept[6], kept[7]}};
  }
}
