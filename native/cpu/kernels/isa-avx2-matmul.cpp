// Matmuls with AVX2, FMA and F16C.

#include "simd/avx2-float.h"

#include "simd/avx2-bytes.h"
#include "simd/avx2-tiles.h"

#include "matmul-table.h"

namespace rocmforge {

const MatmulKernels& matmul_kernels_avx2();
const MatmulKernels& matmul_kernels_avx2() { return kMatmulKernels; }

}  // namespace rocmforge
