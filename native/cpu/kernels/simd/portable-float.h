// Eight floats at a time in plain C++ with the vector types of GCC and Clang, which become whatever the machine has
// (two SSE2 or NEON registers, or scalars). Every *-float.h offers the same names, so that kernels are written once
// over them. No load or store needs alignment. min and max give their second operand when either is NaN.

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace rocmforge {
namespace {

constexpr size_t kLanes = 8;
/// Vector registers of type F that a kernel's tile may count on.
constexpr size_t kRegisters = 8;

constexpr size_t kQuadLanes = 4;
typedef float QuadF __attribute__((vector_size(16)));
typedef int32_t QuadI __attribute__((vector_size(16)));
typedef uint32_t QuadU __attribute__((vector_size(16)));
typedef uint16_t QuadH __attribute__((vector_size(8)));
typedef int8_t QuadB __attribute__((vector_size(4)));
typedef uint16_t EightH __attribute__((vector_size(16)));
typedef int8_t SixteenB __attribute__((vector_size(16)));
typedef uint64_t PairL __attribute__((vector_size(16)));

struct F {
  QuadF low, high;
};
struct I {
  QuadI low, high;
};
/// All bits of a lane set, or none.
struct M {
  QuadI low, high;
};

inline QuadF splat(float value) { return QuadF{value, value, value, value}; }
inline QuadI splat_int(int32_t value) { return QuadI{value, value, value, value}; }
inline QuadF choose(QuadI mask, QuadF yes, QuadF no) { return (QuadF)((mask & (QuadI)yes) | (~mask & (QuadI)no)); }
inline QuadI choose_int(QuadI mask, QuadI yes, QuadI no) { return (mask & yes) | (~mask & no); }

inline M first_lanes(size_t count) {
  const int32_t lanes = static_cast<int32_t>(count);
  return {QuadI{0, 1, 2, 3} < splat_int(lanes), QuadI{4, 5, 6, 7} < splat_int(lanes)};
}

inline F zero() { return {splat(0), splat(0)}; }
inline F set(float value) { return {splat(value), splat(value)}; }
inline F load(const float* from) {
  F value;
  memcpy(&value, from, sizeof value);
  return value;
}
/// The first `count` lanes (at most kLanes); the rest are zero, and their memory is not touched.
inline F load_part(const float* from, size_t count) {
  float lanes[kLanes] = {};
  memcpy(lanes, from, count * sizeof(float));
  return load(lanes);
}
inline void store(float* to, F value) { memcpy(to, &value, sizeof value); }
inline void store_part(float* to, F value, size_t count) {
  float lanes[kLanes];
  store(lanes, value);
  memcpy(to, lanes, count * sizeof(float));
}

// Conversions between widths of elements are slow where compilers do them lane by lane; interleaving is fast
// everywhere.
#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector) && defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define ROCMFORGE_INTERLEAVES 1
#endif
#endif

inline void load_halves(const void* from, QuadU& low, QuadU& high) {
#if defined(ROCMFORGE_INTERLEAVES)
  EightH halves;
  memcpy(&halves, from, sizeof halves);
  const EightH none = {};
  low = (QuadU)__builtin_shufflevector(halves, none, 0, 8, 1, 9, 2, 10, 3, 11);
  high = (QuadU)__builtin_shufflevector(halves, none, 4, 12, 5, 13, 6, 14, 7, 15);
#else
  QuadH parts[2];
  memcpy(parts, from, sizeof parts);
  low = __builtin_convertvector(parts[0], QuadU);
  high = __builtin_convertvector(parts[1], QuadU);
#endif
}
inline QuadF widen_f16(QuadU bits) {
  const QuadI magnitude = (QuadI)(bits & 0x7fff);
  // The exponent's bias differs by 112, and a product by 2^112 also brings subnormal halves to their place.
  const QuadF scaled = (QuadF)(magnitude << 13) * 0x1p112f;
  const QuadI special = (magnitude > 0x7bff) & 0x7f800000;
  return (QuadF)((QuadU)scaled | (QuadU)special | ((bits & 0x8000) << 16));
}
inline F load_f16(const void* from) {
  QuadU low, high;
  load_halves(from, low, high);
  return {widen_f16(low), widen_f16(high)};
}
inline F load_bf16(const void* from) {
  QuadU low, high;
  load_halves(from, low, high);
  return {(QuadF)(low << 16), (QuadF)(high << 16)};
}
inline F load_i8(const int8_t* from) {
#if defined(ROCMFORGE_INTERLEAVES)
  uint64_t eight;
  memcpy(&eight, from, sizeof eight);
  const SixteenB bytes = (SixteenB)PairL{eight, 0};
  const SixteenB none = {};
  const EightH words =
      (EightH)__builtin_shufflevector(none, bytes, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  const QuadI low = (QuadI)__builtin_shufflevector((EightH)none, words, 0, 8, 1, 9, 2, 10, 3, 11) >> 24;
  const QuadI high = (QuadI)__builtin_shufflevector((EightH)none, words, 4, 12, 5, 13, 6, 14, 7, 15) >> 24;
  return {__builtin_convertvector(low, QuadF), __builtin_convertvector(high, QuadF)};
#else
  QuadB low, high;
  memcpy(&low, from, sizeof low);
  memcpy(&high, from + kQuadLanes, sizeof high);
  return {__builtin_convertvector(low, QuadF), __builtin_convertvector(high, QuadF)};
#endif
}
inline void narrow_f16(uint8_t* to, QuadF value) {
  const QuadI bits = (QuadI)value;
  const QuadI magnitude = bits & 0x7fffffff;
  const QuadI rounded = (magnitude - (112 << 23) + 0xfff + ((magnitude >> 13) & 1)) >> 13;
  // Below 2^-14 halves are multiples of 2^-24, as floats from 0.5 to 1 are: an addition rounds to them.
  const QuadI subnormal = (QuadI)((QuadF)magnitude + 0.5f) - 0x3f000000;
  const QuadI nan = 0x7e00 | ((magnitude >> 13) & 0x3ff);
  QuadI half = choose_int(magnitude < 0x38800000, subnormal, rounded);
  half = choose_int(magnitude >= 0x477ff000, splat_int(0x7c00), half);
  half = choose_int(magnitude > 0x7f800000, nan, half);
  const QuadH halves = __builtin_convertvector((QuadU)(half | ((bits >> 16) & 0x8000)), QuadH);
  memcpy(to, &halves, sizeof halves);
}
/// Nearest, ties to even.
inline void store_f16(void* to, F value) {
  uint8_t* bytes = static_cast<uint8_t*>(to);
  narrow_f16(bytes, value.low);
  narrow_f16(bytes + sizeof(QuadH), value.high);
}
/// Lanes hold whole numbers from -128 to 127.
inline void store_i8(int8_t* to, I value) {
  const QuadB low = __builtin_convertvector(value.low, QuadB);
  const QuadB high = __builtin_convertvector(value.high, QuadB);
  memcpy(to, &low, sizeof low);
  memcpy(to + kQuadLanes, &high, sizeof high);
}

inline F add(F a, F b) { return {a.low + b.low, a.high + b.high}; }
inline F sub(F a, F b) { return {a.low - b.low, a.high - b.high}; }
inline F mul(F a, F b) { return {a.low * b.low, a.high * b.high}; }
inline F div(F a, F b) { return {a.low / b.low, a.high / b.high}; }
inline F min(F a, F b) { return {choose(a.low < b.low, a.low, b.low), choose(a.high < b.high, a.high, b.high)}; }
inline F max(F a, F b) { return {choose(a.low > b.low, a.low, b.low), choose(a.high > b.high, a.high, b.high)}; }
inline QuadF without_sign(QuadF a) { return (QuadF)((QuadI)a & 0x7fffffff); }
inline F abs(F a) { return {without_sign(a.low), without_sign(a.high)}; }
/// a × b + c, rounded once if the instruction set can.
inline F fma(F a, F b, F c) { return {a.low * b.low + c.low, a.high * b.high + c.high}; }

/// Over all lanes, always in the same order.
inline float sum(F a) {
  const QuadF pairs = a.low + a.high;
  return (pairs[0] + pairs[2]) + (pairs[1] + pairs[3]);
}
inline float reduce_max(F a) {
  const QuadF pairs = choose(a.low > a.high, a.low, a.high);
  const float even = pairs[0] > pairs[2] ? pairs[0] : pairs[2];
  const float odd = pairs[1] > pairs[3] ? pairs[1] : pairs[3];
  return even > odd ? even : odd;
}

inline QuadF round_quad(QuadF a) {
  // Adding and taking away 2^23 with the value's sign leaves no fraction; larger values have none to begin with.
  const QuadF magnitude = without_sign(a);
  const QuadF whole = (magnitude + 0x1p23f) - 0x1p23f;
  const QuadI sign = (QuadI)a & (int32_t)0x80000000;
  return choose(magnitude < 0x1p23f, (QuadF)((QuadI)whole | sign), a);
}
/// To the nearest whole number, ties to even.
inline F round(F a) { return {round_quad(a.low), round_quad(a.high)}; }
/// The same as integers; the value must fit.
inline I round_to_int(F a) {
  const F whole = round(a);
  return {__builtin_convertvector(whole.low, QuadI), __builtin_convertvector(whole.high, QuadI)};
}
inline F to_float(I a) { return {__builtin_convertvector(a.low, QuadF), __builtin_convertvector(a.high, QuadF)}; }
inline I set_int(int32_t value) { return {splat_int(value), splat_int(value)}; }
inline QuadF scale_quad(QuadF value, QuadI power) {
  // In two steps, because 2^power itself may be no normal float.
  const QuadI half = power >> 1;
  return value * (QuadF)((half + 127) << 23) * (QuadF)((power - half + 127) << 23);
}
/// value × 2^power, where `power` holds whole numbers from -252 to 254.
inline F times_power_of_two(F value, F power) {
  return {scale_quad(value.low, __builtin_convertvector(power.low, QuadI)),
          scale_quad(value.high, __builtin_convertvector(power.high, QuadI))};
}

inline F select(M mask, F yes, F no) {
  return {choose(mask.low, yes.low, no.low), choose(mask.high, yes.high, no.high)};
}
inline M greater(F a, F b) { return {a.low > b.low, a.high > b.high}; }
inline M equal(F a, F b) { return {a.low == b.low, a.high == b.high}; }
/// Neither NaN nor infinite.
inline M finite(F a) { return {((QuadI)a.low & 0x7fffffff) < 0x7f800000, ((QuadI)a.high & 0x7fffffff) < 0x7f800000}; }
inline M both(M a, M b) { return {a.low & b.low, a.high & b.high}; }
inline uint64_t fold(QuadI mask) {
  uint64_t words[2];
  memcpy(words, &mask, sizeof words);
  return words[0] | words[1];
}
inline bool any(M mask) { return fold(mask.low | mask.high) != 0; }
inline bool all(M mask) { return fold(~(mask.low & mask.high)) == 0; }
/// The lowest lane that is set; some must be.
inline size_t first(M mask) {
  int32_t lanes[kLanes];
  memcpy(lanes, &mask, sizeof lanes);
  size_t lane = 0;
  while (lane + 1 < kLanes && lanes[lane] == 0) lane++;
  return lane;
}

}  // namespace
}  // namespace rocmforge
