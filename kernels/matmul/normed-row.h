// RMS norm and quantization of a matmul's input row by every block that wants it, in registers and straight to the
// staged layout: a launch less for each norm, and the row is at hand one latency after it was written.
//
// What is quantized is y = x × weight. The root mean square is a factor of the whole row, which quantization does not see and
// a matmul keeps, so it is applied to the row's results (row_factor) and one barrier does for everything.
//   |y| of 32 columns at most    over eight lanes; each lane of the eight then has the scale of another block
//   step = y ÷ scale             nearest by the addition of 1.5 × 2²³, whose last byte is the step
//   sum of 16 steps              over four lanes, two sums in one word
// Not to the bit what norm_quantize gives: the order of the squares' sum and the place of the factor differ.
// NORMED: quads of a row that a thread takes, ⌈width ÷ (4 × THREADS)⌉, at most 8. The row and its weights lie at
// multiples of 16 bytes, the width is a multiple of 32. WEIGHT_TYPE: device/quad.h. NORM 0: rows are quantized as they are.
#pragma once
#include "rows/prepared-row.h"
#include "matmul/staged-row.h"
#include "weights/weights.h"

#ifndef NORM
#define NORM 1
#endif

constexpr int kNormedSlots = NORMED > 4 ? 8 : NORMED > 2 ? 4 : 2;
constexpr int kNormedPairs = kNormedSlots / 2;
static_assert(NORMED >= 1 && NORMED <= 8, "a thread has registers for eight quads");
static_assert(THREADS % 64 == 0,
              "the next quad of a thread is a multiple of 16 chunks on, which staged_chunk does not move");
/** Whether every thread has a quad in every slot, as far as the compiler can tell. */
constexpr bool kNormedWhole = WIDTH == NORMED * THREADS * 4;
constexpr float kStepsAtLastByte = 12582912.0f;

/** A norm's weights, which no kernel writes: asked for before the row is there. */
struct NormedWeights {
  Quad held[NORMED];
};

DEVICE Quad norm_weights(const u8* weights, int quad) {
#if WEIGHT_TYPE == 0
  return reinterpret_cast<const Quad*>(weights)[quad];
#else
  const Words2 words = load_words2(weights + quad * 8);
  const u16 halves[4] = {u16(words.x), u16(words.x >> 16), u16(words.y), u16(words.y >> 16)};
  Quad result;
#pragma unroll
  for (int i = 0; i < 4; i++) result.at[i] = WEIGHT_TYPE == 1 ? half_to_float(halves[i]) : bfloat_to_float(halves[i]);
  return result;
#endif
}

/** Threads past the row's end take its last quad, and then nothing of it. */
DEVICE int normed_quad(int slot, int quads) {
  const int quad = slot * THREADS + thread_index();
  return kNormedWhole ? quad : min(quad, quads - 1);
}

DEVICE NormedWeights hold_norm_weights(const u8* weights, int width) {
  NormedWeights result;
#pragma unroll
  for (int slot = 0; slot < NORMED; slot++) {
    if (NORM) {
      result.held[slot] = norm_weights(weights, normed_quad(slot, width / 4));
    } else {
      result.held[slot] = {{1, 1, 1, 1}};
    }
  }
  return result;
}

struct MaxOf {
  DEVICE u32 combine(u32 left, u32 right) { return max(left, right); }
};

struct SumOf {
  DEVICE u32 combine(u32 left, u32 right) { return left + right; }
};

/** Count results over 2 × Distance lanes: a lane gives half of what it has away with every step, and ends with the one of
 *  index lane × Count ÷ (2 × Distance). */
template <typename Operation, int Count, int Distance>
struct SpreadOver {
  DEVICE u32 over_lanes(const u32 (&values)[Count]) {
    const bool upper = (lane_index() & Distance) != 0;
    u32 kept[Count / 2];
#pragma unroll
    for (int i = 0; i < Count / 2; i++) {
      const u32 given = upper ? values[i] : values[i + Count / 2];
      kept[i] = Operation::combine(upper ? values[i + Count / 2] : values[i], wave_xor(given, Distance));
    }
    return SpreadOver<Operation, Count / 2, Distance / 2>::over_lanes(kept);
  }
};

template <typename Operation, int Distance>
struct SpreadOver<Operation, 1, Distance> {
  DEVICE u32 over_lanes(const u32 (&values)[1]) {
    u32 value = values[0];
#pragma unroll
    for (int mask = Distance; mask > 0; mask /= 2) value = Operation::combine(value, wave_xor(value, mask));
    return value;
  }
};

/** Where a row goes; `squares` gets each wave's part of the sum. */
struct NormedPlace {
  u32* values;
  float* scales;
  float* sums;
  float* squares;
};

/** What a thread takes of a row. */
struct NormedQuads {
  Quad held[NORMED];
};

