// See grid-runner.h.
#include "grid-runner.h"
#include <signal.h>
#include <algorithm>
#include <atomic>
#include <cstdio>
#include "fault-guard.h"

namespace emulator {
namespace {

/** Below this many threads, waking a helper costs more than it brings. */
constexpr uint64_t kSharedThreads = 2048;

}  // namespace

struct GridRunner::Grid {
  const GridLaunch& launch;
  const uint64_t blocks;
  std::atomic<uint64_t> next{0};
  std::atomic<bool> stopped{false};
  int helpers = 0;
  GridFailure failure{};
};

GridRunner::GridRunner(int threads, bool reverse, bool strict, const Memory& memory)
    : reverse_(reverse), strict_(strict), memory_(memory) {
  for (int slot = 0; slot < threads; slot++) {
    slots_.push_back(std::make_unique<BlockRunner>());
    free_slots_.push_back(slot);
  }
  for (int helper = 1; helper < threads; helper++) helpers_.emplace_back([this] { help(); });
}

GridRunner::~GridRunner() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  for (std::thread& helper : helpers_) helper.join();
}

void GridRunner::help() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return ending_ || (!open_.empty() && !free_slots_.empty()); });
    if (ending_) return;
    Grid& grid = *open_.front();
    if (grid.next >= grid.blocks) {
      open_.pop_front();
      continue;
    }
    const int slot = free_slots_.back();
    free_slots_.pop_back();
    grid.helpers++;
    lock.unlock();
    work(grid, slot);
    lock.lock();
    free_slots_.push_back(slot);
    grid.helpers--;
    changed_.notify_all();
  }
}

GridFailure GridRunner::run(const GridLaunch& launch) {
  Grid grid{launch, uint64_t(launch.grid[0]) * launch.grid[1] * launch.grid[2]};
  const bool is_shared = !helpers_.empty() && grid.blocks > 1 && grid.blocks * launch.kernel->threads >= kSharedThreads;
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return !free_slots_.empty(); });
  const int slot = free_slots_.back();
  free_slots_.pop_back();
  if (is_shared) open_.push_back(&grid);
  lock.unlock();
  if (is_shared) changed_.notify_all();
  work(grid, slot);
  lock.lock();
  if (is_shared) {
    open_.erase(std::remove(open_.begin(), open_.end(), &grid), open_.end());
    changed_.wait(lock, [&grid] { return grid.helpers == 0; });
  }
  free_slots_.push_back(slot);
  const bool is_wanted = !open_.empty() || free_slots_.size() == 1;
  lock.unlock();
  if (is_wanted) changed_.notify_all();
  return grid.failure;
}

void GridRunner::work(Grid& grid, int slot) {
  BlockRunner& runner = *slots_[size_t(slot)];
  const GridLaunch& launch = grid.launch;
  const Kernel& kernel = *launch.kernel;
  const ModuleCopy& copy = kernel.module->copies[size_t(slot)];
  const BlockOrder order{reverse_, strict_ && kernel.module->has_frames};
  BlockLaunch block{kernel.entries[size_t(slot)], launch.argument,     {0, 0, 0},   int(kernel.threads),
                    kernel.module->wave_size,     launch.shared_bytes, copy.shared, copy.shared_bytes};
  const char* problem = nullptr;
  Fault fault{};
  const bool came_through = guarded(
      [&] {
        while (!grid.stopped.load(std::memory_order_relaxed) && problem == nullptr) {
          const uint64_t turn = grid.next.fetch_add(1, std::memory_order_relaxed);
          if (turn >= grid.blocks) return;
          const uint64_t index = reverse_ ? grid.blocks - 1 - turn : turn;
          block.block[0] = int(index % launch.grid[0]);
          block.block[1] = int(index / launch.grid[0] % launch.grid[1]);
          block.block[2] = int(index / launch.grid[0] / launch.grid[1]);
          problem = runner.run(block, order);
        }
      },
      &fault);
  if (came_through && problem == nullptr) return;
  char place[128];
  snprintf(place, sizeof place, "block (%d, %d, %d), thread %d", block.block[0], block.block[1], block.block[2],
           runner.thread());
  const std::string message =
      "kernel " + kernel.name + ", " + place + ": " + (came_through ? problem : explain(fault, slot));
  const bool is_address = !came_through && (fault.signal == SIGSEGV || fault.signal == SIGBUS);
  const std::lock_guard<std::mutex> lock(mutex_);
  grid.stopped = true;
  if (grid.failure.status == kSuccess) grid.failure = {is_address ? kIllegalAddress : kLaunchFailure, message};
}

std::string GridRunner::explain(const Fault& fault, int slot) const {
  if (fault.signal == SIGFPE) return "an integer was divided by zero";
  if (fault.signal == SIGILL || fault.signal == SIGTRAP)
    return "a wide load was not aligned, or code ran that must not";
  if (slots_[size_t(slot)]->on_stack_guard(fault.address)) return "its stack is full: 256 KiB for each thread";
  if (fault.address == nullptr) return "an access to address 0, or one that was not aligned";
  return (fault.write ? "wrote to " : "read from ") + memory_.describe(fault.address);
}

}  // namespace emulator
