// The runner lives as long as the process, and so does the library that holds its code.

#include "step-queue.h"

#include <thread>
#include <utility>

#include "blocked-signals.h"
#include "error.h"
#include "loaded-library.h"
#include "placement.h"

namespace rocmforge {

StepQueue& StepQueue::instance() {
  static StepQueue* const queue = new StepQueue();
  return *queue;
}

void StepQueue::push(std::shared_ptr<Job> job) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!started_) {
    keep_library_loaded();
    const BlockedSignals blocked;
    try {
      std::thread([this] { serve(); }).detach();
    } catch (...) {
      throw EngineError{ErrorCode::memory, "step: no thread can be started", 0};
    }
    started_ = true;
  }
  jobs_.push_back(std::move(job));
  arrived_.notify_one();
}

void StepQueue::serve() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    while (jobs_.empty()) arrived_.wait(lock);
    std::shared_ptr<Job> job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    take_place();
    job->run();
    job.reset();
    lock.lock();
  }
}

}  // namespace rocmforge
