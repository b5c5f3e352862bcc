// Streams and events: a stream is a queue with a thread of its own, so that work is asynchronous for real and only what
// the program ordered is in order. While a stream is captured its work goes to the capture instead (capture.h).
#pragma once
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

namespace emulator {

struct Capture;
struct Device;
struct Stream;

/** Something a stream does. Shared, because a graph does it many times. */
class Work {
 public:
  virtual ~Work() = default;
  virtual void run(Device& device) const = 0;
  /** Others wait for it: it runs although the device has failed. */
  virtual bool must_run() const { return false; }
};

/** How much of each captured stream a point of a capture comes after. */
using Clock = std::map<const Stream*, size_t>;

struct Stream {
  explicit Stream(Device& owner) : device(owner) {}
  ~Stream();

  void push(std::shared_ptr<const Work> work);
  /** Until all that was pushed has run. */
  void drain();

  Device& device;

  // Of a capture; guarded by the runtime's mutex.
  std::shared_ptr<Capture> capture;
  Clock clock;

 private:
  void serve();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<const Work>> queue_;
  bool busy_ = false;
  bool ending_ = false;
  std::thread thread_;
};

struct Event {
  Event(Device& owner, bool is_timed) : device(owner), timed(is_timed) {}

  /** Numbers the record; it is done when `finish` has been called with that number or a later one. */
  uint64_t start();
  void finish(uint64_t record);
  uint64_t last_record() const;
  bool is_done(uint64_t record) const;
  void wait(uint64_t record) const;
  std::chrono::steady_clock::time_point time() const;

  Device& device;
  const bool timed;

  // Recorded last in a capture; guarded by the runtime's mutex.
  std::shared_ptr<Capture> capture;
  Clock clock;

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  uint64_t started_ = 0, finished_ = 0;
  std::chrono::steady_clock::time_point time_;
};

}  // namespace emulator
