// The arguments of a gated delta net, and what its two forms compute alike.
#pragma once
#include "device/softplus.h"
#include "recurrent/columns.h"

struct DeltaNetArguments {
  const StepHead* step;
  const StateRun* runs;
  const int* state_writes;
  u64 state_offset;
  u64 slot_stride;
  const float* input;
  const float* left;
  const float* right;
  const float* decay;
  const float* bias;
  float* out;
  int input_stride;
  int left_stride;
  int right_stride;
  int out_stride;
  /** Tokens of the longest run that is computed token by token; longer ones are those of the launch by groups. */
  int short_run;
  float epsilon;
  float scale;
};

/** 1 ÷ max(norm, epsilon). */
DEVICE float inverse_norm(float squares, float epsilon) {
  return squares > epsilon * epsilon ? reciprocal_root(squares) : 1.0f / epsilon;
}

DEVICE float delta_kept(const DeltaNetArguments& a, int head, float alpha) {
  return decay_factor(a.decay[head] * softplus(alpha + a.bias[head]));
}

DEVICE HeadPlaces delta_places(const DeltaNetArguments& a, int head, int slice) {
  const int key_head = GROUPED ? head / (VALUE_HEADS / KEY_HEADS) : head % KEY_HEADS;
  return {a.input + key_head * HEAD_WIDTH, a.input + (KEY_HEADS + key_head) * HEAD_WIDTH,
          a.input + (2 * KEY_HEADS + head) * HEAD_WIDTH + slice * kBlockColumns, head};
}
