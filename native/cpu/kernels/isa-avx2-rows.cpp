// The row kernels for AVX2. Compiled with flags of its own, so nothing here may be shared with other units.

// clang-format off
#include "simd/avx2-float.h"
#include "exponential.h"
#include "row-table.h"
// clang-format on

namespace rocmforge {

const RowKernels& row_kernels_avx2() { return kRowKernels; }

}  // namespace rocmforge
