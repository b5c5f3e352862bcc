// NVIDIA, by NVRTC: what has no header-free name in CUDA C++ is one PTX instruction.
#pragma once

#if WAVE != 32
#error "NVIDIA waves have 32 lanes"
#endif

#define DEVICE static __device__ __forceinline__
#define CONSTANT static __device__ const
#define SHARED __shared__
#define DYNAMIC_SHARED(name) extern __shared__ __align__(16) u8 name[]
/** Blocks that a multiprocessor shall hold at a time: a file that must not take too many registers says more. */
#ifndef RESIDENT_BLOCKS
#define RESIDENT_BLOCKS 1
#endif
#define KERNEL(name, Arguments, threads) \
  extern "C" __global__ void __launch_bounds__(threads, RESIDENT_BLOCKS) name(const __grid_constant__ Arguments a)

DEVICE int thread_index() { return threadIdx.x; }
DEVICE int block_x() { return blockIdx.x; }
DEVICE int block_y() { return blockIdx.y; }
DEVICE int block_z() { return blockIdx.z; }
DEVICE void barrier() { __syncthreads(); }
/** Shared memory written by lanes of this wave becomes visible to its other lanes. */
DEVICE void wave_barrier() { __syncwarp(); }

DEVICE u32 wave_exchange(u32 value, int source_lane) { return __shfl_sync(0xffffffffu, value, source_lane); }

/** accumulator + the sum of four products of signed bytes. */
DEVICE int dot4(int left, int right, int accumulator) { return __dp4a(left, right, accumulator); }

/** Bytes of a table of 16, by the low and by the high nibble of each byte of a word. */
DEVICE void look_up_nibbles(u32 word, const Words4& table, u32& low, u32& high) {
  // A selection takes four nibbles at once, low and high ones in turn, from eight bytes: bit 3 then chooses the eight.
  const u32 first = __byte_perm(__byte_perm(table.x, table.y, word & 0x7777u),
                                __byte_perm(table.z, table.w, word & 0x7777u), 0x3210u | ((word >> 1) & 0x4444u));
  const u32 upper = word >> 16;
  const u32 second = __byte_perm(__byte_perm(table.x, table.y, upper & 0x7777u),
                                 __byte_perm(table.z, table.w, upper & 0x7777u), 0x3210u | ((upper >> 1) & 0x4444u));
  low = __byte_perm(first, second, 0x6420u);
  high = __byte_perm(first, second, 0x7531u);
}

DEVICE float half_to_float(u16 bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}

DEVICE u16 float_to_half(float value) {
  u16 bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}

/** Two halves in one word, `low` in the low half. */
DEVICE u32 float2_to_half2(float low, float high) {
  u32 bits;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  return bits;
}

DEVICE float exponential2(float value) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(value));
  return result;
}

DEVICE float reciprocal_root(float value) { return 1.0f / sqrtf(value); }
DEVICE float fma(float left, float right, float sum) { return fmaf(left, right, sum); }
DEVICE float nearest(float value) { return rintf(value); }
DEVICE float magnitude(float value) { return fabsf(value); }

/** Read once by the whole device: 16 bytes that need no place in the small caches. */
DEVICE Words4 load_once(const void* address) {
  Words4 words;
  asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
               : "l"(address));
  return words;
}

/** 16 bytes that other threads read too and no thread writes while this kernel runs. */
DEVICE Words4 load_shared(const void* address) {
  Words4 words;
  asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
               : "l"(address));
  return words;
}

DEVICE u32 atomic_add(u32* address, u32 value) { return atomicAdd(address, value); }
/** What this thread wrote before is visible to the device before what it writes after. */
DEVICE void device_fence() { __threadfence(); }

// A kernel that was launched as dependent may run while the one before it drains: everything before
// dependency_wait() reads only what no kernel writes (weights). dependency_release() lets the next one start early.
DEVICE void dependency_wait() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

DEVICE void dependency_release() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
