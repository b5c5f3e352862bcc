// HIP's functions about memory: device, pinned and registered, copies and fills. Device ranges are checked against the
// allocation they lie in, which a card would not do.
#include <sys/mman.h>
#include <unistd.h>
#include <cstring>
#include <vector>
#include "runtime.h"
#include "work.h"

using namespace emulator;

namespace {

constexpr const char* kNoAllocation = " does not lie in one live allocation of the device";

std::string range_text(const void* address, size_t size_bytes) {
  return std::to_string(size_bytes) + " bytes at " + std::to_string(reinterpret_cast<uintptr_t>(address));
}

/** Also the range's allocation must be the stream's device's. */
Status check_range(Runtime& known, const Device& device, const void* address, size_t size_bytes) {
  if (known.memory.device_of(address, size_bytes) == device.index) return kSuccess;
  known.report("a range of " + range_text(address, size_bytes) + kNoAllocation +
               "; nearest: " + known.memory.describe(address));
  return kInvalidValue;
}

bool is_pinned(Runtime& known, const void* address, size_t size_bytes) {
  return known.memory.device_of(address, size_bytes) == kHostMemory || known.registered.contains(address, size_bytes);
}

bool is_mapped(const void* address, size_t size_bytes) {
  const size_t page = size_t(sysconf(_SC_PAGESIZE));
  const uintptr_t from = reinterpret_cast<uintptr_t>(address) / page * page;
  const size_t pages = (reinterpret_cast<uintptr_t>(address) + size_bytes - from + page - 1) / page;
  std::vector<unsigned char> resident(pages);
  return mincore(reinterpret_cast<void*>(from), pages * page, resident.data()) == 0;
}

/** Memory that the device does not know is copied before the call returns, as drivers do. */
Status copy_with_host(Runtime& known, Stream& stream, void* target, const void* source, size_t size_bytes,
                      const void* host) {
  auto work = std::make_shared<CopyWork>(target, source, size_bytes, host == source);
  if (is_pinned(known, host, size_bytes)) return submit(known, stream, work);
  if (const Status status = refuse_while_capturing(known, stream)) return status;
  if (const Status status = submit(known, stream, work)) return status;
  stream.drain();
  return stream.device.outcome();
}

}  // namespace

EMULATOR_EXPORT int hipMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  return hip_call("hipMemGetInfo", Needs::device, [&](Runtime& known) -> Status {
    const Device& device = known.current_device();
    if (free_bytes == nullptr || total_bytes == nullptr) return kInvalidValue;
    *total_bytes = device.memory_bytes;
    const size_t reported = known.settings.reported_free_bytes;
    *free_bytes = reported > 0 ? reported : device.memory_bytes - known.memory.used_bytes(device.index);
    return device.fault;
  });
}

EMULATOR_EXPORT int hipMalloc(void** address, size_t size_bytes) {
  return hip_call("hipMalloc", Needs::device, [&](Runtime& known) -> Status {
    const Device& device = known.current_device();
    if (address == nullptr) return kInvalidValue;
    if (const Status status = refuse_unsafe_call(known)) return status;
    if (device.fault != kSuccess) return device.fault;
    *address = nullptr;
    if (size_bytes == 0) return kSuccess;
    if (size_bytes > device.memory_bytes - known.memory.used_bytes(device.index)) return kOutOfMemory;
    *address = known.memory.allocate(size_bytes, device.index);
    return *address == nullptr ? kOutOfMemory : kSuccess;
  });
}

namespace {

Status release(Runtime& known, void* address, bool is_host) {
  if (address == nullptr) return kSuccess;
  if (const Status status = refuse_unsafe_call(known)) return status;
  const int owner = known.memory.device_of(address, 0);
  if ((owner == kHostMemory) != is_host || owner < 0) {
    known.report("free of " + known.memory.describe(address));
    return kInvalidValue;
  }
  Device& device = is_host ? known.current_device() : *known.devices[size_t(owner)];
  // Drivers wait here too: work that still uses the memory is no mistake.
  known.synchronize(device);
  std::string damage;
  if (!known.memory.release(address, &damage)) {
    known.report("free of " + known.memory.describe(address));
    return kInvalidValue;
  }
  if (!damage.empty()) device.fail(kIllegalAddress, "a kernel " + damage);
  return device.fault;
}

}  // namespace

EMULATOR_EXPORT int hipFree(void* address) {
  return hip_call("hipFree", Needs::device, [&](Runtime& known) { return release(known, address, false); });
}

