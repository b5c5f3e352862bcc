// The order of steps: one thread of the process's own runs them one at a time, as they came, whatever program or
// JavaScript environment they are from. It sleeps when there is nothing to do.

#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>

namespace rocmforge {

class Job {
 public:
  virtual ~Job() = default;
  /// On the runner's thread. Reports its own outcome and does not throw.
  virtual void run() noexcept = 0;
};

class StepQueue {
 public:
  static StepQueue& instance();

  /// Throws `memory` if the runner's thread cannot be started.
  void push(std::shared_ptr<Job> job);

 private:
  StepQueue() = default;
  void serve();

  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<std::shared_ptr<Job>> jobs_;
  bool started_ = false;
};

}  // namespace rocmforge
