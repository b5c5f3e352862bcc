// Memory by mmap or VirtualAlloc, so that a large request fails as a value instead of ending the process, and costs
// nothing until used.

#include "memory.h"

#if defined(_WIN32)
#include <windows.h>
#else
#include <sys/mman.h>
#endif

#include <utility>

#include "error.h"

namespace rocmforge {

namespace {

#if defined(_WIN32)

/// Null if the system has no memory left.
void* reserve(size_t size_bytes) { return VirtualAlloc(nullptr, size_bytes, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE); }

void release(void* data, size_t) { VirtualFree(data, 0, MEM_RELEASE); }

#else

/// From this size on, large pages save more in address translation than their last one wastes.
constexpr size_t kLargePageBytes = size_t{2} << 20;

/// Null if the system has no memory left.
void* reserve(size_t size_bytes) {
  void* data = mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return nullptr;
#if defined(MADV_HUGEPAGE)
  if (size_bytes >= 2 * kLargePageBytes) madvise(data, size_bytes, MADV_HUGEPAGE);
#endif
  return data;
}

void release(void* data, size_t size_bytes) { munmap(data, size_bytes); }

#endif

}  // namespace

SystemMemory::SystemMemory(size_t size_bytes, const char* where) {
  if (size_bytes == 0) return;
  void* data = reserve(size_bytes);
  if (data == nullptr) throw memory_error(where, static_cast<double>(size_bytes));
  data_ = static_cast<uint8_t*>(data);
  size_bytes_ = size_bytes;
}

SystemMemory::~SystemMemory() {
  if (data_ != nullptr) release(data_, size_bytes_);
}

SystemMemory::SystemMemory(SystemMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_bytes_(std::exchange(other.size_bytes_, 0)) {}

SystemMemory& SystemMemory::operator=(SystemMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_bytes_, other.size_bytes_);
  return *this;
}

}  // namespace rocmforge
