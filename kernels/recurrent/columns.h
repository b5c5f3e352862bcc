// A slice of a recurrent state in the registers of a block. The state of a head is a matrix, of which no column depends on
// another: a block has kBlockColumns columns of one head, 8 neighbouring lanes hold two of them (or 16 lanes four), and
// they stay there for all tokens of a run, so that memory is read once and written once for each slot that gets them.
// On the device a matrix lies column after column, so that the lanes of a column read neighbouring addresses.
// LINES × COLUMNS: of a head's matrix. SLICE: columns of a block, 32 or 16. COLUMN_LANES: 8 or 16.
#pragma once
#include "recurrent/state.h"

#ifndef SLICE
#define SLICE 32
#endif
#ifndef COLUMN_LANES
#define COLUMN_LANES 8
#endif

constexpr int kMatrixLines = LINES, kMatrixColumns = COLUMNS;
/** Lanes that hold a column together, and the columns that they hold. */
constexpr int kColumnLanes = COLUMN_LANES, kLaneColumns = kColumnLanes / 4;
/** Neighbouring lines of one lane, read at once. */
constexpr int kVector = kMatrixLines % 32 == 0 ? 4 : kMatrixLines % 16 == 0 ? 2 : 1;
constexpr int kSweepLines = kColumnLanes * kVector;
constexpr int kSweeps = (kMatrixLines + kSweepLines - 1) / kSweepLines;
/** Lines of one lane, and of all that hold a column: those past the matrix are zeros. */
constexpr int kHeldLines = kSweeps * kVector, kPaddedLines = kSweeps * kSweepLines;
constexpr int kBlockColumns = SLICE;
constexpr int kThreads = SLICE * 4;
static_assert(kThreads == kBlockColumns / kLaneColumns * kColumnLanes && kThreads % WAVE == 0, "whole waves");
/** Blocks of one head. */
constexpr int kSlices = (kMatrixColumns + kBlockColumns - 1) / kBlockColumns;

/** Where the rows and values of a head begin in the input's first row, and its column in the numbers for its gates. */
struct HeadPlaces {
  const float* first;
  const float* second;
  const float* values;
  int head;
};

struct alignas(4 * kVector) LineVector {
  float at[kVector];
};

/** This lane's lines of something that all columns share. */
struct HeldLines {
  float at[kHeldLines];
};

/** This lane's part of its columns. */
struct HeldColumns {
  float at[kLaneColumns][kHeldLines];
};

DEVICE int column_lane() { return thread_index() % kColumnLanes; }
/** Of the block's columns, the first that this lane holds. */
DEVICE int first_column() { return thread_index() / kColumnLanes * kLaneColumns; }
DEVICE int line_of_sweep(int sweep) { return sweep * kSweepLines + column_lane() * kVector; }

/** From shared memory with kPaddedLines floats, aligned to 16 bytes. */
DEVICE HeldLines held_lines(const float* shared) {
  HeldLines result;
#pragma unroll
  for (int sweep = 0; sweep < kSweeps; sweep++) {
    const LineVector lines = *reinterpret_cast<const LineVector*>(shared + line_of_sweep(sweep));
#pragma unroll
    for (int i = 0; i < kVector; i++) result.at[sweep * kVector + i] = lines.at[i];
  }
  return result;
}

/** Whether this lane has lines of the matrix in a sweep; whole vectors are inside of it or outside. */
DEVICE bool has_lines(int sweep) { return kPaddedLines == kMatrixLines || line_of_sweep(sweep) < kMatrixLines; }
DEVICE bool has_column(int column) { return kMatrixColumns % kBlockColumns == 0 || column < kMatrixColumns; }

/** The columns of slice `slice` of the matrix that begins at `matrix`; null: zeros. */
DEVICE HeldColumns load_columns(const float* matrix, int slice) {
  HeldColumns result = {};
  if (matrix == nullptr) return result;
#pragma unroll
  for (int c = 0; c < kLaneColumns; c++) {
    const int column = slice * kBlockColumns + first_column() + c;
#pragma unroll
    for (int sweep = 0; sweep < kSweeps; sweep++) {
      if (!has_column(column) || !has_lines(sweep)) continue;
      const float* const from = matrix + column * kMatrixLines + line_of_sweep(sweep);
      const LineVector lines = *reinterpret_cast<const LineVector*>(from);
#pragma unroll
      for (int i = 0; i < kVector; i++) result.at[c][sweep * kVector + i] = lines.at[i];
    }
  }
  return result;
}

DEVICE void store_columns(const HeldColumns& held, float* matrix, int slice) {
#pragma unroll
  for (int c = 0; c < kLaneColumns; c++) {
    const int column = slice * kBlockColumns + first_column() + c;
#pragma unroll
    for (int sweep = 0; sweep < kSweeps; sweep++) {
      if (!has_column(column) || !has_lines(sweep)) continue;
      LineVector lines;
#pragma unroll
      for (int i = 0; i < kVector; i++) lines.at[i] = held.at[c][sweep * kVector + i];
      *reinterpret_cast<LineVector*>(matrix + column * kMatrixLines + line_of_sweep(sweep)) = lines;
    }
  }
}

/** This lane's part of the products of its columns with `lines`. */
DEVICE void add_dots(const HeldColumns& held, const HeldLines& lines, float (&sums)[kLaneColumns]) {
#pragma unroll
  for (int line = 0; line < kHeldLines; line++) {
#pragma unroll
    for (int c = 0; c < kLaneColumns; c++) sums[c] = fma(held.at[c][line], lines.at[line], sums[c]);
  }
}

/** Every column becomes factor × column + weights[c] × lines. */
DEVICE void update_columns(HeldColumns& held, float factor, const HeldLines& lines,
                           const float (&weights)[kLaneColumns]) {
#pragma unroll
  for (int c = 0; c < kLaneColumns; c++) {
#pragma unroll
    for (int line = 0; line < kHeldLines; line++)
      held.at[c][line] = fma(lines.at[line], weights[c], factor * held.at[c][line]);
  }
}
