// Matmuls in plain C++, for machines that have none of the other sets.

#include "simd/portable-float.h"

#include "simd/portable-bytes.h"
#include "simd/portable-tiles.h"

#include "matmul-table.h"

namespace rocmforge {

const MatmulKernels& matmul_kernels_portable();
const MatmulKernels& matmul_kernels_portable() { return kMatmulKernels; }

}  // namespace rocmforge
