// The row kernels for NEON. Compiled with flags of its own, so nothing here may be shared with other units.

// clang-format off
#include "simd/neon-float.h"
#include "exponential.h"
#include "row-table.h"
// clang-format on

namespace rocmforge {

const RowKernels& row_kernels_neon() { return kRowKernels; }

}  // namespace rocmforge
