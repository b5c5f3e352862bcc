// The machine's read bandwidth as weights would meet it: the limit that a benchmark compares with.

#pragma once

#include <atomic>
#include <cstddef>

namespace rocmforge {

/// Bytes per second, the best of several passes over memory of its own; on the runner's thread. Throws `memory`, or
/// `cancelled` between two passes.
double measure_read_bandwidth(size_t size_bytes, size_t threads, const std::atomic<bool>& cancelled);

}  // namespace rocmforge
