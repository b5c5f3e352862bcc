// Recurrent states of a step. Each sequence of the step is a run of neighbouring tokens, which begins with the state that
// lies in one slot, or with zeros, and leaves its state after some of its tokens in other slots or in the same one.
//   runs[s] = { first token, count, slot, rewriting token }   the slot is −1 for zeros; a token that writes the slot which
//                                                             its run reads is the rewriting one, −1 if there is none
//   state_writes[t]                                           the slot that gets the state after token t, or −1
// No other run reads a slot that is written. Slots are slot_stride floats apart, and a state begins at state_offset.
// A state may be read before dependency_wait(): only the launches of its own operation write it, those of the step before
// have ended, and another one of this step has other runs.
#pragma once
#include "device/portable.h"
#include "device/step.h"

struct StateRun {
  int first;
  int count;
  int read;
  int rewriting;
};

/** A state in a slot; `Arguments` has step, state_offset and slot_stride. */
template <typename Arguments>
DEVICE float* state_in(const Arguments& a, int slot) {
  return global_pointer<float>(a.step->states) + u64(slot) * a.slot_stride + a.state_offset;
}

/** Element of a vector of the model, whose type is 0 (F32), 1 (F16) or 30 (BF16). */
template <int Type>
DEVICE float element_of(const u8* vector, int index) {
  if (Type == 0) return reinterpret_cast<const float*>(vector)[index];
  const u16 bits = reinterpret_cast<const u16*>(vector)[index];
  return Type == 1 ? half_to_float(bits) : bfloat_to_float(bits);
}

/**
 * eˣ of x ≤ 0. Near 0, where a state remembers thousands of tokens and an error of the factor would come again with each
 * of them, it is rounded once.
 */
DEVICE float decay_factor(float exponent) {
  if (!(exponent > -0.25f)) return exponential(exponent);
  float series = fma(exponent, 1.0f / 5040.0f, 1.0f / 720.0f);
  series = fma(exponent, series, 1.0f / 120.0f);
  series = fma(exponent, series, 1.0f / 24.0f);
  series = fma(exponent, series, 1.0f / 6.0f);
  series = fma(exponent, series, 0.5f);
  series = fma(exponent, series, 1.0f);
  return fma(exponent, series, 1.0f);
}
