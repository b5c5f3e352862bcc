// What a step brings along, at the head of the step buffer: the host writes it before each run, so that a captured
// graph never changes. The arrays that follow it in the buffer have pointers of their own in the kernels' arguments:
//   tokens[t], positions[t], sequences[t]     id, position and sequence of each token
//   cells[t]                                  its own place in the cache: block × block tokens + offset
//   table_starts[s], tables[…]                the block of position p: tables[table_starts[s] + p / block tokens]
//   outputs[o], scored[r]                     the token row of each output, the output of each scored row
//   tiles[i] = { first token, count, sequence }   runs of neighbouring tokens of one sequence, for tiled attention
//   runs[s], state_writes[t]                  of programs with recurrent states: recurrent/state.h
#pragma once

struct StepHead {
  int tokens;
  int sequences;
  int outputs;
  int scored;
  int tiles;
  /** Blocks that the KV cache has: with it kernels find a layer in whatever cache the step runs on. */
  int cache_blocks;
  int unused[2];
  /** Address of the KV cache. */
  u64 cache;
  /** Address of the recurrent states, slot after slot. */
  u64 states;
};

/**
 * Positions that one block of split attention looks at; splits begin at multiples of it, or at the first position that a
 * token attends to, whatever the batch.
 */
constexpr int kSplitPositions = 128;
