// Memory by mmap, so that a large request fails as a value instead of ending the process, and costs nothing until used.

#include "memory.h"

#include <sys/mman.h>

#include <utility>

#include "error.h"

namespace rocmforge {

namespace {

/// From this size on, large pages save more in address translation than their last one wastes.
constexpr size_t kLargePageBytes = size_t{2} << 20;

}  // namespace

SystemMemory::SystemMemory(size_t size_bytes, const char* where) {
  if (size_bytes == 0) return;
  void* data = mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) throw memory_error(where, static_cast<double>(size_bytes));
#if defined(MADV_HUGEPAGE)
  if (size_bytes >= 2 * kLargePageBytes) madvise(data, size_bytes, MADV_HUGEPAGE);
#endif
  data_ = static_cast<uint8_t*>(data);
  size_bytes_ = size_bytes;
}

SystemMemory::~SystemMemory() {
  if (data_ != nullptr) munmap(data_, size_bytes_);
}

SystemMemory::SystemMemory(SystemMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_bytes_(std::exchange(other.size_bytes_, 0)) {}

SystemMemory& SystemMemory::operator=(SystemMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_bytes_, other.size_bytes_);
  return *this;
}

}  // namespace rocmforge
