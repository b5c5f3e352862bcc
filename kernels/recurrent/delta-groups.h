// A gated delta net by groups of 8 tokens, for long runs. With S the state before a group, G(t) the product of its factors
// up to token t and R(i, t) those after i up to t, the definition in recurrent/delta-net.hip becomes
//   d(t) = rate(t) × (v(t) − G(t) Sᵀk(t) − Σ over i < t of R(i, t) (k(i) · k(t)) d(i))
//   out(t) = scale × (G(t) Sᵀq(t) + Σ over i ≤ t of R(i, t) (k(i) · q(t)) d(i)),    S ← G(8) S + Σ of R(i, 8) k(i) ⊗ d(i)
// so that the state is read for all dots of a group, then changed once, and what depends on the token before is a chain
// of 8 short steps in each column. Half of a block's waves have the state and do that. The others bring rows from memory,
// and compute the gates and dots of keys and queries (Factors) of the pass that follows; they meet once in a pass.
// A pass is a group, or a part of it that ends with a token whose state is wanted: tokens outside of it have no key and no
// d, so they change nothing, whatever their numbers are. Groups begin with a run: a token's bits depend on where that is,
// and on which states are wanted.
//
// What a group costs a scheduler of four, each with a wave of both kinds (128 columns, wave of 32): 512 dots with the
// state and 288 to change it, 210 for sums over lanes, about 100 for d and results, 350 of the other wave: 1,460 cycles if
// all wait for nothing; reads of shared memory and shuffles take a multiprocessor about 1,400. That is 0.1 µs a token.
#pragma once
#include "device/async-copy.h"
#include "device/fold.h"
#include "device/quad.h"
#include "recurrent/delta-arguments.h"

constexpr int kGroup = 8;
/** Threads with the state, and as many that prepare. */
constexpr int kGroupThreads = SLICE * 8;
/** Groups whose rows are in shared memory: the current one, the next, and one on its way. */
constexpr int kWindows = 3;
/** Tokens whose results a lane has in the end. */
constexpr int kLaneTokens = 2;
static_assert(kGroupThreads == 2 * kThreads && kThreads == kGroup * kColumnLanes, "16 lanes prepare a token");
static_assert(kColumnLanes == 16 && kLaneColumns == 4, "sums over lanes are written for these");
static_assert(kMatrixLines == kPaddedLines && kMatrixColumns % kBlockColumns == 0, "whole lanes and slices");
static_assert(ALIGNED == 1, "rows are brought 16 bytes at a time");

/** What a group reads. Rows past the run are zeros, and write no state. */
struct alignas(16) Window {
  float queries[kGroup][kMatrixLines];
  float keys[kGroup][kMatrixLines];
  float values[kGroup][kBlockColumns];
  float left[kGroup];
  float right[kGroup];
  int writes[kGroup];
};

/** Numbers of a pass that all columns share; k and q are as they were read, and their norms are in here. */
struct alignas(16) Factors {
  /** [t][i]: d(i) into d(t), and into the result of t; as quads. */
  Quad earlier[kGroup][2];
  Quad added[kGroup][2];
  /** v(t) and Sᵀk(t) into d(t), as quads; Sᵀq(t) into the result, d(t) into the state after the pass. */
  Quad value[2];
  Quad recalled[2];
  float read[kGroup];
  float last[kGroup];
  /** Of the state. */
  float kept;
};

/** Tokens from … to of the run's group `window`. */
struct Pass {
  int window;
  int from;
  int to;
};

DEVICE bool applies() { return thread_index() < kThreads; }
DEVICE bool has_token(const Pass& pass, int token) { return token >= pass.from && token <= pass.to; }
DEVICE int windows_of(const StateRun& run) { return (run.count + kGroup - 1) / kGroup; }

/** From a token on, up to the next one whose state is wanted, the group's end or the run's. */
DEVICE Pass pass_from(const StateRun& run, const Window& rows, int window, int from) {
  int to = min(kGroup, run.count - window * kGroup) - 1;
#pragma unroll
  for (int token = kGroup - 1; token >= 0; token--) {
    if (token >= from && rows.writes[token] >= 0) to = token;
  }
  return {window, from, to};
}

/** By the threads that prepare; copies may still be under way when this returns. */
DEVICE void bring_window(const DeltaNetArguments& a, const StateRun& run, const HeadPlaces& places, Window& rows,
                         int window) {
  constexpr int RowQuads = kMatrixLines / 4, ValueQuads = kBlockColumns / 4;
  const int thread = thread_index() - kThreads, first = run.first + window * kGroup;
  const int count = min(kGroup, run.count - window * kGroup);
#pragma unroll
  for (int item = thread; item < kGroup * 2 * RowQuads; item += kThreads) {
    const int token = item / (2 * RowQuads), column = item % RowQuads * 4;
    const bool is_key = item / RowQuads % 2 == 1;
    const u64 start = u64(first + (token < count ? token : 0)) * u64(a.input_stride);
    copy_or_clear((is_key ? rows.keys : rows.queries)[token] + column,
                  (is_key ? places.second : places.first) + start + column, token < count);
  }
  if (thread < kGroup * ValueQuads) {
    const int token = thread / ValueQuads, column = thread % ValueQuads * 4;
    const u64 start = u64(first + (token < count ? token : 0)) * u64(a.input_stride);
    copy_or_clear(rows.values[token] + column, places.values + start + column, token < count);
  }
  if (thread >= kGroup) return;
  const u64 token = u64(first + (thread < count ? thread : 0));
  rows.left[thread] = a.left[token * u64(a.left_stride) + u64(places.head)];
  rows.right[thread] = a.right[token * u64(a.right_stride) + u64(places.head)];
  rows.writes[thread] = thread < count ? a.state_writes[token] : -1;
}

