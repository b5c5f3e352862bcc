// The most 8-bit multiply-adds a second that the machine's cores can do: the limit that a benchmark compares prefill with.

#pragma once

#include <atomic>
#include <cstddef>

#include "../kernels/kernel-table.h"

namespace rocmforge {

/// Multiply-adds per second of all threads together, the best of several passes; 0 if the instruction set has no
/// instruction for dot products. On the runner's thread. Throws `cancelled` between two passes.
double measure_dot_product_peak(const MatmulKernels& kernels, size_t threads, const std::atomic<bool>& cancelled);

}  // namespace rocmforge
