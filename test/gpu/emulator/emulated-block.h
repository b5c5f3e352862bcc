// What a running block is to the kernel code inside it: the border between compiled kernels (a shared library each, built
// by the test double's run-time compiler) and the runner that gives every thread a fiber of its own. Plain C layout.
#pragma once

struct EmulatedBlock {
  int thread;
  int block[3];
  void* dynamic_shared;
  /** Each gives the processor to the other threads of the block, and comes back when all of them are there. */
  void (*barrier)(EmulatedBlock*);
  void (*wave_barrier)(EmulatedBlock*);
  unsigned (*exchange)(EmulatedBlock*, unsigned value, int source_lane);
};
