// What the two teams of attention/wide-flash.hip tell each other, thread by thread: both have the same rows, and a thread of one
// what the thread of the other needs. A place is written again only when the other thread has read it and has written its own.
#pragma once
#include "attention/flash-tile.h"

/** The weights of a tile of positions, and the highest scores up to it. */
struct Exchange {
  Words4 weights[kPositionTiles][kTeamThreads];
  FloatPair highest[kTeamThreads];
};

/** Sums of weights, of each team over its own tiles. */
struct Totals {
  FloatPair of[2][kTeamThreads];
};

DEVICE int own_place() { return thread_index() % kTeamThreads; }

DEVICE void pass_weights(Exchange& exchange, const Fragment (&weights)[kPositionTiles], const float (&highest)[2]) {
#pragma unroll
  for (int tile = 0; tile < kPositionTiles; tile++) {
    const u32* const words = weights[tile].words;
    exchange.weights[tile][own_place()] = {words[0], words[1], words[2], words[3]};
  }
  exchange.highest[own_place()] = {{highest[0], highest[1]}};
}

DEVICE void take_weights(const Exchange& exchange, Fragment (&weights)[kPositionTiles], float (&highest)[2]) {
#pragma unroll
  for (int tile = 0; tile < kPositionTiles; tile++) {
    const Words4 words = exchange.weights[tile][own_place()];
    weights[tile] = {{words.x, words.y, words.z, words.w}};
  }
  const FloatPair pair = exchange.highest[own_place()];
  highest[0] = pair.of[0];
  highest[1] = pair.of[1];
}

DEVICE void pass_totals(Totals& totals, int team, const float (&total)[2]) {
  totals.of[team][own_place()] = {{total[0], total[1]}};
}

DEVICE void add_totals(const Totals& totals, int team, float (&total)[2]) {
  const FloatPair pair = totals.of[team][own_place()];
  total[0] += pair.of[0];
  total[1] += pair.of[1];
}
