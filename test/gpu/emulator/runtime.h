// All that the library knows: devices, handles, settings, and how a call begins and ends. Handles are numbers of this
// library, each kind from a range of its own, so that a stale or mistaken one is an error and not a crash.
#pragma once
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>
#include "capture.h"
#include "grid-runner.h"
#include "memory.h"
#include "module.h"
#include "settings.h"
#include "status.h"
#include "stream.h"

#define EMULATOR_EXPORT extern "C" __attribute__((visibility("default")))

namespace emulator {

struct Device {
  int index;
  bool integrated;
  std::string name;
  /** As hipDeviceProp_t has it, with the features that some cards append. */
  std::string architecture_name;
  std::string architecture;
  int wave_size;
  size_t memory_bytes;
  /** Once it has failed it stays so, as a real one does. */
  std::atomic<Status> fault{kSuccess};

  void fail(Status status, const std::string& message);
  /** Fails the device if something has been written beside an allocation. */
  void check_memory(size_t most_allocations, const char* suspect);
  /** At the end of a call that waits: what has become of the work. */
  Status outcome();

  /** Keeps what lies there now, before a copy from the host overwrites it. */
  void remember(void* address, size_t size_bytes);
  /** Puts that back, and keeps what was there instead; the same again undoes it. */
  void exchange_remembered();

 private:
  std::mutex remembered_mutex_;
  char* remembered_at_ = nullptr;
  std::vector<char> remembered_;
};

template <typename Kind>
class Handles {
 public:
  explicit Handles(uintptr_t range) : next_((range << 32) + 64) {}

  void* add(std::shared_ptr<Kind> object) {
    const std::lock_guard<std::mutex> lock(mutex_);
    next_ += 64;
    objects_[next_] = std::move(object);
    return reinterpret_cast<void*>(next_);
  }
  std::shared_ptr<Kind> find(const void* handle) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = objects_.find(reinterpret_cast<uintptr_t>(handle));
    return found == objects_.end() ? nullptr : found->second;
  }
  std::shared_ptr<Kind> take(const void* handle) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = objects_.find(reinterpret_cast<uintptr_t>(handle));
    if (found == objects_.end()) return nullptr;
    const std::shared_ptr<Kind> object = std::move(found->second);
    objects_.erase(found);
    return object;
  }
  std::vector<std::shared_ptr<Kind>> all() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::vector<std::shared_ptr<Kind>> objects;
    for (const auto& entry : objects_) objects.push_back(entry.second);
    return objects;
  }
  size_t count() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return objects_.size();
  }
  void clear() {
    const std::lock_guard<std::mutex> lock(mutex_);
    objects_.clear();
  }

 private:
  mutable std::mutex mutex_;
  uintptr_t next_;
  std::map<uintptr_t, std::shared_ptr<Kind>> objects_;
};

struct Runtime {
  Runtime();

  void reset();
  /** What stands in the way of a call of that name: a failure asked for, or the lack of any device. */
  Status enter(const char* call, bool needs_device);
  void report(const std::string& message);
  std::string last_message();
  Device& current_device();
  /** The stream of a handle; null is the device's own. */
  std::shared_ptr<Stream> stream(const void* handle);
  void synchronize(const Device& device);
  /** Made when the first module is loaded: a process that only compiles needs none. */
  GridRunner& grids();

  Settings settings;
  std::vector<std::unique_ptr<Device>> devices;
  Memory memory;
  RegisteredRanges registered;
  Handles<Stream> streams{0x51};
  Handles<Event> events{0x52};
  Handles<Module> modules{0x53};
  Handles<Kernel> kernels{0x54};
  Handles<Graph> recordings{0x55};
  Handles<Graph> graphs{0x56};
  std::atomic<unsigned long> launches{0};

  /** Of captures: who captures, and what has been captured. */
  std::mutex capture_mutex;
  std::vector<std::shared_ptr<Capture>> captures;

 private:
  std::mutex mutex_;
  std::map<std::string, unsigned long> calls_;
  std::string message_;
  std::map<int, std::shared_ptr<Stream>> own_streams_;
  std::unique_ptr<GridRunner> grids_;
};

/** Made at the first call and never destroyed: threads may still use it while the process ends. */
Runtime& runtime();

extern thread_local int current_device_index;
extern thread_local int last_error;

enum class Needs { nothing, device };

/** Every function of the library is one of these. Calls that only wait give kNotReady, which is no error. */
template <typename Body>
int hip_call(const char* name, Needs needs, Body body) {
  Runtime& known = runtime();
  Status status = known.enter(name, needs == Needs::device);
  if (status == kSuccess) status = body(known);
  if (status != kSuccess && status != kNotReady) last_error = status;
  return status;
}

}  // namespace emulator
