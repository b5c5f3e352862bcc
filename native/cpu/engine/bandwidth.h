// The machine's read bandwidth as weights would meet it: the limit that a benchmark compares with.

#pragma once

#include <cstddef>

namespace rocmforge {

/// Bytes per second, the best of several passes over memory of its own; on the runner's thread. Throws `memory`.
double measure_read_bandwidth(size_t size_bytes, size_t threads);

}  // namespace rocmforge