/** By the threads that prepare, 16 lanes for each token. `zeros`: the key of tokens outside of the pass. */
DEVICE void make_factors(const DeltaNetArguments& a, int head, const Window& rows, const float* zeros, const Pass& pass,
                         Factors& out) {
  const int lane = column_lane(), own = (thread_index() - kThreads) / kColumnLanes, other = lane % kGroup;
  const bool inside = has_token(pass, own);
  // The dots of the own key with all keys, then of the own query with them.
  float dots[2 * kGroup] = {}, squares = 0;
  {
    const HeldLines key = held_lines(inside ? rows.keys[own] : zeros);
    const HeldLines query = held_lines(inside ? rows.queries[own] : zeros);
#pragma unroll
    for (int token = 0; token < kGroup; token++) {
      const HeldLines lines = held_lines(has_token(pass, token) ? rows.keys[token] : zeros);
#pragma unroll
      for (int line = 0; line < kHeldLines; line++) {
        dots[token] = fma(lines.at[line], key.at[line], dots[token]);
        dots[kGroup + token] = fma(lines.at[line], query.at[line], dots[kGroup + token]);
      }
    }
#pragma unroll
    for (int line = 0; line < kHeldLines; line++) squares = fma(query.at[line], query.at[line], squares);
  }
  // A lane is left with one product: of the own key, or from lane 8 on of the own query, with the key of `other`.
  Fold<2 * kGroup, kColumnLanes / 2, 1>::sum(dots);
  const int first_lane = lane_index() - lane;
  const float key_inverse = inverse_norm(wave_from(dots[0], first_lane + own), a.epsilon);
  const float query_inverse = inverse_norm(wave_sum<kColumnLanes>(squares), a.epsilon);
  const float kept = has_token(pass, other) ? delta_kept(a, head, rows.left[other]) : 1.0f;
  float between = 1, before = 1;
#pragma unroll
  for (int token = 0; token < kGroup; token++) {
    const float factor = wave_from(kept, first_lane + token);
    if (token > other && token <= own) between *= factor;
    if (token <= own) before *= factor;
  }
  const float value = inside ? key_inverse * sigmoid(rows.right[own]) : 0.0f;
  const float recalled = inside ? key_inverse * value : 0.0f, read = inside ? a.scale * query_inverse : 0.0f;
  if (lane < kGroup)
    reinterpret_cast<float*>(out.earlier[own])[other] = other < own ? -recalled * between * dots[0] : 0.0f;
  else
    reinterpret_cast<float*>(out.added[own])[other] = other <= own ? read * between * dots[0] : 0.0f;
  if (lane == 0) {
    reinterpret_cast<float*>(out.value)[own] = value;
    reinterpret_cast<float*>(out.recalled)[own] = recalled * before;
    out.read[own] = read * before;
  }
  if (own == kGroup - 1) {
    if (lane < kGroup) out.last[other] = between;
    if (lane == 0) out.kept = before;
  }
}

/** The same number of quads as columns of a lane, for each token. */
struct Differences {
  Quad at[kGroup];
};

/** A pass on the columns of the block. `shared` is of these 16 lanes alone. */
DEVICE void apply_pass(const DeltaNetArguments& a, const StateRun& run, const HeadPlaces& places, const Window& rows,
                       const float* zeros, const Factors& factors, const Pass& pass, Differences& shared,
                       HeldColumns& held) {
  const int lane = column_lane(), own_column = lane / kLaneColumns;
  HeldLines keys[kGroup];
  // [column][Sᵀk of each token, then Sᵀq]
  float sums[kLaneColumns * 2 * kGroup];
#pragma unroll
  for (int token = 0; token < kGroup; token++) {
    keys[token] = held_lines(has_token(pass, token) ? rows.keys[token] : zeros);
    const HeldLines query = held_lines(rows.queries[token]);
    float recalled[kLaneColumns] = {}, read[kLaneColumns] = {};
    add_dots(held, keys[token], recalled);
    add_dots(held, query, read);
#pragma unroll
    for (int c = 0; c < kLaneColumns; c++) {
      sums[c * 2 * kGroup + token] = recalled[c];
      sums[c * 2 * kGroup + kGroup + token] = read[c];
    }
  }
  // A lane is left with one column, then with Sᵀk of all tokens and Sᵀq of two.
  Fold<kLaneColumns * 2 * kGroup, 8, 4>::sum(sums);
  const int first_token = Fold<kGroup, 2, 1>::sum(sums + kGroup);
  const int column = first_column() + own_column;
  float difference[kGroup];
#pragma unroll
  for (int quad = 0; quad < kGroup / 4; quad++) {
    const Quad values = factors.value[quad], recalled = factors.recalled[quad];
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const int token = quad * 4 + i;
      const float value = rows.values[token][column] * values.at[i];
      const float found = fma(-recalled.at[i], wave_sum<kColumnLanes / kLaneColumns>(sums[token]), value);
      difference[token] = has_token(pass, token) ? found : 0.0f;
    }
  }
