// Which kernels may run here. The build says which units it has (ROCMFORGE_HAS_*); the processor and the operating
// system say which of them are safe to call.

#include "isa.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#if defined(ROCMFORGE_HAS_NEON) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace rocmforge {

const MatmulKernels& matmul_kernels_portable();
const RowKernels& row_kernels_portable();
#if defined(ROCMFORGE_HAS_AVX512)
const MatmulKernels& matmul_kernels_avx512();
const RowKernels& row_kernels_avx512();
#endif
#if defined(ROCMFORGE_HAS_AVX2)
const MatmulKernels& matmul_kernels_avx2();
const RowKernels& row_kernels_avx2();
#endif
#if defined(ROCMFORGE_HAS_NEON)
const MatmulKernels& matmul_kernels_neon();
const RowKernels& row_kernels_neon();
#endif

namespace {

#if defined(ROCMFORGE_HAS_AVX512)
/// By CPUID, because older compilers do not know F16C by name. AVX2 is tested beside it, which says that the operating
/// system saves the registers.
bool has_f16c() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

bool has_avx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         has_f16c();
}
#endif

#if defined(ROCMFORGE_HAS_AVX2)
bool has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c(); }
#endif

#if defined(ROCMFORGE_HAS_NEON)
bool has_neon() {
#if defined(__linux__)
  const unsigned long wanted = HWCAP_ASIMDDP | HWCAP_ASIMDHP | HWCAP_FPHP;
  return (getauxval(AT_HWCAP) & wanted) == wanted;
#elif defined(__APPLE__)
  return true;  // Every ARM Mac has the dot product and half floats.
#else
  return false;
#endif
}
#endif

std::vector<KernelTable> usable_tables() {
  std::vector<KernelTable> tables;
#if defined(ROCMFORGE_HAS_AVX512)
  if (has_avx512()) tables.push_back({"avx512", &matmul_kernels_avx512(), &row_kernels_avx512()});
#endif
#if defined(ROCMFORGE_HAS_AVX2)
  if (has_avx2()) tables.push_back({"avx2", &matmul_kernels_avx2(), &row_kernels_avx2()});
#endif
#if defined(ROCMFORGE_HAS_NEON)
  if (has_neon()) tables.push_back({"neon", &matmul_kernels_neon(), &row_kernels_neon()});
#endif
  tables.push_back({"portable", &matmul_kernels_portable(), &row_kernels_portable()});
  return tables;
}

}  // namespace

const std::vector<KernelTable>& kernel_tables() {
  static const std::vector<KernelTable> tables = usable_tables();
  return tables;
}

const KernelTable* find_kernel_table(const std::string& name) {
  for (const KernelTable& table : kernel_tables()) {
    if (name == table.name) return &table;
  }
  return nullptr;
}

}  // namespace rocmforge
