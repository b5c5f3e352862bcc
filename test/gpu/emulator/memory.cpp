// See memory.h.
#include "memory.h"
#include <sys/mman.h>
#include <unistd.h>
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <vector>

namespace emulator {
namespace {

/** What real devices align to at least. */
constexpr size_t kAlignment = 256;
constexpr int kPoison = 0xff;
/** Larger ones start as zeros, so that a large cache of which little is used costs no memory. */
constexpr size_t kMaxPoisonedBytes = size_t(64) << 20;
/** Freed mappings that are kept to fault; the oldest is given back to the system. */
constexpr size_t kMaxFreed = 2048;
/** How much of the front is looked at. */
constexpr size_t kFrontBytes = 256;

size_t page_bytes() {
  static const size_t bytes = size_t(sysconf(_SC_PAGESIZE));
  return bytes;
}

size_t round_up(size_t value, size_t multiple) { return (value + multiple - 1) / multiple * multiple; }

/** Compared with a stretch of it, in as few instructions as the C library can. */
bool is_poison(const char* from, size_t count) {
  static const std::vector<char> stretch(4096, char(kPoison));
  for (size_t done = 0; done < count; done += stretch.size()) {
    if (memcmp(from + done, stretch.data(), std::min(stretch.size(), count - done)) != 0) return false;
  }
  return true;
}

const char* name_of_owner(int device) { return device == kHostMemory ? "pinned host" : "device"; }

}  // namespace

char* Memory::allocate(size_t size_bytes, int device) {
  const size_t page = page_bytes();
  const size_t padded_bytes = round_up(size_bytes, kAlignment);
  const size_t data_bytes = round_up(padded_bytes, page);
  if (padded_bytes < size_bytes || data_bytes > SIZE_MAX - 2 * page) return nullptr;
  const size_t mapping_bytes = data_bytes + 2 * page;
  void* mapping = mmap(nullptr, mapping_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) return nullptr;
  char* const data = static_cast<char*>(mapping) + page;
  if (mprotect(data, data_bytes, PROT_READ | PROT_WRITE) != 0) {
    munmap(mapping, mapping_bytes);
    return nullptr;
  }
  char* const start = data + data_bytes - padded_bytes;
  memset(data, kPoison, size_t(start - data));
  memset(start + size_bytes, kPoison, padded_bytes - size_bytes);
  if (size_bytes <= kMaxPoisonedBytes) memset(start, kPoison, size_bytes);
  const std::lock_guard<std::mutex> lock(mutex_);
  live_[reinterpret_cast<uintptr_t>(start)] = {static_cast<char*>(mapping), mapping_bytes, start, size_bytes, device};
  return start;
}

void Memory::retire(const Allocation& allocation) {
  // A fresh mapping over the old one gives its pages back and keeps its addresses from being used again.
  mmap(allocation.mapping, allocation.mapping_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
       -1, 0);
  freed_.push_back(allocation);
  if (freed_.size() <= kMaxFreed) return;
  munmap(freed_.front().mapping, freed_.front().mapping_bytes);
  freed_.pop_front();
}

bool Memory::release(const void* start, std::string* damage) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = live_.find(reinterpret_cast<uintptr_t>(start));
  if (found == live_.end()) return false;
  *damage = damage_of(found->second);
  retire(found->second);
  live_.erase(found);
  return true;
}

void Memory::release_all() {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& entry : live_) retire(entry.second);
  live_.clear();
}

int Memory::device_of(const void* address, size_t size_bytes) const {
  const uintptr_t from = reinterpret_cast<uintptr_t>(address);
  const std::lock_guard<std::mutex> lock(mutex_);
  auto next = live_.upper_bound(from);
  if (next == live_.begin()) return -1;
  const Allocation& allocation = std::prev(next)->second;
  const size_t offset = from - reinterpret_cast<uintptr_t>(allocation.start);
  if (offset > allocation.size_bytes || size_bytes > allocation.size_bytes - offset) return -1;
  return allocation.device;
}

size_t Memory::used_bytes(int device) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  size_t used = 0;
  for (const auto& entry : live_)
    used += entry.second.device == device ? round_up(entry.second.size_bytes, kAlignment) : 0;
  return used;
}

