// What the tests and the benchmark of matmuls share: the instruction sets that this machine can run, every tensor
// type, and weights of random bytes whose scales are sane.

#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "../kernels/kernel-table.h"

namespace rocmforge {
const MatmulKernels& matmul_kernels_portable();
#if defined(__x86_64__)
const MatmulKernels& matmul_kernels_avx512();
const MatmulKernels& matmul_kernels_avx2();
#elif defined(__aarch64__)
const MatmulKernels& matmul_kernels_neon();
#endif
}  // namespace rocmforge

namespace matmul_test {

using namespace rocmforge;

struct Isa {
  const char* name;
  const MatmulKernels* kernels;
};

inline std::vector<Isa> isas() {
  std::vector<Isa> found;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vnni")) {
    found.push_back({"avx512", &matmul_kernels_avx512()});
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    found.push_back({"avx2", &matmul_kernels_avx2()});
#elif defined(__aarch64__)
  found.push_back({"neon", &matmul_kernels_neon()});
#endif
  found.push_back({"portable", &matmul_kernels_portable()});
  return found;
}

struct TypeCase {
  const char* name;
  TensorType type;
};

inline const std::vector<TypeCase>& types() {
  static const std::vector<TypeCase> all = {
      {"f32", TensorType::f32},     {"f16", TensorType::f16},       {"bf16", TensorType::bf16},
      {"q4_0", TensorType::q4_0},   {"q4_1", TensorType::q4_1},     {"q5_0", TensorType::q5_0},
      {"q5_1", TensorType::q5_1},   {"q8_0", TensorType::q8_0},     {"q2_k", TensorType::q2_k},
      {"q3_k", TensorType::q3_k},   {"q4_k", TensorType::q4_k},     {"q5_k", TensorType::q5_k},
      {"q6_k", TensorType::q6_k},   {"iq4_nl", TensorType::iq4_nl}, {"iq4_xs", TensorType::iq4_xs},
      {"tq1_0", TensorType::tq1_0}, {"tq2_0", TensorType::tq2_0},   {"mxfp4", TensorType::mxfp4},
      {"nvfp4", TensorType::nvfp4}};
  return all;
}

struct Random {
  uint64_t state = 0x9e3779b97f4a7c15;
  uint32_t bits() {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return static_cast<uint32_t>(state >> 32);
  }
  /// From -1 to 1.
  float value() { return static_cast<float>(bits() >> 8) * 0x1p-23f - 1.0f; }
};

/// A half of a magnitude between 2^-7 and 2^-5, of either sign.
inline void put_half(uint8_t* to, Random& random) {
  const uint32_t bits = random.bits();
  const uint16_t half = static_cast<uint16_t>((bits & 0x8000) | (8u + (bits >> 16 & 1)) << 10 | (bits & 0x3ff));
  memcpy(to, &half, sizeof half);
}

inline void fill_block(TensorType type, uint8_t* block, Random& random) {
  const BlockShape shape = block_shape(type);
  for (uint32_t index = 0; index < shape.bytes; index++) block[index] = static_cast<uint8_t>(random.bits());
  switch (type) {
    case TensorType::f32: {
      const float value = random.value();
      memcpy(block, &value, sizeof value);
      break;
    }
    case TensorType::f16: put_half(block, random); break;
    case TensorType::bf16: block[1] = static_cast<uint8_t>(0x3c | (block[1] & 0x81)); break;
    case TensorType::q4_0:
    case TensorType::q5_0:
    case TensorType::q8_0:
    case TensorType::iq4_nl:
    case TensorType::iq4_xs: put_half(block, random); break;
    case TensorType::q4_1:
    case TensorType::q5_1:
    case TensorType::q4_k:
    case TensorType::q5_k:
      put_half(block, random);
      put_half(block + 2, random);
      break;
    case TensorType::q2_k:
      put_half(block + 80, random);
      put_half(block + 82, random);
      break;
    case TensorType::q3_k: put_half(block + 108, random); break;
    case TensorType::q6_k: put_half(block + 208, random); break;
    case TensorType::tq1_0: put_half(block + 52, random); break;
    case TensorType::tq2_0: put_half(block + 64, random); break;
    case TensorType::mxfp4: block[0] = static_cast<uint8_t>(120 + block[0] % 4); break;
    case TensorType::nvfp4:
      for (size_t group = 0; group < 4; group++) block[group] = static_cast<uint8_t>(0x20 | (block[group] & 0x1f));
      break;
  }
}

/// Exactly as long as its rows, so that AddressSanitizer sees a read past either end.
struct Weight {
  std::vector<uint8_t> bytes;
  Matrix matrix;
};

inline Weight make_weight(TensorType type, size_t width, size_t rows, Random& random) {
  const BlockShape shape = block_shape(type);
  Weight weight;
  const size_t row_bytes = width / shape.elements * shape.bytes;
  weight.bytes.resize(row_bytes * rows);
  for (size_t at = 0; at < weight.bytes.size(); at += shape.bytes) fill_block(type, weight.bytes.data() + at, random);
  weight.matrix = {weight.bytes.data(), row_bytes, width, rows, type};
  return weight;
}

struct AlignedBytes {
  uint8_t* data;
  explicit AlignedBytes(size_t size) : data(static_cast<uint8_t*>(aligned_alloc(64, (size + 63) / 64 * 64 + 64))) {}
  ~AlignedBytes() { free(data); }
  AlignedBytes(const AlignedBytes&) = delete;
  AlignedBytes& operator=(const AlignedBytes&) = delete;
};

struct PreparedInput {
  AlignedBytes bytes;
  Activations activations;
  PreparedInput(const MatmulKernels& kernels, ActivationFormat format, const float* input, size_t width, size_t tokens)
      : bytes(groups_of(kernels, format, tokens) * kernels.group_bytes(format, width)),
        activations{
            bytes.data, format, width, tokens, groups_of(kernels, format, tokens), kernels.group_bytes(format, width)} {
    kernels.quantize(input, width, 0, activations.groups, activations);
  }
  static size_t groups_of(const MatmulKernels& kernels, ActivationFormat format, size_t tokens) {
    const bool panels = format == ActivationFormat::q8_panels || format == ActivationFormat::f32_panels;
    return panels ? (tokens + kernels.panel_tokens - 1) / kernels.panel_tokens : tokens;
  }
};

inline ActivationFormat format_of(TensorType type, bool panels) {
  if (is_plain_float(type)) return panels ? ActivationFormat::f32_panels : ActivationFormat::f32_rows;
  return panels ? ActivationFormat::q8_panels : ActivationFormat::q8_rows;
}

}  // namespace matmul_test
