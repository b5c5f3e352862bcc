// Four floats at a time with NEON as ARMv8.2 has it. Every *-float.h offers the same names, so that kernels are written
// once over them. No load or store needs alignment.
// min and max give NaN when either operand is NaN (elsewhere: their second operand); the rest follows IEEE 754.

#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace rocmforge {
namespace {

constexpr size_t kLanes = 4;
/// Vector registers of type F that a kernel's tile may count on.
constexpr size_t kRegisters = 32;

using F = float32x4_t;
using I = int32x4_t;
/// All bits of a lane set, or none.
struct M {
  uint32x4_t lanes;
};

inline M first_lanes(size_t count) {
  const uint32_t lane[kLanes] = {0, 1, 2, 3};
  return {vcltq_u32(vld1q_u32(lane), vdupq_n_u32(static_cast<uint32_t>(count)))};
}

inline F zero() { return vdupq_n_f32(0); }
inline F set(float value) { return vdupq_n_f32(value); }
/// By bytes, because weights lie in the file at any address.
inline F load(const float* from) { return vreinterpretq_f32_u8(vld1q_u8(reinterpret_cast<const uint8_t*>(from))); }
/// The first `count` lanes (at most kLanes); the rest are zero, and their memory is not touched.
inline F load_part(const float* from, size_t count) {
  float lanes[kLanes] = {};
  memcpy(lanes, from, count * sizeof(float));
  return load(lanes);
}
inline void store(float* to, F value) { vst1q_f32(to, value); }
inline void store_part(float* to, F value, size_t count) {
  float lanes[kLanes];
  store(lanes, value);
  memcpy(to, lanes, count * sizeof(float));
}

inline uint16x4_t load_halves(const void* from) {
  uint16x4_t halves;
  memcpy(&halves, from, sizeof halves);
  return halves;
}
inline F load_f16(const void* from) { return vcvt_f32_f16(vreinterpret_f16_u16(load_halves(from))); }
inline F load_bf16(const void* from) { return vreinterpretq_f32_u32(vshll_n_u16(load_halves(from), 16)); }
inline F load_i8(const int8_t* from) {
  int32_t bytes;
  memcpy(&bytes, from, sizeof bytes);
  const int16x8_t words = vmovl_s8(vreinterpret_s8_s32(vdup_n_s32(bytes)));
  return vcvtq_f32_s32(vmovl_s16(vget_low_s16(words)));
}
/// Nearest, ties to even.
inline void store_f16(void* to, F value) {
  const float16x4_t halves = vcvt_f16_f32(value);
  memcpy(to, &halves, sizeof halves);
}
/// Lanes hold whole numbers from -128 to 127.
inline void store_i8(int8_t* to, I value) {
  const int16x4_t words = vmovn_s32(value);
  const int8x8_t bytes = vmovn_s16(vcombine_s16(words, words));
  memcpy(to, &bytes, kLanes);
}

inline F add(F a, F b) { return vaddq_f32(a, b); }
inline F sub(F a, F b) { return vsubq_f32(a, b); }
inline F mul(F a, F b) { return vmulq_f32(a, b); }
inline F div(F a, F b) { return vdivq_f32(a, b); }
inline F min(F a, F b) { return vminq_f32(a, b); }
inline F max(F a, F b) { return vmaxq_f32(a, b); }
inline F abs(F a) { return vabsq_f32(a); }
/// a × b + c, rounded once if the instruction set can.
inline F fma(F a, F b, F c) { return vfmaq_f32(c, a, b); }

/// Over all lanes, always in the same order.
inline float sum(F a) { return vaddvq_f32(a); }
inline float reduce_max(F a) { return vmaxvq_f32(a); }

/// To the nearest whole number, ties to even.
inline F round(F a) { return vrndnq_f32(a); }
/// The same as integers; the value must fit.
inline I round_to_int(F a) { return vcvtnq_s32_f32(a); }
inline F to_float(I a) { return vcvtq_f32_s32(a); }
inline I set_int(int32_t value) { return vdupq_n_s32(value); }
inline F power_of_two(int32x4_t power) {
  return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(power, vdupq_n_s32(127)), 23));
}
/// value × 2^power, where `power` holds whole numbers from -252 to 254.
inline F times_power_of_two(F value, F power) {
  // In two steps, because 2^power itself may be no normal float.
  const int32x4_t whole = vcvtnq_s32_f32(power);
  const int32x4_t half = vshrq_n_s32(whole, 1);
  return mul(mul(value, power_of_two(half)), power_of_two(vsubq_s32(whole, half)));
}

inline F select(M mask, F yes, F no) { return vbslq_f32(mask.lanes, yes, no); }
inline M greater(F a, F b) { return {vcgtq_f32(a, b)}; }
inline M equal(F a, F b) { return {vceqq_f32(a, b)}; }
/// Neither NaN nor infinite.
inline M finite(F a) { return {vcltq_f32(vabsq_f32(a), vdupq_n_f32(__builtin_inff()))}; }
inline M both(M a, M b) { return {vandq_u32(a.lanes, b.lanes)}; }
inline bool any(M mask) { return vmaxvq_u32(mask.lanes) != 0; }
inline bool all(M mask) { return vminvq_u32(mask.lanes) != 0; }
/// The lowest lane that is set; some must be.
inline size_t first(M mask) {
  // 16 bits of each lane, side by side in one word.
  const uint64_t lanes = vget_lane_u64(vreinterpret_u64_u16(vmovn_u32(mask.lanes)), 0);
  return static_cast<size_t>(__builtin_ctzll(lanes)) / 16;
}

}  // namespace
}  // namespace rocmforge
