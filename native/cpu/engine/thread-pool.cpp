// Workers sleep on a condition variable of their own and wake each other in a tree, so that calling a large team takes
// few system calls in a row. Joining and closing happen under one lock: a late worker cannot touch a step that is over.

#include "thread-pool.h"

#include <algorithm>
#include <thread>

#include "blocked-signals.h"
#include "bus-fault.h"
#include "placement.h"

namespace rocmforge {

namespace {

/// Workers that each caller wakes by itself.
constexpr size_t kCallsEach = 8;

}  // namespace

ThreadPool& ThreadPool::instance() {
  static ThreadPool* const pool = new ThreadPool();
  return *pool;
}

void ThreadPool::grow(size_t workers) {
  if (workers_.size() >= workers) return;
  const BlockedSignals blocked;
  while (workers_.size() < workers) {
    const size_t index = workers_.size();
    try {
      workers_.push_back(std::make_unique<Worker>());
      workers_.back()->seen_call = call_;
      std::thread([this, index] { serve(index); }).detach();
    } catch (...) {
      // Fewer threads than asked for: the threads that exist share the work.
      workers_.resize(index);
      return;
    }
  }
}

void ThreadPool::call(size_t first, size_t end) {
  for (size_t index = first; index < std::min(end, wanted_); index++) workers_[index]->called.notify_one();
}

void ThreadPool::run_erased(size_t threads, Entry entry, void* context) {
  team_.reset(threads);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    grow(threads - 1);
    entry_ = entry;
    context_ = context;
    wanted_ = std::min(threads - 1, workers_.size());
    call_++;
    open_ = true;
    call(0, kCallsEach);
  }
  Member member(team_, 0);
  {
    const BusFaultGuard guard;
    entry(context, member);
  }
  std::unique_lock<std::mutex> lock(mutex_);
  open_ = false;
  while (active_ > 0) left_.wait(lock);
}

void ThreadPool::serve(size_t index) {
  std::unique_lock<std::mutex> lock(mutex_);
  Worker& self = *workers_[index];
  for (;;) {
    while (!(open_ && index < wanted_ && self.seen_call != call_)) self.called.wait(lock);
    self.seen_call = call_;
    active_++;
    call((index + 1) * kCallsEach, (index + 2) * kCallsEach);
    const Entry entry = entry_;
    void* const context = context_;
    lock.unlock();
    Member member(team_, index + 1);
    take_place();
    {
      const BusFaultGuard guard;
      entry(context, member);
    }
    lock.lock();
    if (--active_ == 0) left_.notify_one();
  }
}

}  // namespace rocmforge
