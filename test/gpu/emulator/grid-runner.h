// Runs all blocks of a launch. The thread that asks runs them itself, and where there is enough to do the helpers join;
// each host thread takes a slot while it runs blocks: stacks of its own and its own copy of the module.
#pragma once
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>
#include "block-runner.h"
#include "memory.h"
#include "module.h"

namespace emulator {

struct GridLaunch {
  const Kernel* kernel;
  uint32_t grid[3];
  size_t shared_bytes;
  const void* argument;
};

struct GridFailure {
  /** kSuccess: there was none. */
  Status status = kSuccess;
  std::string message;
};

class GridRunner {
 public:
  GridRunner(int threads, bool reverse, bool strict, const Memory& memory);
  ~GridRunner();

  GridFailure run(const GridLaunch& launch);

 private:
  struct Grid;

  void help();
  void work(Grid& grid, int slot);
  std::string explain(const struct Fault& fault, int slot) const;

  const bool reverse_, strict_;
  const Memory& memory_;
  std::vector<std::unique_ptr<BlockRunner>> slots_;
  std::vector<std::thread> helpers_;
  std::mutex mutex_;
  /** A slot has become free, a grid has been opened or has lost a helper, or all is over. */
  std::condition_variable changed_;
  std::vector<int> free_slots_;
  std::deque<Grid*> open_;
  bool ending_ = false;
};

}  // namespace emulator
