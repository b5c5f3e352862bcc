// Gated delta net: for each value head with its key head, S the state's matrix [key column × value column],
//   S ← exp(g) × S,   d = σ(beta) × (v − Sᵀk),   S ← S + k ⊗ d,   out = Sᵀq ÷ √HEAD_WIDTH
// with k and q divided by max(‖·‖, epsilon) and g = decay × softplus(alpha + bias). A block has columns of S for all tokens
// of a sequence (recurrent/columns.h). Two forms: token by token (recurrent/delta-tokens.h), and for long runs by groups of
// 8 tokens (recurrent/delta-groups.h), whose sums have another order. A step with runs of both kinds launches both.
// HEAD_WIDTH, KEY_HEADS, VALUE_HEADS. GROUPED 1: neighbouring value heads share a key head; 0: value head h has key head
// h mod KEY_HEADS. SLICE, COLUMN_LANES: recurrent/columns.h. CHUNK, ALIGNED: recurrent/run.h. TOKEN_GROUPS 1: by groups,
// with COLUMN_LANES 16, SLICE 32, ALIGNED 1 and a HEAD_WIDTH of 64 or 128.
// Grid: VALUE_HEADS × slices of columns, × one for each sequence there may be.
//
// v1  token by token: two columns in 8 lanes. H200, 32 heads of 128, 4,096 tokens: 2,737 µs (1,200 cycles a token, of which
//     products and sums would take 130: each token waits for its shuffles, then for the next one's rows); 64 sequences that
//     decode: 85 µs, one: 3.7 µs.
// v2  by groups of 8 tokens for runs of 32 and more; what tokens have to do with each other is computed by other waves.
//     4,096 tokens: 1,274 µs; 450 to 650 were expected (delta-groups.h says from what). What the rest waits for is not
//     known. On AMD (not measured) 207 to 213 registers, none spilled, and 48 bytes of scratch (clang 22).
#define LINES HEAD_WIDTH
#define COLUMNS HEAD_WIDTH
#ifndef TOKEN_GROUPS
#define TOKEN_GROUPS 0
#endif
// A header that both forms include comes before them: its text is put at the first place alone.
#include "device/async-copy.h"
#include "recurrent/delta-arguments.h"
#if TOKEN_GROUPS
#include "recurrent/delta-groups.h"

KERNEL(delta_net_groups, DeltaNetArguments, kGroupThreads) {
  dependency_release();
  const int sequence = block_y(), head = block_x() / kSlices, slice = block_x() % kSlices;
  if (sequence >= a.step->sequences) return;
  const StateRun run = a.runs[sequence];
  // A launch that waited for nothing would let the next one overtake those before it.
  if (run.count <= a.short_run) return dependency_wait();
  const float* const matrix = run.read < 0 ? nullptr : state_in(a, run.read) + head * (kMatrixLines * kMatrixColumns);
  HeldColumns held = {};
  if (applies()) held = load_columns(matrix, slice);
  dependency_wait();
  run_groups(a, run, delta_places(a, head, slice), held);
}
#else
#include "recurrent/delta-tokens.h"

KERNEL(delta_net, DeltaNetArguments, kThreads) {
  dependency_release();
  const int sequence = block_y(), head = block_x() / kSlices, slice = block_x() % kSlices;
  if (sequence >= a.step->sequences) return;
  const StateRun run = a.runs[sequence];
  if (run.count > a.short_run) return dependency_wait();
  const float* const matrix = run.read < 0 ? nullptr : state_in(a, run.read) + head * (kMatrixLines * kMatrixColumns);
  HeldColumns held = load_columns(matrix, slice);
  dependency_wait();
  run_tokens<DeltaNet>(a, run, delta_places(a, head, slice), held);
}
#endif
