// Products with NEON as ARMv8.2 has it, with dot product and half precision.

#include "simd/neon-float.h"

#include "simd/neon-bytes.h"
#include "simd/neon-tiles.h"

#include "product-table.h"

namespace rocmforge {

const ProductKernels& product_kernels_neon();
const ProductKernels& product_kernels_neon() { return kProductKernels; }

}  // namespace rocmforge
