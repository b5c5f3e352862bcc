// See module.h.
#include "module.h"
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>
#include <atomic>
#include <cstdio>
#include <cstring>
#include "fault-guard.h"

namespace emulator {
namespace {

struct ImageHead {
  char magic[16];
  char architecture[48];
  uint64_t library_bytes;
  uint64_t checksum;
};

/** Its last part is that of the sources: a library made for another block layout must not be loaded. */
void write_magic(char (&magic)[16]) {
  char text[17];
  snprintf(text, sizeof text, "HIPEMU01%08x", unsigned(EMULATOR_SOURCE_HASH));
  memcpy(magic, text, sizeof magic);
}

uint64_t checksum_of(const char* bytes, size_t count) {
  uint64_t sum = 0xcbf29ce484222325u;
  for (size_t index = 0; index < count; index++)
    sum = (sum ^ static_cast<unsigned char>(bytes[index])) * 0x100000001b3u;
  return sum;
}

bool write_all(int descriptor, const char* bytes, size_t count) {
  for (size_t written = 0; written < count;) {
    const ssize_t part = write(descriptor, bytes + written, count - written);
    if (part <= 0) return false;
    written += size_t(part);
  }
  return true;
}

/** Opens the library from memory; `library` stays null where that fails. */
ModuleCopy open_copy(const char* bytes, size_t count, std::string* reason) {
  ModuleCopy copy{nullptr, memfd_create("emulated-module", MFD_CLOEXEC), nullptr, 0};
  if (copy.descriptor < 0 || !write_all(copy.descriptor, bytes, count)) {
    *reason = "the library could not be written to memory";
    return copy;
  }
  char path[64];
  snprintf(path, sizeof path, "/proc/self/fd/%d", copy.descriptor);
  copy.library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (copy.library == nullptr) *reason = dlerror();
  return copy;
}

}  // namespace

Module::~Module() {
  for (const ModuleCopy& copy : copies) {
    if (copy.library != nullptr) dlclose(copy.library);
    if (copy.descriptor >= 0) close(copy.descriptor);
  }
}

std::vector<char> make_image(const std::string& architecture, const std::vector<char>& library) {
  ImageHead head{};
  write_magic(head.magic);
  strncpy(head.architecture, architecture.c_str(), sizeof head.architecture - 1);
  head.library_bytes = library.size();
  head.checksum = checksum_of(library.data(), library.size());
  std::vector<char> image(sizeof head + library.size());
  memcpy(image.data(), &head, sizeof head);
  memcpy(image.data() + sizeof head, library.data(), library.size());
  return image;
}

Status load_module(const void* image, const std::string& architecture, int wave_size, int copies,
                   std::shared_ptr<Module>* module, std::string* reason) {
  ImageHead head{};
  char magic[16];
  write_magic(magic);
  const char* const library = static_cast<const char*>(image) + sizeof head;
  bool is_whole = false;
  Fault fault{};
  // The image comes without a size: one that was cut short ends in a fault, or in bytes that are not its own.
  const bool readable = guarded(
      [&] {
        memcpy(&head, image, sizeof head);
        is_whole = memcmp(head.magic, magic, sizeof magic) == 0 && head.library_bytes < (uint64_t(1) << 30) &&
                   checksum_of(library, head.library_bytes) == head.checksum;
      },
      &fault);
  if (!readable || !is_whole) {
    *reason = "the image is damaged, or not of this emulator's compiler";
    return kInvalidImage;
  }
  head.architecture[sizeof head.architecture - 1] = '\0';
  if (architecture != head.architecture) {
    *reason = "the image is for " + std::string(head.architecture) + ", the device is " + architecture;
    return kNoBinaryForGpu;
  }
  auto loaded = std::make_shared<Module>();
  loaded->architecture = architecture;
  for (int index = 0; index < copies; index++) {
    loaded->copies.push_back(open_copy(library, head.library_bytes, reason));
    void* const opened = loaded->copies.back().library;
    if (opened == nullptr) return kInvalidImage;
    const auto* wave = static_cast<const int*>(dlsym(opened, "emulated_wave"));
    const auto* frames = static_cast<const int*>(dlsym(opened, "emulated_frames"));
    const auto shared = reinterpret_cast<char* (*)(unsigned long*)>(dlsym(opened, "emulated_shared"));
    const auto kernel_count = reinterpret_cast<unsigned long (*)()>(dlsym(opened, "emulated_kernel_count"));
    if (wave == nullptr || frames == nullptr || shared == nullptr || kernel_count == nullptr) {
      *reason = "the source did not include device/portable.h";
      return kInvalidImage;
    }
    if (*wave != wave_size) {
      *reason = "compiled with WAVE=" + std::to_string(*wave) + " for a device whose waves have " +
                std::to_string(wave_size) + " lanes";
      return kNoBinaryForGpu;
    }
    unsigned long shared_bytes = 0;
    loaded->copies.back().shared = shared(&shared_bytes);
    loaded->copies.back().shared_bytes = shared_bytes;
    loaded->shared_bytes = shared_bytes;
    loaded->kernel_count = kernel_count();
    loaded->wave_size = *wave;
    loaded->has_frames = *frames != 0;
  }
  *module = loaded;
  return kSuccess;
}

std::shared_ptr<Kernel> find_kernel(const std::shared_ptr<Module>& module, const std::string& name,
                                    unsigned block_shared_bytes) {
  auto kernel = std::make_shared<Kernel>();
  kernel->module = module;
  kernel->name = name;
  for (const ModuleCopy& copy : module->copies) {
    const auto entry = reinterpret_cast<KernelEntry>(dlsym(copy.library, name.c_str()));
    const auto* argument_bytes = static_cast<const unsigned*>(dlsym(copy.library, (name + "_argument_bytes").c_str()));
    const auto* threads = static_cast<const unsigned*>(dlsym(copy.library, (name + "_threads").c_str()));
    if (entry == nullptr || argument_bytes == nullptr || threads == nullptr) return nullptr;
    kernel->entries.push_back(entry);
    kernel->argument_bytes = *argument_bytes;
    kernel->threads = *threads;
  }
  if (module->kernel_count == 1) kernel->static_shared_bytes = unsigned(module->shared_bytes);
  const unsigned used = kernel->static_shared_bytes;
  kernel->dynamic_limit_bytes = used < block_shared_bytes ? block_shared_bytes - used : 0;
  return kernel;
}

}  // namespace emulator
