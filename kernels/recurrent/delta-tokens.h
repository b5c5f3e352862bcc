// A gated delta net token by token (recurrent/delta-net.hip says what it computes), for decoding and for steps whose bits
// must not depend on how a sequence is cut into runs. Both products of a token are with the S before it, so that they are
// added up together: Sᵀq after it is exp(g) × Sᵀq before it + (k · q) × d.
#pragma once
#include "recurrent/delta-arguments.h"
#include "recurrent/run.h"

struct DeltaNet {
  static constexpr bool kPrepares = true;

  DEVICE Gates gates(const DeltaNetArguments& a, int head, float alpha, float beta) {
    return {delta_kept(a, head, alpha), sigmoid(beta), 0};
  }

  /** Norms the query and the key of a token; −1: the lanes of no token come along. */
  DEVICE void prepare(const DeltaNetArguments& a, Chunk& chunk, int token) {
    constexpr int Held = (kPaddedLines + kTokenLanes - 1) / kTokenLanes;
    const int lane = thread_index() % kTokenLanes;
    float query[Held], key[Held];
    float query_squares = 0, key_squares = 0, overlap = 0;
#pragma unroll
    for (int i = 0; i < Held; i++) {
      const int line = i * kTokenLanes + lane;
      const bool inside = token >= 0 && line < kPaddedLines;
      query[i] = inside ? chunk.first[token][line] : 0.0f;
      key[i] = inside ? chunk.second[token][line] : 0.0f;
      query_squares = fma(query[i], query[i], query_squares);
      key_squares = fma(key[i], key[i], key_squares);
    }
    const float query_inverse = inverse_norm(wave_sum<kTokenLanes>(query_squares), a.epsilon);
    const float key_inverse = inverse_norm(wave_sum<kTokenLanes>(key_squares), a.epsilon);
#pragma unroll
    for (int i = 0; i < Held; i++) {
      query[i] *= query_inverse;
      key[i] *= key_inverse;
      overlap = fma(query[i], key[i], overlap);
    }
    overlap = wave_sum<kTokenLanes>(overlap);
    if (token < 0) return;
#pragma unroll
    for (int i = 0; i < Held; i++) {
      const int line = i * kTokenLanes + lane;
      if (line >= kPaddedLines) continue;
      chunk.first[token][line] = query[i];
      chunk.second[token][line] = key[i];
    }
    if (lane == 0) chunk.gates[token].overlap = overlap;
  }

  DEVICE void apply(const DeltaNetArguments& a, int, HeldColumns& held, const Chunk& chunk, int token,
                    float (&out)[kLaneColumns]) {
    const HeldLines query = held_lines(chunk.first[token]), key = held_lines(chunk.second[token]);
    const Gates gates = chunk.gates[token];
    float recalled[kLaneColumns] = {}, read[kLaneColumns] = {}, difference[kLaneColumns];
    add_dots(held, key, recalled);
    add_dots(held, query, read);
#pragma unroll
    for (int c = 0; c < kLaneColumns; c++) {
      recalled[c] = wave_sum<kColumnLanes>(recalled[c]);
      read[c] = wave_sum<kColumnLanes>(read[c]);
      difference[c] = gates.rate * fma(-gates.kept, recalled[c], chunk.values[token][first_column() + c]);
      out[c] = fma(gates.overlap, difference[c], gates.kept * read[c]) * a.scale;
    }
    update_columns(held, gates.kept, key, difference);
  }
};
