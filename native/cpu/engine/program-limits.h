// What the checks of a program share: limits, and refusals that name the place.

#pragma once

#include <cstddef>
#include <string>

#include "error.h"
#include "program.h"

namespace rocmforge {

// Far above every model. Within these limits, two sizes of a step multiply without overflow and every phase counts
// within 32 bits.
constexpr size_t kMaxListed = size_t{1} << 20;
constexpr size_t kWidest = size_t{1} << 28;
constexpr size_t kMaxHeads = 4096;
constexpr size_t kMaxTokens = 65536;
constexpr size_t kMaxThreads = 1024;
constexpr size_t kMaxContext = (size_t{1} << 31) - 1;
/// Matmuls of one instruction.
constexpr size_t kMaxMatmuls = 64;
/// Tables of rope angles: a model has one or two.
constexpr size_t kMaxAngles = 256;

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

}  // namespace rocmforge
