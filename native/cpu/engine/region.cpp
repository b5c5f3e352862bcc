// Regions are checked once when they are made and once per range; after that, kernels read through plain pointers.

#include "region.h"

#if defined(_WIN32)
#include <windows.h>
#else
#include <sys/mman.h>
#include <unistd.h>
#endif

#include <string>

#include "error.h"

namespace rocmforge {

namespace {

#if defined(_WIN32)

/// Asks for each range of pages with the same state: all must be committed and readable.
bool is_mapped(uintptr_t begin, size_t size_bytes) {
  const uintptr_t end = begin + size_bytes;
  for (uintptr_t at = begin; at < end;) {
    MEMORY_BASIC_INFORMATION pages = {};
    if (VirtualQuery(reinterpret_cast<const void*>(at), &pages, sizeof(pages)) == 0) return false;
    if (pages.State != MEM_COMMIT || (pages.Protect & (PAGE_NOACCESS | PAGE_GUARD)) != 0) return false;
    at = reinterpret_cast<uintptr_t>(pages.BaseAddress) + pages.RegionSize;
  }
  return true;
}

#else

/// msync with MS_ASYNC writes nothing; it fails exactly when part of the range is not mapped.
bool is_mapped(uintptr_t begin, size_t size_bytes) {
  const uintptr_t page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t first = begin & ~(page - 1);
  return msync(reinterpret_cast<void*>(first), size_bytes + (begin - first), MS_ASYNC) == 0;
}

#endif

}  // namespace

std::shared_ptr<Region> Region::map(uint64_t address, size_t size_bytes) {
  const uintptr_t begin = static_cast<uintptr_t>(address);
  if (size_bytes == 0) refuse("region.sizeBytes", "1 or more", "0");
  if (begin == 0 || begin != address || begin + size_bytes < begin || !is_mapped(begin, size_bytes)) {
    refuse("region.address", "the address of " + std::to_string(size_bytes) + " mapped bytes", std::to_string(address));
  }
  std::shared_ptr<Region> region(new Region());
  region->data_ = reinterpret_cast<const uint8_t*>(begin);
  region->size_bytes_ = size_bytes;
  region->watch_.emplace(region->data_, size_bytes);
  return region;
}

std::shared_ptr<Region> Region::allocate(size_t size_bytes) {
  std::shared_ptr<Region> region(new Region());
  region->memory_ = SystemMemory(size_bytes, "region");
  region->data_ = region->memory_.data();
  region->size_bytes_ = size_bytes;
  return region;
}

const uint8_t* Region::range(size_t byte_offset, size_t size_bytes, const char* where) const {
  if (byte_offset > size_bytes_ || size_bytes > size_bytes_ - byte_offset) {
    refuse(where, "a range inside a region of " + std::to_string(size_bytes_) + " bytes",
           std::to_string(size_bytes) + " bytes at " + std::to_string(byte_offset));
  }
  return data_ + byte_offset;
}

}  // namespace rocmforge
