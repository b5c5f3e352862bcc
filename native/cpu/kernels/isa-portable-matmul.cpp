// Matmuls in plain C++, for machines that have none of the other sets.

#include "simd/portable-float.h"

#include "simd/portable-bytes.h"
#include "simd/portable-tiles.h"

#include "matmul-table.h"

namespace rocmforge {

namespace {

/// Intel's, as measured on Cascade Lake (gemv.h); on Zen 4 every type became slower.
bool is_intel() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  return __builtin_cpu_is("intel");
#else
  return false;
#endif
}

}  // namespace

const bool kStreamsNeedPrefetch = is_intel();

const MatmulKernels& matmul_kernels_portable();
const MatmulKernels& matmul_kernels_portable() { return kMatmulKernels; }

}  // namespace rocmforge
