// A run of tokens over a slice of a recurrent state (recurrent/columns.h), in chunks of CHUNK tokens: what a chunk needs
// is in shared memory, and the next one is brought in the background meanwhile. For each token and head an operation has
// two rows of LINES columns, COLUMNS values, and two numbers from which it computes the gates of the token:
//   gates(a, head, left, right)         { kept, rate }: the factor of the state, and that of what is added
//   prepare(token)                      by the 32 lanes of a token, which come together: changes its rows in shared memory
//   apply(held, chunk, token, out)      the next token on the columns; `out` are the results of this lane's columns, valid
//                                       in the first of the lanes that hold them
// A token's results do not depend on CHUNK or on what else is in the step.
// CHUNK: tokens. ALIGNED 1: the rows and values of all heads begin at multiples of 16 bytes.
#pragma once
#include "device/async-copy.h"
#include "recurrent/columns.h"

#ifndef CHUNK
#define CHUNK 1
#endif

constexpr int kChunk = CHUNK;
constexpr int kChunks = CHUNK > 1 ? 2 : 1;
/** Lanes that prepare a token together, whatever the wave. */
constexpr int kTokenLanes = 32;
constexpr int kPreparedTokens = kThreads / kTokenLanes;
static_assert(kChunk <= kThreads, "a thread computes the gates of a token");

struct Gates {
  float kept;
  float rate;
  /** What `prepare` leaves for `apply`. */
  float overlap;
};

struct alignas(16) Chunk {
  float first[kChunk][kPaddedLines];
  float second[kChunk][kPaddedLines];
  float values[kChunk][kBlockColumns];
  Gates gates[kChunk];
  int writes[kChunk];
};

/** What the thread of a token has read for its gates. */
struct RawGates {
  float left;
  float right;
  int write;
};

/** 4 neighbouring floats; the copy may still be under way when this returns. */
DEVICE void bring_quad(float* shared, const float* global) {
#if ALIGNED
  copy_in_background(shared, global);
#else
#pragma unroll
  for (int i = 0; i < 4; i++) shared[i] = global[i];
#endif
}

/** The columns 0 … Width − 1 of a row by threads that come with their index. */
template <int Width>
DEVICE void bring_columns(float* shared, const float* global, int index) {
  constexpr int Quads = Width / 4;
  if (index < Quads)
    bring_quad(shared + index * 4, global + index * 4);
  else if (index - Quads < Width % 4)
    shared[Quads * 4 + index - Quads] = global[Quads * 4 + index - Quads];
}

template <typename Arguments>
DEVICE RawGates bring_chunk(const Arguments& a, const HeadPlaces& places, Chunk& chunk, int row, int count) {
  constexpr int RowItems = kMatrixLines / 4 + kMatrixLines % 4;
  constexpr int ValueItems = kBlockColumns / 4;
  constexpr int Items = 2 * RowItems + ValueItems;
  for (int item = thread_index(); item < count * Items; item += kThreads) {
    const int token = item / Items, index = item % Items;
    const u64 start = u64(row + token) * u64(a.input_stride);
    if (index < RowItems) {
      bring_columns<kMatrixLines>(chunk.first[token], places.first + start, index);
    } else if (index < 2 * RowItems) {
      bring_columns<kMatrixLines>(chunk.second[token], places.second + start, index - RowItems);
    } else {
      const int column = (index - 2 * RowItems) * 4, slice_column = block_x() % kSlices * kBlockColumns + column;
      if (has_column(slice_column + 3)) {
        bring_quad(chunk.values[token] + column, places.values + start + column);
      } else {
        for (int i = 0; i < 4; i++)
          chunk.values[token][column + i] = has_column(slice_column + i) ? places.values[start + column + i] : 0.0f;
      }
    }
  }
  RawGates raw = {0, 0, -1};
  if (thread_index() < count) {
    const u64 token = u64(row + thread_index());
    raw.left = a.left[token * u64(a.left_stride) + u64(places.head)];
    if (a.right != nullptr) raw.right = a.right[token * u64(a.right_stride) + u64(places.head)];
    raw.write = a.state_writes[row + thread_index()];
  }
  return raw;
}

/** Lines past the matrix are zeros in the rows of all tokens. */
DEVICE void clear_padding(Chunk& chunk) {
  constexpr int Padding = kPaddedLines - kMatrixLines;
  for (int item = thread_index(); item < kChunk * Padding; item += kThreads) {
    chunk.first[item / Padding][kMatrixLines + item % Padding] = 0;
    chunk.second[item / Padding][kMatrixLines + item % Padding] = 0;
  }
}

/** The block's slice over all tokens of a run; the state was read into `held`. `states` are those of the head in slot 0. */
template <typename Operation, typename Arguments>
DEVICE void run_tokens(const Arguments& a, const StateRun& run, const HeadPlaces& places, HeldColumns& held) {
  SHARED Chunk chunks[kChunks];
  SHARED float results[kChunk][kBlockColumns];
  const int slice = block_x() % kSlices;
  if (kPaddedLines != kMatrixLines) {
    for (int index = 0; index < kChunks; index++) clear_padding(chunks[index]);
  }
  RawGates raw = bring_chunk(a, places, chunks[0], run.first, min(kChunk, run.count));
  int current = 0;
  for (int start = 0; start < run.count; start += kChunk) {
    const int count = min(kChunk, run.count - start);
    Chunk& chunk = chunks[current];
    wait_for_copies();
    if (thread_index() < count) {
      chunk.gates[thread_index()] = Operation::gates(a, places.head, raw.left, raw.right);
      chunk.writes[thread_index()] = raw.write;
    }
    barrier();
    const int left = run.count - start - kChunk;
    if (kChunks == 2) {
      current ^= 1;
      if (left > 0) raw = bring_chunk(a, places, chunks[current], run.first + start + kChunk, min(kChunk, left));
    }
    for (int first = 0; first < count; first += kPreparedTokens) {
      const int token = first + thread_index() / kTokenLanes;
      Operation::prepare(a, chunk, token < count ? token : -1);
    }
    if (Operation::kPrepares) barrier();
    for (int token = 0; token < count; token++) {
      float out[kLaneColumns];
      Operation::apply(a, places.head, held, chunk, token, out);
      if (column_lane() == 0) {
#pragma unroll
        for (int c = 0; c < kLaneColumns; c++) results[token][first_column() + c] = out[c];
      }
      if (chunk.writes[token] >= 0)
        store_columns(held, state_in(a, chunk.writes[token]) + places.head * (kMatrixLines * kMatrixColumns), slice);
    }
    barrier();
    for (int item = thread_index(); item < count * kBlockColumns; item += kThreads) {
      const int token = item / kBlockColumns, column = item % kBlockColumns;
      if (!has_column(slice * kBlockColumns + column)) continue;
      a.out[u64(run.first + start + token) * u64(a.out_stride) +
            u64(places.head * kMatrixColumns + slice * kBlockColumns + column)] = results[token][column];
    }
    if (kChunks == 1 && left > 0) raw = bring_chunk(a, places, chunk, run.first + start + kChunk, min(kChunk, left));
  }
}
