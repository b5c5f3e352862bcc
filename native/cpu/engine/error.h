// What the engine refuses or cannot do, and the arithmetic that must not overflow on the way. Errors are thrown while
// something is being checked or set up, on the thread that asked; nothing throws while a step computes.

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>

namespace rocmforge {

enum class ErrorCode { none, invalid, memory, truncated, cancelled };

/// The spelling of index.d.ts.
inline const char* error_code_name(ErrorCode code) {
  switch (code) {
    case ErrorCode::none: return "NONE";
    case ErrorCode::invalid: return "INVALID";
    case ErrorCode::memory: return "MEMORY";
    case ErrorCode::truncated: return "TRUNCATED";
    case ErrorCode::cancelled: return "CANCELLED";
  }
  return "INVALID";
}

struct EngineError {
  ErrorCode code = ErrorCode::none;
  std::string message;
  /// For `memory`: what was asked for.
  double needed_bytes = 0;
};

[[noreturn]] inline void refuse(const std::string& where, const std::string& expected, const std::string& found) {
  throw EngineError{ErrorCode::invalid, where + ": expected " + expected + ", found " + found, 0};
}

inline EngineError memory_error(const std::string& where, double needed_bytes) {
  if (needed_bytes == 0) return {ErrorCode::memory, where + ": memory ran out", 0};
  // A sum that overflowed is larger than any integer.
  char bytes[64];
  std::snprintf(bytes, sizeof bytes, "%.0f", needed_bytes);
  return {ErrorCode::memory, where + ": " + bytes + " bytes cannot be allocated", needed_bytes};
}

/// Refuses what does not fit; `where` names the thing that is measured.
inline size_t checked_multiply(size_t left, size_t right, const char* where) {
  size_t result = 0;
  if (__builtin_mul_overflow(left, right, &result)) {
    throw memory_error(where, static_cast<double>(left) * static_cast<double>(right));
  }
  return result;
}

inline size_t checked_add(size_t left, size_t right, const char* where) {
  size_t sum = 0;
  if (__builtin_add_overflow(left, right, &sum)) {
    throw memory_error(where, static_cast<double>(left) + static_cast<double>(right));
  }
  return sum;
}

inline size_t round_up(size_t count, size_t multiple) { return (count + multiple - 1) / multiple * multiple; }

}  // namespace rocmforge
