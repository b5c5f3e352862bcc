// A row in the registers of a team of threads (the waves of a block, or one wave): read once, used as often as wanted.
// Thread i of n holds quads i, i + n, i + 2n … Sums run in an order that depends on the row's width alone.
// HELD is how many quads of a thread stay in registers; wider rows are read again, which costs time and nothing else.
#pragma once
#include "device/activation.h"
#include "device/order.h"
#include "device/quad.h"

#ifndef HELD
#define HELD 2
#endif

/** Of a block that works on one row. */
constexpr int kRowThreads = 512;
constexpr int kRowWaves = kRowThreads / WAVE;

struct Team {
  int thread;
  /** Whole waves. */
  int threads;
};

/** Waves that would find no quad are left out: threads with thread >= threads return. */
DEVICE Team block_team(int quads) {
  const int waves = min(kRowWaves, (quads + WAVE - 1) / WAVE);
  return {thread_index(), (waves > 0 ? waves : 1) * WAVE};
}

DEVICE Team wave_team() { return {lane_index(), WAVE}; }

DEVICE float team_sum(const Team& team, float value) {
  SHARED float partial_sums[kRowWaves];
  value = wave_sum(value);
  if (team.threads == WAVE) return value;
  if (lane_index() == 0) partial_sums[wave_index()] = value;
  barrier();
  const int wave = lane_index() % kRowWaves;
  return wave_sum<kRowWaves>(wave * WAVE < team.threads ? partial_sums[wave] : 0.0f);
}

DEVICE u32 team_max(const Team& team, u32 value) {
  SHARED u32 partial_max[kRowWaves];
  value = wave_max(value);
  if (team.threads == WAVE) return value;
  if (lane_index() == 0) partial_max[wave_index()] = value;
  barrier();
  const int wave = lane_index() % kRowWaves;
  return wave_max<kRowWaves>(wave * WAVE < team.threads ? partial_max[wave] : 0u);
}

/** A gated linear unit of two rows: activation(gate) × up. */
struct GatedRow {
  Row gate;
  Row up;
};

DEVICE Quad read_quad(const GatedRow& row, int quad) {
  const Quad gate = read_quad(row.gate, quad);
  const Quad up = read_quad(row.up, quad);
  Quad result;
#pragma unroll
  for (int i = 0; i < 4; i++) result.at[i] = gated_unit(gate.at[i], up.at[i]);
  return result;
}

struct NormedRow {
  Row row;
  const u8* weights;
  float inverse;
};

DEVICE Quad normed(const Quad& values, const Quad& weights, float inverse) {
  Quad result;
#pragma unroll
  for (int i = 0; i < 4; i++) result.at[i] = values.at[i] * inverse * weights.at[i];
  return result;
}

DEVICE Quad read_quad(const NormedRow& row, int quad) {
  return normed(read_quad(row.row, quad), read_weights(row.weights, row.row.width, quad), row.inverse);
}

template <typename Source>
struct HeldRow {
  Source source;
  Team team;
  int quads;
  Quad held[HELD];
};

template <typename Source>
DEVICE HeldRow<Source> hold_row(const Source& source, const Team& team, int quads) {
  HeldRow<Source> row = {source, team, quads, {}};
#pragma unroll
  for (int sweep = 0; sweep < HELD; sweep++) row.held[sweep] = read_quad(source, sweep * team.threads + team.thread);
  return row;
}

/** use(quad, values) for every quad of this thread. All lanes of a wave come along, also those past the row's end. */
template <typename Source, typename Use>
DEVICE void each_quad(const HeldRow<Source>& row, Use use) {
  const int first = row.team.thread - lane_index();
#pragma unroll
  for (int sweep = 0; sweep < HELD; sweep++) {
    const int wave_first = sweep * row.team.threads + first;
    if (wave_first < row.quads) use(wave_first + lane_index(), row.held[sweep]);
  }
  for (int wave_first = HELD * row.team.threads + first; wave_first < row.quads; wave_first += row.team.threads) {
    const int quad = wave_first + lane_index();
    use(quad, read_quad(row.source, quad));
  }
}

/** A norm's weights, which no kernel writes: read while the row itself is still being made. */
struct HeldWeights {
  const u8* weights;
  Quad held[HELD];
};

DEVICE HeldWeights hold_weights(const u8* weights, int width, const Team& team) {
  HeldWeights result = {weights, {}};
#pragma unroll
  for (int sweep = 0; sweep < HELD; sweep++)
    result.held[sweep] = read_weights(weights, width, sweep * team.threads + team.thread);
  return result;
}

/** What `row` becomes. Its quads may reach past the row: zeros stay zeros. */
DEVICE HeldRow<NormedRow> norm_held(const HeldRow<Row>& row, const HeldWeights& weights, float epsilon) {
  float squares = 0;
  each_quad(row, [&](int, const Quad& values) {
#pragma unroll
    for (int i = 0; i < 4; i++) squares = fma(values.at[i], values.at[i], squares);
  });
  const float inverse = reciprocal_root(team_sum(row.team, squares) / float(row.source.width) + epsilon);
  HeldRow<NormedRow> result = {{row.source, weights.weights, inverse}, row.team, row.quads, {}};
#pragma unroll
  for (int sweep = 0; sweep < HELD; sweep++) result.held[sweep] = normed(row.held[sweep], weights.held[sweep], inverse);
  return result;
}

/** `quads` may reach past the row: zeros stay zeros. */
DEVICE HeldRow<NormedRow> hold_normed(const Row& source, const HeldWeights& weights, float epsilon, const Team& team,
                                      int quads) {
  return norm_held(hold_row(source, team, quads), weights, epsilon);
}
