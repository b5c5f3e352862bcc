// What the checks of a program share: limits, and refusals that name the place.

#pragma once

#include <cstddef>
#include <string>

#include "error.h"
#include "program.h"

namespace rocmforge {

// Far above every model; below, no product of two sizes of a step overflows and every phase counts within 32 bits.
constexpr size_t kMostListed = size_t{1} << 20;
constexpr size_t kWidest = size_t{1} << 28;
constexpr size_t kMostHeads = 4096;
constexpr size_t kMostTokens = 65536;
constexpr size_t kMostThreads = 1024;
constexpr size_t kMostContext = (size_t{1} << 31) - 1;
constexpr size_t kMostProducts = 64;
/// Tables of rope angles: a model has one or two.
constexpr size_t kMostAngles = 256;

inline std::string text(size_t number) { return std::to_string(number); }

inline const char* row_kind_name(RowKind rows) {
  return rows == RowKind::tokens ? "tokens" : rows == RowKind::outputs ? "outputs" : "scored";
}

inline void require_range(const std::string& where, size_t found, size_t least, size_t most) {
  if (found < least || found > most) refuse(where, text(least) + " to " + text(most), text(found));
}

inline void require_equal(const std::string& where, size_t expected, size_t found) {
  if (expected != found) refuse(where, text(expected), text(found));
}

/// Checks one instruction and completes the fields that say so.
void check_instruction(Program& program, size_t index);

}  // namespace rocmforge
