// HIP's functions about modules and launches.
#include <cstring>
#include "runtime.h"
#include "work.h"

using namespace emulator;

namespace {

constexpr unsigned kMaxGridX = 0x7fffffff;
constexpr unsigned kMaxGridOther = 65535;
/** hipFuncAttributeMaxDynamicSharedMemorySize, and the number by which the same and its counterpart are asked for. */
constexpr int kMaxDynamicSharedAttribute = 8;
constexpr int kStaticSharedAttribute = 1;

// The other way to hand over arguments: a list of these words and values.
void* const kBufferPointer = reinterpret_cast<void*>(1);
void* const kBufferSize = reinterpret_cast<void*>(2);
void* const kListEnd = reinterpret_cast<void*>(3);

/** The kernel's one argument, or null where it was not given as the kernel wants it. */
const void* argument_of(const Kernel& kernel, void** parameters, void** extra) {
  if (parameters != nullptr) return extra == nullptr ? parameters[0] : nullptr;
  const void* buffer = nullptr;
  size_t size_bytes = 0;
  for (void** entry = extra; entry != nullptr && *entry != kListEnd; entry += 2) {
    if (*entry == kBufferPointer) {
      buffer = entry[1];
    } else if (*entry == kBufferSize) {
      size_bytes = *static_cast<const size_t*>(entry[1]);
    } else {
      return nullptr;
    }
  }
  return size_bytes == kernel.argument_bytes ? buffer : nullptr;
}

}  // namespace

EMULATOR_EXPORT int hipModuleLoadData(void** handle, const void* image) {
  return hip_call("hipModuleLoadData", Needs::device, [&](Runtime& known) -> Status {
    const Device& device = known.current_device();
    if (handle == nullptr || image == nullptr) return kInvalidValue;
    *handle = nullptr;
    if (const Status status = refuse_unsafe_call(known)) return status;
    if (device.fault != kSuccess) return device.fault;
    std::shared_ptr<Module> module;
    std::string reason;
    const Status status =
        load_module(image, device.architecture, device.wave_size, known.settings.threads, &module, &reason);
    if (status != kSuccess) {
      known.report("a module was not loaded: " + reason);
      return status;
    }
    known.grids();
    *handle = known.modules.add(module);
    return kSuccess;
  });
}

EMULATOR_EXPORT int hipModuleUnload(void* handle) {
  return hip_call("hipModuleUnload", Needs::device, [&](Runtime& known) -> Status {
    if (const Status status = refuse_unsafe_call(known)) return status;
    const std::shared_ptr<Module> module = known.modules.take(handle);
    if (module == nullptr) return kInvalidHandle;
    known.synchronize(known.current_device());
    module->unloaded = true;
    const std::lock_guard<std::mutex> lock(module->mutex);
    for (const auto& entry : module->kernel_handles) known.kernels.take(entry.second);
    return known.current_device().fault;
  });
}

EMULATOR_EXPORT int hipModuleGetFunction(void** handle, void* module_handle, const char* name) {
  return hip_call("hipModuleGetFunction", Needs::device, [&](Runtime& known) -> Status {
    if (handle == nullptr || name == nullptr) return kInvalidValue;
    *handle = nullptr;
    const std::shared_ptr<Module> module = known.modules.find(module_handle);
    if (module == nullptr) return kInvalidHandle;
    const std::lock_guard<std::mutex> lock(module->mutex);
    const auto given = module->kernel_handles.find(name);
    if (given != module->kernel_handles.end()) {
      *handle = given->second;
      return kSuccess;
    }
    const std::shared_ptr<Kernel> kernel = find_kernel(module, name, known.settings.shared_bytes);
    if (kernel == nullptr) return kNotFound;
    *handle = module->kernel_handles[name] = known.kernels.add(kernel);
    return kSuccess;
  });
}

EMULATOR_EXPORT int hipFuncSetAttribute(const void* handle, int attribute, int value) {
  return hip_call("hipFuncSetAttribute", Needs::device, [&](Runtime& known) -> Status {
    const std::shared_ptr<Kernel> kernel = known.kernels.find(handle);
    if (kernel == nullptr) return kInvalidHandle;
    if (attribute != kMaxDynamicSharedAttribute || value < 0) return kInvalidValue;
    if (unsigned(value) + kernel->static_shared_bytes > known.settings.shared_bytes) return kInvalidValue;
    kernel->dynamic_limit_bytes = unsigned(value);
    return kSuccess;
  });
}

EMULATOR_EXPORT int hipFuncGetAttribute(int* value, int attribute, const void* handle) {
  return hip_call("hipFuncGetAttribute", Needs::device, [&](Runtime& known) -> Status {
    const std::shared_ptr<Kernel> kernel = known.kernels.find(handle);
    if (kernel == nullptr) return kInvalidHandle;
    if (value == nullptr || (attribute != kMaxDynamicSharedAttribute && attribute != kStaticSharedAttribute))
      return kInvalidValue;
    *value =
        int(attribute == kStaticSharedAttribute ? kernel->static_shared_bytes : kernel->dynamic_limit_bytes.load());
    return kSuccess;
  });
}

EMULATOR_EXPORT int hipModuleLaunchKernel(void* kernel_handle, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                          unsigned threads_x, unsigned threads_y, unsigned threads_z,
                                          unsigned shared_bytes, void* stream_handle, void** parameters, void** extra) {
  return hip_call("hipModuleLaunchKernel", Needs::device, [&](Runtime& known) -> Status {
    const std::shared_ptr<Kernel> kernel = known.kernels.find(kernel_handle);
    const std::shared_ptr<Stream> stream = known.stream(stream_handle);
    if (kernel == nullptr || stream == nullptr) return kInvalidHandle;
    if (kernel->module->architecture != stream->device.architecture) return kInvalidHandle;
    const bool has_grid = grid_x > 0 && grid_y > 0 && grid_z > 0;
    if (!has_grid || grid_x > kMaxGridX || grid_y > kMaxGridOther || grid_z > kMaxGridOther)
      return kInvalidConfiguration;
    if (threads_x != kernel->threads || threads_y != 1 || threads_z != 1) {
      known.report("kernel " + kernel->name + " has blocks of " + std::to_string(kernel->threads) + " threads, not " +
                   std::to_string(threads_x));
      return kInvalidConfiguration;
    }
    if (shared_bytes > kernel->dynamic_limit_bytes) {
      const std::string limit = std::to_string(kernel->dynamic_limit_bytes.load());
      known.report("kernel " + kernel->name + " may have " + limit + " bytes of dynamic shared memory, not " +
                   std::to_string(shared_bytes));
      return kInvalidValue;
    }
    const void* argument = argument_of(*kernel, parameters, extra);
    if (argument == nullptr) return kInvalidValue;
    const unsigned grid[3] = {grid_x, grid_y, grid_z};
    return submit(known, *stream, std::make_shared<LaunchWork>(kernel, grid, shared_bytes, argument));
  });
}
