// See stream.h.
#include "stream.h"
#include "runtime.h"

namespace emulator {

Stream::~Stream() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Stream::push(std::shared_ptr<const Work> work) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    queue_.push_back(std::move(work));
    if (!thread_.joinable()) thread_ = std::thread([this] { serve(); });
  }
  changed_.notify_all();
}

void Stream::drain() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return queue_.empty() && !busy_; });
}

void Stream::serve() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return ending_ || !queue_.empty(); });
    if (queue_.empty()) return;
    const std::shared_ptr<const Work> work = std::move(queue_.front());
    queue_.pop_front();
    busy_ = true;
    lock.unlock();
    if (device.fault == kSuccess || work->must_run()) work->run(device);
    lock.lock();
    busy_ = false;
    if (queue_.empty()) changed_.notify_all();
  }
}

uint64_t Event::start() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return ++started_;
}

void Event::finish(uint64_t record) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (record > finished_) finished_ = record;
    time_ = std::chrono::steady_clock::now();
  }
  changed_.notify_all();
}

uint64_t Event::last_record() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return started_;
}

bool Event::is_done(uint64_t record) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return finished_ >= record;
}

void Event::wait(uint64_t record) const {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [&] { return finished_ >= record; });
}

std::chrono::steady_clock::time_point Event::time() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return time_;
}

}  // namespace emulator
