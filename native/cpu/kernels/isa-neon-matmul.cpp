// Matmuls with NEON as ARMv8.2 has it, with dot product and half precision.

#include "simd/neon-float.h"

#include "simd/neon-bytes.h"
#include "simd/neon-tiles.h"

#include "matmul-table.h"

namespace rocmforge {

const MatmulKernels& matmul_kernels_neon();
const MatmulKernels& matmul_kernels_neon() { return kMatmulKernels; }

}  // namespace rocmforge
