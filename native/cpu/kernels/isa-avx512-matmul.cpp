// Matmuls with AVX-512 (F, BW, VL, DQ, VNNI).

#include "simd/avx512-float.h"

#include "simd/avx512-bytes.h"
#include "simd/avx512-tiles.h"

#include "quant/types.h"

#include "simd/avx512-row-forms.h"
#include "simd/avx512-one-panel.h"
#include "simd/avx512-tile-forms.h"
#include "simd/avx512-lane-gemm.h"

#include "matmul-table.h"

namespace rocmforge {

const MatmulKernels& matmul_kernels_avx512();
const MatmulKernels& matmul_kernels_avx512() { return kMatmulKernels; }

}  // namespace rocmforge
