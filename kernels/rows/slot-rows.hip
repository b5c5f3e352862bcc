// Rows of f32 as grouped matmuls on the matrix units take them, each slot's columns a row of their own: slot s begins at
// column s × slot_stride. Row scales are those of half rows (rows/prepared-row.h).
//   half_slots   halves
//   split_rows   halves, and what they lack of the values as halves too, 2048 times as large: together they have 22 bits
//   wide_rows    halves in the order of matmul/grouped-wide.hip (rows/wide-order.h), with zeros up to a multiple of 128
// HELD: quads that a thread keeps in registers, best ⌈out_stride ÷ 2048⌉; any works. GROUP_CHUNKS: rows/wide-order.h. With `shared` the last slot is a row of that: the shared expert's input.
// WAVE_ROWS 1: a wave for each slot's columns, with HELD of a wave, instead of a block.
// Grid: x = one block for each row there may be, y = slots; or x = ⌈slots of all rows there may be ÷ waves of a block⌉.
// v1 a block for each slot. H200, 4,096 tokens with 8 slots of 512 columns: 57 µs, of which memory needs 23: three quarters of
//    each block's threads have no column.
// v2 a wave for each slot if its columns fit. 28 µs expected, 25 found.
#include "rows/prepared-row.h"
#include "rows/wide-order.h"

#ifndef WAVE_ROWS
#define WAVE_ROWS 0
#endif

/** `out_stride` is in halves; columns from the width to it become zero. */
struct SlotRowsArguments {
  const float* input;
  /** Rows of the last slot, or null: they lie in `input` as well. */
  const float* shared;
  const int* row_count;
  u16* halves;
  u16* low_halves;
  float* row_scales;
  int width;
  int input_stride;
  int slots;
  int slot_stride;
  int shared_stride;
  int out_stride;
};

/** A slot's columns and the number of its row. */
struct SlotRow {
  HeldRow<Row> row;
  u64 index;
};

DEVICE Team slot_team(int quads) { return WAVE_ROWS ? wave_team() : block_team(quads); }

DEVICE bool hold_slot(const SlotRowsArguments& a, const Team& team, int quads, SlotRow& slot) {
  const int rows = *a.row_count;
  dependency_wait();
  const int place = block_x() * kRowWaves + wave_index();
  const int index = WAVE_ROWS ? place / a.slots : block_x(), number = WAVE_ROWS ? place % a.slots : block_y();
  if (index >= rows) return false;
  const bool shared = a.shared != nullptr && number == a.slots - 1;
  const float* const input = shared ? a.shared : a.input + number * a.slot_stride;
  slot.row = hold_row(row_of(input, index, shared ? a.shared_stride : a.input_stride, a.width), team, quads);
  slot.index = u64(index) * u64(a.slots) + u64(number);
  return true;
}

/** The scale of a slot's row, left where the matmul finds it. */
DEVICE float give_scale(const SlotRowsArguments& a, const Team& team, const SlotRow& slot) {
  const float scale = row_half_scale(slot.row);
  if (team.thread == 0) a.row_scales[slot.index] = scale;
  return scale;
}

KERNEL(half_slots, SlotRowsArguments, kRowThreads) {
  dependency_release();
  const int quads = quads_of(a.out_stride);
  const Team team = slot_team(quads);
  if (team.thread >= team.threads) return;
  SlotRow slot;
  if (!hold_slot(a, team, quads, slot)) return;
  write_halves(slot.row, a.halves + slot.index * u64(a.out_stride), a.out_stride, a.row_scales + slot.index);
}

/** What a half lacks of its value, 2048 times as large; nothing where it is not finite. */
DEVICE float rest_of(float value) {
  const float rest = (value - half_to_float(float_to_half(value))) * 2048.0f;
  return is_finite(rest) ? rest : 0.0f;
}

KERNEL(split_rows, SlotRowsArguments, kRowThreads) {
  dependency_release();
  const int quads = quads_of(a.out_stride);
  const Team team = slot_team(quads);
  if (team.thread >= team.threads) return;
  SlotRow slot;
  if (!hold_slot(a, team, quads, slot)) return;
  const float inverse = 1.0f / give_scale(a, team, slot);
  const u64 first = slot.index * u64(a.out_stride);
  each_quad(slot.row, [&](int quad, const Quad& values) {
    if (quad * 4 >= a.out_stride) return;
    float scaled[4];
#pragma unroll
    for (int i = 0; i < 4; i++) scaled[i] = values.at[i] * inverse;
    HalfQuad high, low;
#pragma unroll
    for (int i = 0; i < 2; i++) {
      high.pairs[i] = float2_to_half2(scaled[2 * i], scaled[2 * i + 1]);
      low.pairs[i] = float2_to_half2(rest_of(scaled[2 * i]), rest_of(scaled[2 * i + 1]));
    }
    *reinterpret_cast<HalfQuad*>(a.halves + first + u64(quad * 4)) = high;
    *reinterpret_cast<HalfQuad*>(a.low_halves + first + u64(quad * 4)) = low;
  });
}

KERNEL(wide_rows, SlotRowsArguments, kRowThreads) {
  dependency_release();
  const int quads = quads_of(a.out_stride);
  const Team team = slot_team(quads);
  if (team.thread >= team.threads) return;
  SlotRow slot;
  if (!hold_slot(a, team, quads, slot)) return;
  const float inverse = 1.0f / give_scale(a, team, slot);
  u32* const words = reinterpret_cast<u32*>(a.halves + slot.index * u64(a.out_stride));
  each_quad(slot.row, [&](int quad, const Quad& values) {
    if (quad * 4 >= a.out_stride) return;
    const int word = wide_word(quad);
    words[word] = float2_to_half2(values.at[0] * inverse, values.at[1] * inverse);
    words[word + 4] = float2_to_half2(values.at[2] * inverse, values.at[3] * inverse);
  });
}
