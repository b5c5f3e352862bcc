// HIP's functions about the library, its devices and its errors, and the few of the test double's own. Attribute numbers
// and property offsets are those of HIP 5 and 6 (hipDeviceAttribute_t; hipDeviceProp_t of 792 bytes, R0600 of 1472).
#include <cstring>
#include "runtime.h"

using namespace emulator;

namespace {

constexpr int kRuntimeVersion = 60443484;
constexpr int kMultiprocessors = 4;
constexpr int kMaxThreadsPerBlock = 1024;

enum Attribute : int {
  kIntegrated = 16,
  kMaxThreads = 56,
  kMultiprocessorCount = 63,
  kMaxSharedMemoryPerBlock = 74,
  kWarpSize = 87,
};

struct PropertyOffsets {
  size_t size_bytes, memory, shared, wave, multiprocessors, architecture, integrated;
};
constexpr PropertyOffsets kOldOffsets = {792, 256, 264, 276, 336, 396, 652};
constexpr PropertyOffsets kOffsets = {1472, 288, 296, 308, 388, 1160, 396};

template <typename Value>
void put(void* properties, size_t offset, Value value) {
  memcpy(static_cast<char*>(properties) + offset, &value, sizeof value);
}

Status write_properties(Runtime& known, void* properties, int index, const PropertyOffsets& offsets) {
  if (properties == nullptr) return kInvalidValue;
  if (index < 0 || size_t(index) >= known.devices.size()) return kInvalidDevice;
  const Device& device = *known.devices[size_t(index)];
  memset(properties, 0, offsets.size_bytes);
  strncpy(static_cast<char*>(properties), device.name.c_str(), 255);
  put(properties, offsets.memory, device.memory_bytes);
  put(properties, offsets.shared, size_t(known.settings.shared_bytes));
  put(properties, offsets.wave, device.wave_size);
  put(properties, offsets.multiprocessors, kMultiprocessors);
  strncpy(static_cast<char*>(properties) + offsets.architecture, device.architecture_name.c_str(), 255);
  put(properties, offsets.integrated, int(device.integrated));
  return kSuccess;
}

}  // namespace

EMULATOR_EXPORT int hipInit(unsigned flags) {
  return hip_call("hipInit", Needs::device, [&](Runtime&) { return flags == 0 ? kSuccess : kInvalidValue; });
}

EMULATOR_EXPORT int hipRuntimeGetVersion(int* version) {
  return hip_call("hipRuntimeGetVersion", Needs::nothing, [&](Runtime&) {
    if (version == nullptr) return kInvalidValue;
    *version = kRuntimeVersion;
    return kSuccess;
  });
}

EMULATOR_EXPORT int hipDriverGetVersion(int* version) {
  return hip_call("hipDriverGetVersion", Needs::nothing, [&](Runtime&) {
    if (version == nullptr) return kInvalidValue;
    *version = kRuntimeVersion;
    return kSuccess;
  });
}

EMULATOR_EXPORT int hipGetDeviceCount(int* count) {
  if (count != nullptr) *count = 0;
  return hip_call("hipGetDeviceCount", Needs::device, [&](Runtime& known) {
    if (count == nullptr) return kInvalidValue;
    *count = int(known.devices.size());
    return kSuccess;
  });
}

EMULATOR_EXPORT int hipSetDevice(int index) {
  return hip_call("hipSetDevice", Needs::device, [&](Runtime& known) {
    if (index < 0 || size_t(index) >= known.devices.size()) return kInvalidDevice;
    current_device_index = index;
    return kSuccess;
  });
}

EMULATOR_EXPORT int hipGetDevice(int* index) {
  return hip_call("hipGetDevice", Needs::device, [&](Runtime& known) {
    if (index == nullptr) return kInvalidValue;
    *index = known.current_device().index;
    return kSuccess;
  });
}

EMULATOR_EXPORT int hipDeviceGetPCIBusId(char* address, int size_bytes, int index) {
  return hip_call("hipDeviceGetPCIBusId", Needs::device, [&](Runtime& known) -> Status {
    if (address == nullptr || size_bytes < 13) return kInvalidValue;
    if (index < 0 || size_t(index) >= known.devices.size()) return kInvalidDevice;
    // A bus that no machine has.
    snprintf(address, size_t(size_bytes), "ffff:%02x:00.0", unsigned(index));
    return kSuccess;
  });
}

EMULATOR_EXPORT int hipDeviceGetAttribute(int* value, int attribute, int index) {
  return hip_call("hipDeviceGetAttribute", Needs::device, [&](Runtime& known) {
    if (value == nullptr) return kInvalidValue;
    if (index < 0 || size_t(index) >= known.devices.size()) return kInvalidDevice;
    const Device& device = *known.devices[size_t(index)];
    switch (attribute) {
      case kIntegrated: *value = device.integrated; return kSuccess;
      case kMaxThreads: *value = kMaxThreadsPerBlock; return kSuccess;
      case kMultiprocessorCount: *value = kMultiprocessors; return kSuccess;
      case kMaxSharedMemoryPerBlock: *value = int(known.settings.shared_bytes); return kSuccess;
      case kWarpSize: *value = device.wave_size; return kSuccess;
      default: return kInvalidValue;
    }
  });
}

EMULATOR_EXPORT int hipGetDevicePropertiesR0600(void* properties, int index) {
  return hip_call("hipGetDevicePropertiesR0600", Needs::device,
                  [&](Runtime& known) { return write_properties(known, properties, index, kOffsets); });
}

EMULATOR_EXPORT int hipGetDeviceProperties(void* properties, int index) {
  return hip_call("hipGetDeviceProperties", Needs::device,
                  [&](Runtime& known) { return write_properties(known, properties, index, kOldOffsets); });
}

EMULATOR_EXPORT const char* hipGetErrorName(int status) { return name_of(status); }
EMULATOR_EXPORT const char* hipGetErrorString(int status) { return text_of(status); }

EMULATOR_EXPORT int hipGetLastError() {
  const int status = last_error;
  last_error = kSuccess;
  return status;
}

/** What the device last failed of, in words; empty when it has not. */
EMULATOR_EXPORT const char* emulatorLastMessage() {
  static thread_local std::string message;
  message = runtime().last_message();
  return message.c_str();
}

/** As if the process had just started: everything is freed, and the environment is read again. */
EMULATOR_EXPORT void emulatorReset() {
  runtime().reset();
  current_device_index = 0;
  last_error = kSuccess;
}

/** How many of something there are; -1 for a word it does not know. */
EMULATOR_EXPORT long emulatorCount(const char* what) {
  Runtime& known = runtime();
  const std::string word = what == nullptr ? "" : what;
  if (word == "allocations") return long(known.memory.count());
  if (word == "registrations") return long(known.registered.count());
  if (word == "streams") return long(known.streams.count());
  if (word == "events") return long(known.events.count());
  if (word == "modules") return long(known.modules.count());
  if (word == "graphs") return long(known.graphs.count() + known.recordings.count());
  if (word == "launches") return long(known.launches);
  return -1;
}
