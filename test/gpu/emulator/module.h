// A loaded module: the shared library that the run-time compiler made of a kernel source, once for every host thread that
// runs blocks, so that each has the module's variables (a block's shared memory) to itself.
//
//   image: magic 16 | architecture 48 | library bytes u64 | checksum u64 | the library
#pragma once
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>
#include "block-runner.h"
#include "status.h"

namespace emulator {

struct Kernel;

struct ModuleCopy {
  void* library;
  /** The library's file, which stays open as long as it: its name, by which the loader tells copies apart, has its number. */
  int descriptor;
  char* shared;
  size_t shared_bytes;
};

struct Module {
  ~Module();

  std::string architecture;
  std::vector<ModuleCopy> copies;
  int wave_size = 0;
  /** What its kernels have of shared memory without asking, all of them together. */
  size_t shared_bytes = 0;
  unsigned long kernel_count = 0;
  /** Kernels whose calls can be followed back (settings.h: strict). */
  bool has_frames = false;
  /** Work that still wants it finds out by this. */
  std::atomic<bool> unloaded{false};
  /** By name; handles of kernels are given once. */
  std::mutex mutex;
  std::map<std::string, void*> kernel_handles;
};

struct Kernel {
  std::shared_ptr<Module> module;
  std::string name;
  /** One for each copy of the module. */
  std::vector<KernelEntry> entries;
  unsigned argument_bytes;
  unsigned threads;
  /** Shared memory that its source declares; 0 where the module has others, whose share cannot be told from its own. */
  unsigned static_shared_bytes = 0;
  /** The most that a launch may ask for beside it: all that is left, until hipFuncSetAttribute says less or more. */
  std::atomic<unsigned> dynamic_limit_bytes{0};
};

std::vector<char> make_image(const std::string& architecture, const std::vector<char>& library);

/** What hipModuleLoadData does. `reason` says more than the status. */
Status load_module(const void* image, const std::string& architecture, int wave_size, int copies,
                   std::shared_ptr<Module>* module, std::string* reason);
/** Null when the module has no such kernel. */
std::shared_ptr<Kernel> find_kernel(const std::shared_ptr<Module>& module, const std::string& name,
                                    unsigned block_shared_bytes);

}  // namespace emulator
