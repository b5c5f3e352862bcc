// A thread compares one number each time it works, and calls the system only if the choice has changed.

#include "placement.h"

#include <atomic>
#include <cstdint>
#include <mutex>

#if defined(__linux__)
#include <sched.h>
#endif

namespace rocmforge {

#if defined(__linux__)

namespace {

std::mutex mutex;
/// Of the thread that confined first: what the process itself was given.
cpu_set_t own;
bool knows_own = false;
cpu_set_t chosen;
/// Counts choices; 0: none was made, and threads stay where they began.
std::atomic<uint64_t> choice{0};
thread_local uint64_t taken = 0;

}  // namespace

void confine_threads(const std::vector<size_t>& processors) {
  const std::lock_guard<std::mutex> lock(mutex);
  if (processors.empty() && choice.load(std::memory_order_relaxed) == 0) return;
  if (!knows_own) knows_own = sched_getaffinity(0, sizeof(own), &own) == 0;
  if (!knows_own) return;
  cpu_set_t wanted;
  CPU_ZERO(&wanted);
  for (const size_t processor : processors) {
    if (processor < CPU_SETSIZE && CPU_ISSET(processor, &own)) CPU_SET(processor, &wanted);
  }
  // Processors that the process may not use are no choice.
  chosen = CPU_COUNT(&wanted) > 0 ? wanted : own;
  choice.fetch_add(1, std::memory_order_release);
}

void take_place() {
  if (choice.load(std::memory_order_acquire) == taken) return;
  const std::lock_guard<std::mutex> lock(mutex);
  taken = choice.load(std::memory_order_relaxed);
  // A refusal leaves the thread where it is, which is slower at worst.
  static_cast<void>(sched_setaffinity(0, sizeof(chosen), &chosen));
}

#else

void confine_threads(const std::vector<size_t>&) {}
void take_place() {}

#endif

}  // namespace rocmforge
