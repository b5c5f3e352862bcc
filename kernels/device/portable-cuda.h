// NVIDIA, by NVRTC: what has no header-free name in CUDA C++ is one PTX instruction.
#pragma once

#if WAVE != 32
#error "NVIDIA waves have 32 lanes"
#endif

#define DEVICE static __device__ __forceinline__
#define CONSTANT static __device__ const
#define INLINE_LAMBDA
#define SHARED __shared__
#define DYNAMIC_SHARED(name) extern __shared__ __align__(16) u8 name[]
/** Blocks that a multiprocessor shall hold at a time: a file that must not take too many registers says more. */
#ifndef RESIDENT_BLOCKS
#define RESIDENT_BLOCKS 1
#endif
#define KERNEL(name, Arguments, threads) \
  extern "C" __global__ void __launch_bounds__(threads, RESIDENT_BLOCKS) name(const __grid_constant__ Arguments a)

DEVICE int thread_index() { return threadIdx.x; }
DEVICE int wave_index() { return thread_index() / WAVE; }
DEVICE int block_x() { return blockIdx.x; }
DEVICE int block_y() { return blockIdx.y; }
DEVICE int block_z() { return blockIdx.z; }
DEVICE void barrier() { __syncthreads(); }
/** A barrier that orders what threads of the block write to memory off the chip too. */
DEVICE void memory_barrier() { __syncthreads(); }
/** Shared memory written by lanes of this wave becomes visible to its other lanes. */
DEVICE void wave_barrier() { __syncwarp(); }

DEVICE u32 wave_exchange(u32 value, int source_lane) { return __shfl_sync(0xffffffffu, value, source_lane); }
DEVICE u32 wave_xor(u32 value, int mask) { return wave_exchange(value, (thread_index() % WAVE) ^ mask); }

/** accumulator + the sum of four products of signed bytes. */
DEVICE int dot4(int left, int right, int accumulator) { return __dp4a(left, right, accumulator); }

/** Two quads of nibbles, a byte each, in the order of look_up_nibbles: a selection takes the four nibbles of 16 bits. */
DEVICE u32 pack_nibbles(u32 first, u32 second) {
  const u32 left = first | (first >> 4), right = second | (second >> 4);
  return __byte_perm(__byte_perm(left, 0, 0x4420u), __byte_perm(right, 0, 0x4420u), 0x5410u);
}

/** Four bytes of a table of 16. */
DEVICE u32 look_up_quad(u32 nibbles, const Words4& table) {
  // Bit 3 chooses between two selections from eight bytes.
  return __byte_perm(__byte_perm(table.x, table.y, nibbles & 0x7777u), __byte_perm(table.z, table.w, nibbles & 0x7777u),
                     0x3210u | ((nibbles >> 1) & 0x4444u));
}

/** Bytes of a table of 16, by each nibble of a word of pack_nibbles. */
DEVICE void look_up_nibbles(u32 word, const Words4& table, u32& first, u32& second) {
  first = look_up_quad(word, table);
  second = look_up_quad(word >> 16, table);
}

DEVICE u32 look_up_signed_quad(u32 nibbles, u32 low, u32 high) {
  // A selector of 8 and more repeats the top bit of the byte, which is 0. Else m + 2 × (128 − m) is −m without a carry.
  const u32 low_negative = (0x80808080u - low) & 0x7f7f7f7fu, high_negative = (0x80808080u - high) & 0x7f7f7f7fu;
  u32 negative;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(negative) : "r"(low_negative), "r"(high_negative), "r"(nibbles));
  return __byte_perm(low, high, nibbles & 0x7777u) + 2 * negative;
}

/** Signed bytes, by each nibble of a word of pack_nibbles: 8 + n is magnitude n of eight, n is minus that. */
DEVICE void look_up_signed(u32 word, u32 low, u32 high, u32& first, u32& second) {
  first = look_up_signed_quad(word, low, high);
  second = look_up_signed_quad(word >> 16, low, high);
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

/** A pointer from an address that was read from memory. */
template <typename Element>
DEVICE Element* global_pointer(u64 address) {
  return reinterpret_cast<Element*>(address);
}

/** `bytes` and `more` past a place that is the same for all lanes. */
DEVICE const u8* lane_place(const u8* place, int bytes, int more) { return place + bytes + more; }

/** Whether weights must be asked for before a dependency_wait() that comes after them: loads of what never changes (`.nc`) the
 *  compiler may put behind it. A file that depends on it says so. */
#ifndef ORDERED_LOADS
#define ORDERED_LOADS 0
#endif
#if ORDERED_LOADS
#define LOAD_ONCE "ld.global.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
#define LOAD_SHARED "ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
#else
#define LOAD_ONCE "ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
#define LOAD_SHARED "ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];"
#endif

/** Read once by the whole device: 16 bytes that need no place in the small caches. */
DEVICE Words4 load_once(const void* address) {
  Words4 words;
  asm volatile(LOAD_ONCE : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w) : "l"(address));
  return words;
}

/** 16 bytes that other threads read too and no thread writes while this kernel runs. */
DEVICE Words4 load_shared(const void* address) {
  Words4 words;
  asm volatile(LOAD_SHARED : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w) : "l"(address));
  return words;
}

/** Loads of NVIDIA's arrive in any order. */
DEVICE void keep_load_order() {}
DEVICE void settle(float&) {}
DEVICE int anew(int value) { return value; }

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