#pragma unroll
  for (int token = 1; token < kGroup; token++) {
    const Quad first = factors.earlier[token][0], second = factors.earlier[token][1];
#pragma unroll
    for (int i = 0; i < token; i++)
      difference[token] = fma(i < 4 ? first.at[i % 4] : second.at[i % 4], difference[i], difference[token]);
  }
  // The two tokens of this lane: what others need of them, and their results.
#pragma unroll
  for (int own = 0; own < kLaneTokens; own++) {
    const int token = first_token + own;
    const float low = (lane & 1) != 0 ? difference[2 + own] : difference[own];
    const float high = (lane & 1) != 0 ? difference[6 + own] : difference[4 + own];
    shared.at[token].at[own_column] = factors.last[token] * ((lane & 2) != 0 ? high : low);
    float result = factors.read[token] * sums[kGroup + own];
#pragma unroll
    for (int quad = 0; quad < kGroup / 4; quad++) {
      const Quad added = factors.added[token][quad];
#pragma unroll
      for (int i = 0; i < 4; i++) {
        // Not by the factor of zero alone: the difference of a later token may be no number.
        const float seen = quad * 4 + i <= token ? difference[quad * 4 + i] : 0.0f;
        result = fma(added.at[i], seen, result);
      }
    }
    if (!has_token(pass, token)) continue;
    const u64 row = u64(run.first + pass.window * kGroup + token);
    a.out[row * u64(a.out_stride) + u64(places.head * kMatrixColumns + block_x() % kSlices * kBlockColumns + column)] =
        result;
  }
  wave_barrier();
  const float kept = factors.kept;
#pragma unroll
  for (int c = 0; c < kLaneColumns; c++) {
#pragma unroll
    for (int line = 0; line < kHeldLines; line++) held.at[c][line] *= kept;
  }
#pragma unroll
  for (int token = 0; token < kGroup; token++) {
    const Quad weights = shared.at[token];
#pragma unroll
    for (int c = 0; c < kLaneColumns; c++) {
#pragma unroll
      for (int line = 0; line < kHeldLines; line++)
        held.at[c][line] = fma(keys[token].at[line], weights.at[c], held.at[c][line]);
    }
  }
}

/** The block's slice over all tokens of a run; the state was read into `held` of the threads that apply. */
DEVICE void run_groups(const DeltaNetArguments& a, const StateRun& run, const HeadPlaces& places, HeldColumns& held) {
  SHARED Window windows[kWindows];
  SHARED Factors factors[2];
  SHARED Differences differences[kThreads / kColumnLanes];
  SHARED Quad zeros[kMatrixLines / 4];
  const float* const no_lines = reinterpret_cast<const float*>(zeros);
  if (run.count <= 0) return;
  if (thread_index() < kMatrixLines / 4) zeros[thread_index()] = Quad{};
  if (!applies()) {
    bring_window(a, run, places, windows[0], 0);
    if (windows_of(run) > 1) bring_window(a, run, places, windows[1], 1);
    wait_for_copies();
  }
  barrier();
  Pass pass = pass_from(run, windows[0], 0, 0);
  if (!applies()) make_factors(a, places.head, windows[0], no_lines, pass, factors[0]);
  barrier();
  for (int current = 0;; current ^= 1) {
    const Window& rows = windows[pass.window % kWindows];
    const bool ends = pass.to == kGroup - 1 || pass.window * kGroup + pass.to == run.count - 1;
    const int window = ends ? pass.window + 1 : pass.window;
    const bool more = window < windows_of(run);
    Pass next = pass;
    if (more) next = pass_from(run, windows[window % kWindows], window, ends ? 0 : pass.to + 1);
    if (applies()) {
      apply_pass(a, run, places, rows, no_lines, factors[current], pass, differences[thread_index() / kColumnLanes],
                 held);
      const int slot = rows.writes[pass.to];
      if (slot >= 0)
        store_columns(held, state_in(a, slot) + places.head * (kMatrixLines * kMatrixColumns), block_x() % kSlices);
    } else {
      if (ends && window + 1 < windows_of(run))
        bring_window(a, run, places, windows[(window + 1) % kWindows], window + 1);
      if (more) make_factors(a, places.head, windows[window % kWindows], no_lines, next, factors[current ^ 1]);
      wait_for_copies();
    }
    barrier();
    if (!more) return;
    pass = next;
  }
}
