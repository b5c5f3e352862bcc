// What kernels take from the machine, under one name each: AMD (hiprtc, or clang with no headers and no device
// library),
// NVIDIA (NVRTC with no headers) and the host, where the test double runs them. Kernels are plain C++ but for this.
// The compiler's options define WAVE, the number of lanes that run together: 32 or 64.
//
// Rules that all three keep: a kernel has one argument, a struct; its block size is the compile-time constant given to
// KERNEL; every lane of a wave takes part in a wave_… call, every thread that has not returned in barrier(), which orders
// shared memory alone: threads that read what others of the block have written to other memory meet in memory_barrier().
#pragma once

typedef signed char i8;
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

struct alignas(16) Words4 {
  u32 x, y, z, w;
};

#if defined(ROCMFORGE_EMULATOR)
#include "emulated-device.h"  // given by the test double: thread_index() … wave_exchange(), KERNEL, SHARED, DYNAMIC_SHARED
#elif defined(__CUDA_ARCH__) || defined(__CUDACC_RTC__) || defined(__CUDACC__)
#include "device/portable-cuda.h"
#else
#include "device/portable-hip.h"
#endif

DEVICE int lane_index() { return thread_index() % WAVE; }

DEVICE u32 bits_of(float value) { return __builtin_bit_cast(u32, value); }
DEVICE float float_of(u32 bits) { return __builtin_bit_cast(float, bits); }
/** Score of a position that is not attended to, logit of a token that must not be chosen. */
DEVICE float negative_infinity() { return float_of(0xff800000u); }

DEVICE float bfloat_to_float(u16 bits) { return float_of(u32(bits) << 16); }

/** To the nearest, ties to even; a NaN stays one. */
DEVICE u16 float_to_bfloat(float value) {
  const u32 bits = bits_of(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return u16((bits >> 16) | 0x40);
  return u16((bits + 0x7fffu + ((bits >> 16) & 1)) >> 16);
}

DEVICE float max(float left, float right) { return left > right ? left : right; }
DEVICE int min(int left, int right) { return left < right ? left : right; }

DEVICE float exponential(float value) { return exponential2(value * 1.44269504088896340736f); }
DEVICE float sigmoid(float value) { return 1.0f / (1.0f + exponential(-value)); }

DEVICE int wave_xor(int value, int mask) { return int(wave_xor(u32(value), mask)); }
DEVICE float wave_xor(float value, int mask) { return float_of(wave_xor(bits_of(value), mask)); }
DEVICE float wave_from(float value, int lane) { return float_of(wave_exchange(bits_of(value), lane)); }
DEVICE int wave_from(int value, int lane) { return int(wave_exchange(u32(value), lane)); }

/** Over groups of `Lanes` neighbours (a power of two, at most WAVE); every lane gets its group's result. */
template <int Lanes = WAVE, typename Number>
DEVICE Number wave_sum(Number value) {
#pragma unroll
  for (int mask = Lanes / 2; mask > 0; mask /= 2) value += wave_xor(value, mask);
  return value;
}

template <int Lanes = WAVE>
DEVICE float wave_max(float value) {
#pragma unroll
  for (int mask = Lanes / 2; mask > 0; mask /= 2) value = max(value, wave_xor(value, mask));
  return value;
}

/** Over a block of Threads; `scratch` is shared memory for Threads / WAVE numbers. Every thread gets the result. */
template <int Threads>
DEVICE float block_sum(float value, float* scratch) {
  constexpr int Waves = (Threads + WAVE - 1) / WAVE;
  value = wave_sum(value);
  if (Waves == 1) return value;
  barrier();
  if (lane_index() == 0) scratch[wave_index()] = value;
  barrier();
  float total = 0;
  for (int wave = 0; wave < Waves; wave++) total += scratch[wave];
  return total;
}

template <int Threads>
DEVICE float block_max(float value, float* scratch) {
  constexpr int Waves = (Threads + WAVE - 1) / WAVE;
  value = wave_max(value);
  if (Waves == 1) return value;
  barrier();
  if (lane_index() == 0) scratch[wave_index()] = value;
  barrier();
  float most = scratch[0];
  for (int wave = 1; wave < Waves; wave++) most = max(most, scratch[wave]);
  return most;
}
