// See runtime.h.
#include "runtime.h"
#include <algorithm>
#include <cstdio>

namespace emulator {

thread_local int current_device_index = 0;
thread_local int last_error = kSuccess;

Runtime& runtime() {
  static Runtime& only = *new Runtime();
  return only;
}

void Device::fail(Status status, const std::string& message) {
  Status none = kSuccess;
  // What goes wrong on a device that has failed is a consequence.
  if (fault.compare_exchange_strong(none, status)) runtime().report(message);
}

void Device::check_memory(size_t most_allocations, const char* suspect) {
  const std::string damage = runtime().memory.damage(most_allocations);
  if (!damage.empty()) fail(kIllegalAddress, std::string(suspect) + " " + damage);
}

Status Device::outcome() {
  check_memory(SIZE_MAX, "a kernel");
  return fault;
}

void Device::remember(void* address, size_t size_bytes) {
  const std::lock_guard<std::mutex> lock(remembered_mutex_);
  remembered_at_ = static_cast<char*>(address);
  remembered_.assign(remembered_at_, remembered_at_ + size_bytes);
}

void Device::exchange_remembered() {
  const std::lock_guard<std::mutex> lock(remembered_mutex_);
  std::swap_ranges(remembered_.begin(), remembered_.end(), remembered_at_);
}

Runtime::Runtime() { reset(); }

void Runtime::reset() {
  // Queues are emptied before what their work uses goes.
  for (const std::shared_ptr<Stream>& stream : streams.all()) stream->drain();
  for (const auto& own : own_streams_) own.second->drain();
  {
    const std::lock_guard<std::mutex> lock(capture_mutex);
    while (!captures.empty()) abandon_capture(*this, captures.back());
  }
  graphs.clear();
  recordings.clear();
  kernels.clear();
  modules.clear();
  events.clear();
  streams.clear();
  own_streams_.clear();
  memory.release_all();
  registered.clear();
  grids_.reset();
  devices.clear();
  launches = 0;

  const std::lock_guard<std::mutex> lock(mutex_);
  calls_.clear();
  message_.clear();
  settings = read_settings();
  for (int index = 0; index < settings.devices; index++) {
    auto device = std::make_unique<Device>();
    device->index = index;
    device->integrated = index == 0 && settings.devices > 1;
    device->wave_size = settings.wave_size;
    device->name = device->integrated ? "Emulated Graphics" : "Emulated Radeon";
    if (!settings.architecture.empty()) {
      device->architecture_name = settings.architecture;
    } else if (settings.wave_size == 32) {
      device->architecture_name = device->integrated ? "gfx1036" : "gfx1100";
    } else {
      device->architecture_name = device->integrated ? "gfx90c:xnack-" : "gfx90a:sramecc+:xnack-";
    }
    device->architecture = device->architecture_name.substr(0, device->architecture_name.find(':'));
    device->memory_bytes = device->integrated ? settings.memory_bytes / 4 : settings.memory_bytes;
    devices.push_back(std::move(device));
  }
}

Status Runtime::enter(const char* call, bool needs_device) {
  if (!settings.failures.empty()) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const unsigned long number = ++calls_[call];
    for (const InjectedFailure& failure : settings.failures) {
      if (failure.call == call && (number == failure.number || (failure.onwards && number > failure.number)))
        return Status(failure.status);
    }
  }
  return needs_device && devices.empty() ? kNoDevice : kSuccess;
}

void Runtime::report(const std::string& message) {
  const std::lock_guard<std::mutex> lock(mutex_);
  message_ = message;
  if (settings.log) fprintf(stderr, "HIP emulator: %s\n", message.c_str());
}

std::string Runtime::last_message() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return message_;
}

Device& Runtime::current_device() {
  return *devices[size_t(current_device_index) < devices.size() ? size_t(current_device_index) : 0];
}

std::shared_ptr<Stream> Runtime::stream(const void* handle) {
  if (handle != nullptr) return streams.find(handle);
  Device& device = current_device();
  const std::lock_guard<std::mutex> lock(mutex_);
  std::shared_ptr<Stream>& own = own_streams_[device.index];
  if (own == nullptr) own = std::make_shared<Stream>(device);
  return own;
}

GridRunner& Runtime::grids() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (grids_ == nullptr)
    grids_ = std::make_unique<GridRunner>(settings.threads, settings.reverse, settings.strict, memory);
  return *grids_;
}

void Runtime::synchronize(const Device& device) {
  std::vector<std::shared_ptr<Stream>> all = streams.all();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& own : own_streams_) all.push_back(own.second);
  }
  for (const std::shared_ptr<Stream>& stream : all) {
    if (&stream->device == &device) stream->drain();
  }
}

}  // namespace emulator
