// The machine as kernels/device/portable.h wants it, on the host: one thread of a block is one fiber (block-runner.cpp).
// A kernel becomes three symbols: its entry, the size of its argument and the size of its block. No header of the C
// library is read, so that a kernel takes no longer to compile than it must.
#pragma once
#include "emulated-block.h"

// Every host thread that runs blocks has a copy of the module to itself (module.cpp), and a block runs on one host thread
// from beginning to end: what would be a block's or a thread's own on a device is a plain variable here.
// Uninitialised ones lie in .bss, which holds nothing else and is filled with NaNs before each block.
#define DEVICE static inline
#define CONSTANT static const
#define INLINE_LAMBDA
#define SHARED static
#define DYNAMIC_SHARED(name) u8* const name = static_cast<u8*>(emulated_block->dynamic_shared)
// Faults of a compiler that were asked for (settings.h).
#if defined(EMULATED_WRONG_block)
#define EMULATED_SKIPS(running) ((running)->block[0] == 0 && (running)->block[1] == 0 && (running)->block[2] == 0)
#else
#define EMULATED_SKIPS(running) false
#endif
#define EMULATED_KERNEL_MARK __attribute__((section("emulated_kernels"), used))
#define KERNEL(name, Arguments, threads)                    \
  static void name##_body(const Arguments& a);              \
  extern "C" {                                              \
  extern const unsigned name##_argument_bytes;              \
  extern const unsigned name##_threads;                     \
  const unsigned name##_argument_bytes = sizeof(Arguments); \
  const unsigned name##_threads = (threads);                \
  EMULATED_KERNEL_MARK static const char name##_mark = 1;   \
  void name(EmulatedBlock* block, const void* argument) {   \
    emulated_block = block;                                 \
    if (EMULATED_SKIPS(block)) return;                      \
    name##_body(*static_cast<const Arguments*>(argument));  \
  }                                                         \
  }                                                         \
  static void name##_body(const Arguments& a)

__attribute__((section(".data"))) static EmulatedBlock* emulated_block = nullptr;

extern "C" {
extern char __bss_start[] __attribute__((visibility("hidden")));
extern char _end[] __attribute__((visibility("hidden")));
// The linker's own names for the ends of a section; none where no kernel put anything in it.
extern const char __start_emulated_kernels[] __attribute__((weak, visibility("hidden")));
extern const char __stop_emulated_kernels[] __attribute__((weak, visibility("hidden")));
extern const int emulated_wave, emulated_frames;
const int emulated_wave = WAVE;
/** Whether calls can be followed back through frame pointers. */
#if defined(ROCMFORGE_EMULATOR_FRAMES)
const int emulated_frames = 1;
#else
const int emulated_frames = 0;
#endif
/** Where the shared memory of this module's kernels is, for the runner. */
inline __attribute__((used)) char* emulated_shared(unsigned long* size_bytes) {
  *size_bytes = static_cast<unsigned long>(_end - __bss_start);
  return __bss_start;
}
inline __attribute__((used)) unsigned long emulated_kernel_count() {
  return static_cast<unsigned long>(__stop_emulated_kernels - __start_emulated_kernels);
}
}

DEVICE int thread_index() { return emulated_block->thread; }
DEVICE int block_x() { return emulated_block->block[0]; }
DEVICE int block_y() { return emulated_block->block[1]; }
DEVICE int block_z() { return emulated_block->block[2]; }
DEVICE int wave_index() { return thread_index() / WAVE; }
DEVICE void barrier() { emulated_block->barrier(emulated_block); }
DEVICE void memory_barrier() { barrier(); }
DEVICE void wave_barrier() { emulated_block->wave_barrier(emulated_block); }
DEVICE u32 wave_exchange(u32 value, int source_lane) {
  const u32 received = emulated_block->exchange(emulated_block, value, source_lane);
#if defined(EMULATED_WRONG_lane)
  if (source_lane % WAVE == WAVE - 1) return 0;
#endif
  return received;
}
DEVICE u32 wave_xor(u32 value, int mask) { return wave_exchange(value, (thread_index() % WAVE) ^ mask); }

DEVICE int dot4(int left, int right, int accumulator) {
#if defined(EMULATED_WRONG_dot)
  constexpr int kBits = 24;
#else
  constexpr int kBits = 32;
#endif
  for (int byte = 0; byte < kBits; byte += 8) accumulator += int(i8(left >> byte)) * int(i8(right >> byte));
  return accumulator;
}

/** Two quads of nibbles, a byte each, in the order of look_up_nibbles. */
DEVICE u32 pack_nibbles(u32 first, u32 second) { return first | (second << 4); }

