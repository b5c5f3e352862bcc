// Products in plain C++, for machines that have none of the other sets.

#include "simd/portable-float.h"

#include "simd/portable-bytes.h"
#include "simd/portable-tiles.h"

#include "product-table.h"

namespace rocmforge {

const ProductKernels& product_kernels_portable();
const ProductKernels& product_kernels_portable() { return kProductKernels; }

}  // namespace rocmforge
