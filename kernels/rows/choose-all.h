// Draws a token from the whole distribution, by id: the sums of chunks say which chunk, and only its logits are read.
#pragma once
#include "rows/choose-shared.h"

/** A chunk's part of the row's weight. */
DEVICE u64 chunk_weight(const ScoreChunk& chunk, float highest, const Scale& scale) {
  if (chunk.choice_order == 0) return 0;
  return weight_units(chunk.choice_sum * scaled_exponential(float_of_order(chunk.choice_order) - highest, scale));
}

/** The column of the token, or −1 if none has a weight. */
DEVICE int draw_from_all(ChooseShared& shared, const ChoiceRow& choice, float highest, const Scale& scale,
                         double draw) {
  u64 goal = 0;
  const Located chunk = locate(
      shared, choice.chunks, [&](int index) { return chunk_weight(choice.scores[index], highest, scale); },
      [&](u64 total) { return goal = goal_passing(draw, total); });
  // Its logits by weights of their own, because rounding may have left them none of the row's.
  const ScoreChunk scored = choice.scores[chunk.index];
  const double part = double(goal - chunk.before - 1) / double(max(u64(1), chunk_weight(scored, highest, scale)));
  const int quad = chunk.index * kChunkLanes + thread_index();
  const Quad logits = thread_index() < kChunkLanes ? read_quad(choice.row, quad) : Quad{{0, 0, 0, 0}};
  u64 weights[4] = {0, 0, 0, 0};
#pragma unroll
  for (int i = 0; i < 4; i++) {
    if (thread_index() < kChunkLanes && quad * 4 + i < choice.row.width)
      weights[i] = token_weight(logits.at[i], float_of_order(scored.choice_order), scale);
  }
  u64 total;
  const u64 sum = weights[0] + weights[1] + weights[2] + weights[3];
  u64 before = block_prefix<kChooseThreads>(sum, shared.scratch, total);
  goal = goal_passing(part, total);
  if (thread_index() == 0) shared.found = -1;
  barrier();
  if (before < goal && goal <= before + sum) {
    int i = 0;
    for (; before + weights[i] < goal; i++) before += weights[i];
    shared.found = quad * 4 + i;
  }
  barrier();
  return shared.found;
}
