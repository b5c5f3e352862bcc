// Memory of the emulated devices, and host memory that they know. Each allocation is a mapping of its own that ends
// against a page that faults; what is freed faults from then on, until its addresses are needed again much later.
//
//   guard page | front … | start (256-byte aligned) … size | tail | guard page
//
// Front and tail are what the alignment leaves over; both hold a pattern that is looked at after launches and at free.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>

namespace emulator {

struct Allocation {
  char* mapping;
  size_t mapping_bytes;
  char* start;
  size_t size_bytes;
  /** The device it is on; host memory belongs to none. */
  int device;
};

class Memory {
 public:
  /** Null when the system has no memory left. */
  char* allocate(size_t size_bytes, int device);
  /** Whether there was one that starts there; `damage` says whether something wrote beside it. */
  bool release(const void* start, std::string* damage);
  void release_all();

  /** The device whose one live allocation holds all of the range, or -1. */
  int device_of(const void* address, size_t size_bytes) const;
  size_t used_bytes(int device) const;
  size_t count() const;
  /** What was written beside a live allocation, if any was. Looks at none where there are more than `most`. */
  std::string damage(size_t most = SIZE_MAX) const;
  /** The allocation nearest to an address, live or freed, in words. */
  std::string describe(const void* address) const;

 private:
  static std::string damage_of(const Allocation& allocation);
  void retire(const Allocation& allocation);

  mutable std::mutex mutex_;
  std::map<uintptr_t, Allocation> live_;
  std::deque<Allocation> freed_;
};

/** Host memory that was registered where it lies. */
class RegisteredRanges {
 public:
  bool add(const void* address, size_t size_bytes);
  bool remove(const void* address);
  bool contains(const void* address, size_t size_bytes) const;
  size_t count() const;
  void clear();

 private:
  mutable std::mutex mutex_;
  std::map<uintptr_t, size_t> ranges_;
};

constexpr int kHostMemory = 1 << 20;

}  // namespace emulator
