// Matmuls in plain C++, for machines that have none of the other sets.

#include "simd/portable-float.h"

#include "simd/portable-bytes.h"
#include "simd/portable-tiles.h"

#include "matmul-table.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace rocmforge {

namespace {

#if defined(__x86_64__)

/// Zen 5 and later ones; Zen 3 and Zen 4 are 0x19.
constexpr unsigned kZen5Family = 0x1a;

/// As cpuid tells it: the family, and what the base field is too small for.
unsigned processor_family() {
  unsigned version = 0, unused = 0;
  if (__get_cpuid(1, &version, &unused, &unused, &unused) == 0) return 0;
  const unsigned base = version >> 8 & 0xf;
  return base == 0xf ? base + (version >> 20 & 0xff) : base;
}

/// Intel's, as measured on Cascade Lake, and AMD's from Zen 5 on (gemv.h); on Zen 4 every type became slower.
bool streams_need_prefetch() {
  __builtin_cpu_init();
  return __builtin_cpu_is("intel") || (__builtin_cpu_is("amd") && processor_family() >= kZen5Family);
}

#else

bool streams_need_prefetch() { return false; }

#endif

}  // namespace

const bool kStreamsNeedPrefetch = streams_need_prefetch();

const MatmulKernels& matmul_kernels_portable();
const MatmulKernels& matmul_kernels_portable() { return kMatmulKernels; }

}  // namespace rocmforge