size_t Memory::count() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return live_.size();
}

std::string Memory::damage_of(const Allocation& allocation) {
  char* const data = allocation.mapping + page_bytes();
  char* const end = allocation.mapping + allocation.mapping_bytes - page_bytes();
  const size_t front_bytes = std::min(kFrontBytes, size_t(allocation.start - data));
  const char* side = nullptr;
  if (!is_poison(allocation.start - front_bytes, front_bytes)) side = "before the start";
  char* const tail = allocation.start + allocation.size_bytes;
  if (!is_poison(tail, size_t(end - tail))) side = "past the end";
  if (side == nullptr) return {};
  char text[160];
  snprintf(text, sizeof text, "wrote %s of a %s allocation of %zu bytes at %p", side, name_of_owner(allocation.device),
           allocation.size_bytes, static_cast<void*>(allocation.start));
  // Reported once: the next check is about the next kernel.
  memset(allocation.start - front_bytes, kPoison, front_bytes);
  memset(tail, kPoison, size_t(end - tail));
  return text;
}

std::string Memory::damage(size_t most) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (live_.size() > most) return {};
  for (const auto& entry : live_) {
    std::string found = damage_of(entry.second);
    if (!found.empty()) return found;
  }
  return {};
}

std::string Memory::describe(const void* address) const {
  const uintptr_t at = reinterpret_cast<uintptr_t>(address);
  const Allocation* nearest = nullptr;
  bool is_freed = false;
  size_t nearest_distance = SIZE_MAX;
  const auto consider = [&](const Allocation& allocation, bool freed) {
    const uintptr_t start = reinterpret_cast<uintptr_t>(allocation.start), end = start + allocation.size_bytes;
    const size_t distance = at < start ? start - at : at < end ? 0 : at - end + 1;
    if (distance >= nearest_distance) return;
    nearest = &allocation;
    is_freed = freed;
    nearest_distance = distance;
  };
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& entry : live_) consider(entry.second, false);
  for (auto freed = freed_.rbegin(); freed != freed_.rend(); ++freed) consider(*freed, true);
  char text[240];
  if (nearest == nullptr) {
    snprintf(text, sizeof text, "%p, and nothing was ever allocated", address);
    return text;
  }
  const uintptr_t start = reinterpret_cast<uintptr_t>(nearest->start);
  const char* place = at < start                         ? "bytes before the start of"
                      : at < start + nearest->size_bytes ? "bytes into"
                                                         : "bytes past the end of";
  const size_t distance = at < start                         ? start - at
                          : at < start + nearest->size_bytes ? at - start
                                                             : at - start - nearest->size_bytes;
  snprintf(text, sizeof text, "%p, %zu %s %s %s allocation of %zu bytes at %p", address, distance, place,
           is_freed ? "a freed" : "a live", name_of_owner(nearest->device), nearest->size_bytes,
           static_cast<void*>(nearest->start));
  return text;
}

bool RegisteredRanges::add(const void* address, size_t size_bytes) {
  const uintptr_t from = reinterpret_cast<uintptr_t>(address);
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto next = ranges_.lower_bound(from);
  if (next != ranges_.end() && next->first < from + size_bytes) return false;
  if (next != ranges_.begin() && std::prev(next)->first + std::prev(next)->second > from) return false;
  ranges_[from] = size_bytes;
  return true;
}

bool RegisteredRanges::remove(const void* address) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return ranges_.erase(reinterpret_cast<uintptr_t>(address)) > 0;
}

bool RegisteredRanges::contains(const void* address, size_t size_bytes) const {
  const uintptr_t from = reinterpret_cast<uintptr_t>(address);
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto next = ranges_.upper_bound(from);
  if (next == ranges_.begin()) return false;
  const auto& range = *std::prev(next);
  return from - range.first <= range.second && size_bytes <= range.second - (from - range.first);
}

size_t RegisteredRanges::count() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return ranges_.size();
}

void RegisteredRanges::clear() {
  const std::lock_guard<std::mutex> lock(mutex_);
  ranges_.clear();
}

}  // namespace emulator
