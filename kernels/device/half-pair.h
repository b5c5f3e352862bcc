// Two halves in a word, the first in the low half: what machines do to both at once. Each operation rounds once.
#pragma once
#include "device/portable.h"

#if !defined(ROCMFORGE_EMULATOR) && (defined(__CUDA_ARCH__) || defined(__CUDACC_RTC__) || defined(__CUDACC__))

DEVICE u32 pair_subtract(u32 left, u32 right) {
  u32 result;
  asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(result) : "r"(left), "r"(right));
  return result;
}

DEVICE u32 pair_multiply(u32 left, u32 right) {
  u32 result;
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(result) : "r"(left), "r"(right));
  return result;
}

DEVICE u32 pair_fma(u32 left, u32 right, u32 sum) {
  u32 result;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(result) : "r"(left), "r"(right), "r"(sum));
  return result;
}

/** Bytes 0 and 1 of a word, or 2 and 3, each below the byte `high`. */
template <int Upper>
DEVICE u32 bytes_below(u32 bytes, u32 high) {
  return __byte_perm(bytes, high, Upper ? 0x4342 : 0x4140);
}

#elif !defined(ROCMFORGE_EMULATOR)

typedef _Float16 HalfPair __attribute__((ext_vector_type(2)));

DEVICE u32 pair_subtract(u32 left, u32 right) {
  return __builtin_bit_cast(u32, __builtin_bit_cast(HalfPair, left) - __builtin_bit_cast(HalfPair, right));
}

DEVICE u32 pair_multiply(u32 left, u32 right) {
  return __builtin_bit_cast(u32, __builtin_bit_cast(HalfPair, left) * __builtin_bit_cast(HalfPair, right));
}

DEVICE u32 pair_fma(u32 left, u32 right, u32 sum) {
  const HalfPair x = __builtin_bit_cast(HalfPair, left), y = __builtin_bit_cast(HalfPair, right),
                 z = __builtin_bit_cast(HalfPair, sum);
#if __has_builtin(__builtin_elementwise_fma)
  return __builtin_bit_cast(u32, __builtin_elementwise_fma(x, y, z));
#else
  const HalfPair result = {_Float16(__builtin_fmaf16(x[0], y[0], z[0])), _Float16(__builtin_fmaf16(x[1], y[1], z[1]))};
  return __builtin_bit_cast(u32, result);
#endif
}

template <int Upper>
DEVICE u32 bytes_below(u32 bytes, u32 high) {
  return __builtin_amdgcn_perm(high, bytes, Upper ? 0x04030402u : 0x04010400u);
}

#else

DEVICE u32 pair_multiply(u32 left, u32 right) {
  const float low = half_to_float(u16(left)) * half_to_float(u16(right));
  return float2_to_half2(low, half_to_float(u16(left >> 16)) * half_to_float(u16(right >> 16)));
}

DEVICE u32 pair_fma(u32 left, u32 right, u32 sum) {
  const float low = fma(half_to_float(u16(left)), half_to_float(u16(right)), half_to_float(u16(sum)));
  const float high =
      fma(half_to_float(u16(left >> 16)), half_to_float(u16(right >> 16)), half_to_float(u16(sum >> 16)));
  return float2_to_half2(low, high);
}

DEVICE u32 pair_subtract(u32 left, u32 right) {
  const float low = half_to_float(u16(left)) - half_to_float(u16(right));
  return float2_to_half2(low, half_to_float(u16(left >> 16)) - half_to_float(u16(right >> 16)));
}

template <int Upper>
DEVICE u32 bytes_below(u32 bytes, u32 high) {
  const u32 two = bytes >> (Upper * 16);
  return (two & 0xffu) | ((two & 0xff00u) << 8) | ((high & 0xffu) * 0x01000100u);
}

#endif

/** (word & mask) ^ bits. NVIDIA's assembler would make two instructions of two constants. */
DEVICE u32 masked_flip(u32 word, u32 mask, u32 bits) {
#if !defined(ROCMFORGE_EMULATOR) && (defined(__CUDA_ARCH__) || defined(__CUDACC_RTC__) || defined(__CUDACC__))
  u32 result;
  asm("lop3.b32 %0, %1, %2, %3, 0x6a;" : "=r"(result) : "r"(word), "r"(mask), "r"(bits));
  return result;
#else
  return (word & mask) ^ bits;
#endif
}

/** The first half of a word twice, and the second. */
DEVICE u32 first_twice(u32 pair) { return (pair & 0xffffu) | (pair << 16); }
DEVICE u32 second_twice(u32 pair) { return (pair >> 16) | (pair & 0xffff0000u); }
