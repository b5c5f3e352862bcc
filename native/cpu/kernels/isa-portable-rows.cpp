// The row kernels for plain C++. Compiled with flags of its own, so nothing here may be shared with other units.

// clang-format off
#include "simd/portable-float.h"
#include "exponential.h"
#include "row-table.h"
// clang-format on

namespace rocmforge {

const RowKernels& row_kernels_portable() { return kRowKernels; }

}  // namespace rocmforge
