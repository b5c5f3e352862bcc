// Runs one block of a kernel on this thread, every thread of the block as a fiber. Lanes of a wave run in turn from one
// meeting point to the next, so shuffles and barriers behave as on a device, and lanes that part company are found.
#pragma once
#include <cstddef>
#include <memory>
#include "emulated-block.h"

namespace emulator {

using KernelEntry = void (*)(EmulatedBlock*, const void* argument);

struct BlockLaunch {
  KernelEntry entry;
  const void* argument;
  int block[3];
  int threads;
  int wave_size;
  /** Dynamic shared memory. */
  size_t shared_bytes;
  /** The module's own shared memory, which a block finds filled with what others left. */
  char* module_shared;
  size_t module_shared_bytes;
};

struct BlockOrder {
  /** The last wave and lane first: code that leans on the order of threads then shows. */
  bool reverse;
  /** Lanes of a wave must meet at the same call, reached through the same calls. Needs kernels with frame pointers. */
  bool same_place;
};

/** Keeps stacks and shared memory between blocks; one for each host thread. */
class BlockRunner {
 public:
  BlockRunner();
  ~BlockRunner();
  BlockRunner(const BlockRunner&) = delete;
  BlockRunner& operator=(const BlockRunner&) = delete;

  /** Null, or what the kernel did that a device would not forgive. A fault may leave it by a jump: all state is made
   *  anew by the next call. */
  const char* run(const BlockLaunch& launch, BlockOrder order);
  bool on_stack_guard(const void* address) const;
  /** Of the block: the one that ran last, which is the one that faulted. */
  int thread() const;

 private:
  struct Fibers;
  std::unique_ptr<Fibers> fibers_;
};

}  // namespace emulator