EMULATOR_EXPORT int hipHostMalloc(void** address, size_t size_bytes, unsigned) {
  return hip_call("hipHostMalloc", Needs::device, [&](Runtime& known) -> Status {
    if (address == nullptr) return kInvalidValue;
    if (const Status status = refuse_unsafe_call(known)) return status;
    if (known.current_device().fault != kSuccess) return known.current_device().fault;
    *address = size_bytes == 0 ? nullptr : known.memory.allocate(size_bytes, kHostMemory);
    return size_bytes > 0 && *address == nullptr ? kOutOfMemory : kSuccess;
  });
}

EMULATOR_EXPORT int hipHostFree(void* address) {
  return hip_call("hipHostFree", Needs::device, [&](Runtime& known) { return release(known, address, true); });
}

EMULATOR_EXPORT int hipHostRegister(void* address, size_t size_bytes, unsigned) {
  return hip_call("hipHostRegister", Needs::device, [&](Runtime& known) -> Status {
    if (address == nullptr || size_bytes == 0 || !is_mapped(address, size_bytes)) return kInvalidValue;
    if (const Status status = refuse_unsafe_call(known)) return status;
    if (known.current_device().fault != kSuccess) return known.current_device().fault;
    return known.registered.add(address, size_bytes) ? kSuccess : kHostMemoryAlreadyRegistered;
  });
}

EMULATOR_EXPORT int hipHostUnregister(void* address) {
  return hip_call("hipHostUnregister", Needs::device, [&](Runtime& known) -> Status {
    if (const Status status = refuse_unsafe_call(known)) return status;
    known.synchronize(known.current_device());
    if (!known.registered.remove(address)) return kHostMemoryNotRegistered;
    return known.current_device().fault;
  });
}

EMULATOR_EXPORT int hipMemcpyHtoDAsync(void* target, const void* source, size_t size_bytes, void* stream_handle) {
  return hip_call("hipMemcpyHtoDAsync", Needs::device, [&](Runtime& known) -> Status {
    const std::shared_ptr<Stream> stream = known.stream(stream_handle);
    if (stream == nullptr) return kInvalidHandle;
    if (size_bytes == 0) return kSuccess;
    if (source == nullptr) return kInvalidValue;
    if (const Status status = check_range(known, stream->device, target, size_bytes)) return status;
    return copy_with_host(known, *stream, target, source, size_bytes, source);
  });
}

EMULATOR_EXPORT int hipMemcpyDtoHAsync(void* target, const void* source, size_t size_bytes, void* stream_handle) {
  return hip_call("hipMemcpyDtoHAsync", Needs::device, [&](Runtime& known) -> Status {
    const std::shared_ptr<Stream> stream = known.stream(stream_handle);
    if (stream == nullptr) return kInvalidHandle;
    if (size_bytes == 0) return kSuccess;
    if (target == nullptr) return kInvalidValue;
    if (const Status status = check_range(known, stream->device, source, size_bytes)) return status;
    return copy_with_host(known, *stream, target, source, size_bytes, target);
  });
}

EMULATOR_EXPORT int hipMemcpyDtoDAsync(void* target, const void* source, size_t size_bytes, void* stream_handle) {
  return hip_call("hipMemcpyDtoDAsync", Needs::device, [&](Runtime& known) -> Status {
    const std::shared_ptr<Stream> stream = known.stream(stream_handle);
    if (stream == nullptr) return kInvalidHandle;
    if (size_bytes == 0) return kSuccess;
    if (const Status status = check_range(known, stream->device, target, size_bytes)) return status;
    if (const Status status = check_range(known, stream->device, source, size_bytes)) return status;
    const char *to = static_cast<char*>(target), *from = static_cast<const char*>(source);
    if (to < from + size_bytes && from < to + size_bytes) {
      known.report("a copy of " + std::to_string(size_bytes) + " bytes overlaps itself");
      return kInvalidValue;
    }
    return submit(known, *stream, std::make_shared<CopyWork>(target, source, size_bytes));
  });
}

EMULATOR_EXPORT int hipMemsetD8Async(void* target, unsigned char byte, size_t count, void* stream_handle) {
  return hip_call("hipMemsetD8Async", Needs::device, [&](Runtime& known) -> Status {
    const std::shared_ptr<Stream> stream = known.stream(stream_handle);
    if (stream == nullptr) return kInvalidHandle;
    if (count == 0) return kSuccess;
    if (const Status status = check_range(known, stream->device, target, count)) return status;
    return submit(known, *stream, std::make_shared<FillWork>(target, byte, count));
  });
}
