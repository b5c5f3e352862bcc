// Products with AVX2, FMA and F16C.

#include "simd/avx2-float.h"

#include "simd/avx2-bytes.h"
#include "simd/avx2-tiles.h"

#include "product-table.h"

namespace rocmforge {

const ProductKernels& product_kernels_avx2();
const ProductKernels& product_kernels_avx2() { return kProductKernels; }

}  // namespace rocmforge