/** Bytes of a table of 16, by each nibble of a word of pack_nibbles. */
DEVICE void look_up_nibbles(u32 word, const Words4& table, u32& first, u32& second) {
  const u32 words[4] = {table.x, table.y, table.z, table.w};
  first = second = 0;
  for (int shift = 0; shift < 32; shift += 8) {
    const u32 left = (word >> shift) & 15, right = (word >> (shift + 4)) & 15;
    first |= ((words[left / 4] >> (left % 4 * 8)) & 255) << shift;
    second |= ((words[right / 4] >> (right % 4 * 8)) & 255) << shift;
  }
}

/** Signed bytes, by each nibble of a word of pack_nibbles: 8 + n is magnitude n of eight, n is minus that. */
DEVICE void look_up_signed(u32 word, u32 low, u32 high, u32& first, u32& second) {
  const u32 low_negative = (0x80808080u - low) ^ 0x80808080u, high_negative = (0x80808080u - high) ^ 0x80808080u;
  look_up_nibbles(word, {low_negative, high_negative, low, high}, first, second);
}

#if defined(__F16C__) && !defined(EMULATED_PLAIN_HALVES)
typedef short EmulatedHalves __attribute__((vector_size(16)));
typedef float EmulatedFloats __attribute__((vector_size(16)));
DEVICE float half_to_float(u16 bits) { return __builtin_ia32_vcvtph2ps(EmulatedHalves{short(bits)})[0]; }
DEVICE u16 float_to_half(float value) { return u16(__builtin_ia32_vcvtps2ph(EmulatedFloats{value}, 0)[0]); }
#else
DEVICE float half_to_float(u16 bits) {
  const u32 sign = u32(bits & 0x8000) << 16;
  const u32 exponent = (bits >> 10) & 31, fraction = bits & 1023;
  // 2^-24 is what the last bit of the smallest halves counts.
  if (exponent == 0) return __builtin_copysignf(float(fraction) * 0x1p-24f, __builtin_bit_cast(float, sign));
  const u32 wide = exponent == 31 ? 0x7f800000u | (fraction << 13) : ((exponent + 112) << 23) | (fraction << 13);
  return __builtin_bit_cast(float, wide | sign);
}

/** To the nearest, ties to even; too large becomes infinite. */
DEVICE u16 float_to_half(float value) {
  u32 bits = __builtin_bit_cast(u32, value);
  const u16 sign = u16((bits >> 16) & 0x8000);
  bits &= 0x7fffffffu;
  if (bits > 0x7f800000u) return u16(sign | 0x7e00);
  if (bits >= 0x477ff000u) return u16(sign | 0x7c00);
  if (bits < 0x38800000u) return u16(sign | u16(__builtin_rintf(__builtin_bit_cast(float, bits) * 0x1p24f)));
  return u16(sign | u16((bits - 0x38000000u + 0xfffu + ((bits >> 13) & 1)) >> 13));
}
#endif

DEVICE u32 float2_to_half2(float low, float high) { return u32(float_to_half(low)) | (u32(float_to_half(high)) << 16); }

DEVICE float exponential2(float value) { return __builtin_exp2f(value); }
DEVICE float reciprocal_root(float value) { return 1.0f / __builtin_sqrtf(value); }
DEVICE float fma(float left, float right, float sum) { return __builtin_fmaf(left, right, sum); }
DEVICE float nearest(float value) { return __builtin_rintf(value); }
DEVICE float magnitude(float value) { return __builtin_fabsf(value); }

/** A device faults on a wide load that is not aligned; here the processor would let it pass. */
DEVICE Words4 emulated_load(const void* address) {
  if (__builtin_expect((reinterpret_cast<u64>(address) & 15) != 0, 0)) __builtin_trap();
  return *static_cast<const Words4*>(address);
}
template <typename Element>
DEVICE Element* global_pointer(u64 address) {
  return reinterpret_cast<Element*>(address);
}
DEVICE const u8* lane_place(const u8* place, int bytes, int more) { return place + bytes + more; }
DEVICE Words4 load_once(const void* address) { return emulated_load(address); }
DEVICE Words4 load_shared(const void* address) { return emulated_load(address); }

DEVICE void keep_load_order() {}
DEVICE void settle(float&) {}
DEVICE int anew(int value) { return value; }

DEVICE u32 atomic_add(u32* address, u32 value) { return __atomic_fetch_add(address, value, __ATOMIC_RELAXED); }
DEVICE void device_fence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
DEVICE void dependency_wait() {}
DEVICE void dependency_release() {}
