// The process's computing threads: grown to the largest team that was asked for, asleep when no step runs, never ended.
// One team works at a time; the thread that calls `run` is its first member. Threads stay on the processors
// that were chosen for all of them.

#pragma once

#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <type_traits>
#include <vector>

#include "team.h"

namespace rocmforge {

class ThreadPool {
 public:
  /// Lives as long as the process, because its threads do.
  static ThreadPool& instance();

  /// Calls work(member) on this thread and on up to threads - 1 others, and returns when all of them have come back.
  /// Those who are late find nothing to join. Only one thread calls this at a time.
  template <typename Work>
  void run(size_t threads, Work&& work) {
    run_erased(
        threads, [](void* context, Member& member) { (*static_cast<std::remove_reference_t<Work>*>(context))(member); },
        &work);
  }

 private:
  using Entry = void (*)(void* context, Member& member);
  struct Worker {
    std::condition_variable called;
    uint64_t seen_call = 0;
  };

  ThreadPool() = default;
  void run_erased(size_t threads, Entry entry, void* context);
  void grow(size_t workers);
  void serve(size_t index);
  void call(size_t first, size_t end);

  std::mutex mutex_;
  std::condition_variable left_;
  std::vector<std::unique_ptr<Worker>> workers_;
  Team team_;
  Entry entry_ = nullptr;
  void* context_ = nullptr;
  uint64_t call_ = 0;
  size_t wanted_ = 0;
  size_t active_ = 0;
  bool open_ = false;
};

}  // namespace rocmforge