DEVICE NormedQuads hold_normed_row(const float* row, int width) {
  NormedQuads result;
#pragma unroll
  for (int slot = 0; slot < NORMED; slot++)
    result.held[slot] = reinterpret_cast<const Quad*>(row)[normed_quad(slot, width / 4)];
  return result;
}

/** `first_chunk`: the row's, among those of the block's tokens. */
DEVICE void stage_normed(const NormedQuads& row, const NormedWeights& weights, int width, int first_chunk,
                         bool with_sums, const NormedPlace& place) {
  const int quads = width / 4;
  const u32 thread = thread_index(), lane = lane_index();
  Quad values[NORMED];
#pragma unroll
  for (int slot = 0; slot < NORMED; slot++) values[slot] = row.held[slot];

  float squares[4] = {0, 0, 0, 0};
  u32 largest[kNormedSlots] = {};
#pragma unroll
  for (int slot = 0; slot < NORMED; slot++) {
    const bool inside = kNormedWhole || slot * THREADS + thread_index() < quads;
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const float value = inside ? values[slot].at[i] : 0.0f;
      squares[i] = fma(value, value, squares[i]);
      values[slot].at[i] = value * weights.held[slot].at[i];
      largest[slot] = max(largest[slot], magnitude_bits(values[slot].at[i]));
    }
  }
  const float square_sum = wave_sum((squares[0] + squares[1]) + (squares[2] + squares[3]));
  if (lane == 0) place.squares[wave_index()] = square_sum;

  constexpr int BlockSpread = kBlockLanes / kNormedSlots;
  const u32 own_largest = SpreadOver<MaxOf, kNormedSlots, kBlockLanes / 2>::over_lanes(largest);
  const float plain_scale = float_of(own_largest) * (1.0f / 127.0f);
  const bool usable = own_largest < kInfinityBits && plain_scale >= kMinScale;
  const float scale = usable ? plain_scale : own_largest < kInfinityBits ? 0.0f : float_of(0x7fc00000u);
  const float inverse = usable ? 127.0f / float_of(own_largest) : 0.0f;
  const int block_lane = lane % kBlockLanes, first_lane = lane - block_lane;
  const int own_block = block_lane / BlockSpread * (THREADS / kBlockLanes) + thread / kBlockLanes;
  if (block_lane % BlockSpread == 0 && own_block < width / 32) place.scales[first_chunk / 2 + own_block] = scale;

  u32* const target = place.values + staged_chunk(first_chunk + thread / 4) * 4 + thread % 4;
  int sums[kNormedSlots] = {};
#pragma unroll
  for (int slot = 0; slot < NORMED; slot++) {
    const float slot_inverse = wave_from(inverse, first_lane + slot * BlockSpread);
    u32 word = 0;
#pragma unroll
    for (int i = 0; i < 4; i++)
      word |= (bits_of(fma(values[slot].at[i], slot_inverse, kStepsAtLastByte)) & 255u) << (8 * i);
    if (kNormedWhole || slot * THREADS + thread_index() < quads) target[slot * THREADS] = word;
    if (with_sums) sums[slot] = dot4(int(word), 0x01010101, 0);
  }
  if (!with_sums) return;

  constexpr int PairSpread = kGroupLanes / kNormedPairs;
  u32 pairs[kNormedPairs];
#pragma unroll
  for (int pair = 0; pair < kNormedPairs; pair++)
    pairs[pair] = u32(sums[pair]) + (u32(sums[pair + kNormedPairs]) << 16);
  const u32 own_pair = SpreadOver<SumOf, kNormedPairs, kGroupLanes / 2>::over_lanes(pairs);
  const int group_lane = lane % kGroupLanes, slot = group_lane / PairSpread;
  const int low = int(short(own_pair)), high = int(own_pair - u32(low)) >> 16;
  const float low_scale = wave_from(scale, first_lane + slot * BlockSpread);
  const float high_scale = wave_from(scale, first_lane + (slot + kNormedPairs) * BlockSpread);
  if (group_lane % PairSpread != 0) return;
  const int low_group = slot * (THREADS / kGroupLanes) + thread / kGroupLanes;
  const int high_group = low_group + kNormedPairs * (THREADS / kGroupLanes);
  if (low_group < width / 16) place.sums[first_chunk + low_group] = low_scale * float(low);
  if (high_group < width / 16) place.sums[first_chunk + high_group] = high_scale * float(high);
}

/** 1 ÷ the root mean square of a row, after a barrier. */
DEVICE float inverse_root_mean(const float* squares, int waves, int width, float epsilon) {
  float sum = 0;
#pragma unroll
  for (int wave = 0; wave < waves; wave++) sum += squares[wave];
  return reciprocal_root(sum / float(width) + epsilon);
}
