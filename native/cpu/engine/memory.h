// Anonymous memory from the system: zero, page-aligned, resident only where it has been touched, and given back whole.

#pragma once

#include <cstddef>
#include <cstdint>

namespace rocmforge {

class SystemMemory {
 public:
  SystemMemory() = default;
  /// Throws `memory` with the size; `where` names what asked.
  SystemMemory(size_t size_bytes, const char* where);
  ~SystemMemory();
  SystemMemory(SystemMemory&& other) noexcept;
  SystemMemory& operator=(SystemMemory&& other) noexcept;
  SystemMemory(const SystemMemory&) = delete;
  SystemMemory& operator=(const SystemMemory&) = delete;

  uint8_t* data() const { return data_; }
  size_t size_bytes() const { return size_bytes_; }

 private:
  uint8_t* data_ = nullptr;
  size_t size_bytes_ = 0;
};

}  // namespace rocmforge
