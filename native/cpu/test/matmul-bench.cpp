// Speed of the matmul kernels: bytes a second of gemv for one token beside a plain sequential read of the
// same buffer, and multiplications and additions a second of gemm. usage: matmul-bench [isa]
// [type,type,...] [tokens] [panels only]

#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "../engine/memory.h"
#include "matmul-cases.h"

using namespace matmul_test;

namespace {

constexpr size_t kBufferBytes = size_t{1200} << 20;
constexpr size_t kWidth = 2048;

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// Runs body(thread) on that many threads, after all have started.
template <class Body>
double timed(size_t threads, Body body) {
  std::atomic<size_t> waiting{threads};
  std::atomic<bool> go{false};
  std::vector<std::thread> pool;
  for (size_t thread = 0; thread < threads; thread++) {
    pool.emplace_back([&, thread] {
      waiting--;
      while (!go) {
      }
      body(thread);
    });
  }
  while (waiting != 0) {
  }
  const double start = seconds();
  go = true;
  for (std::thread& thread : pool) thread.join();
  return seconds() - start;
}

uint64_t read_all(const uint8_t* from, size_t size) {
  typedef uint64_t Wide __attribute__((vector_size(64), aligned(1), may_alias));
  Wide sums[4] = {};
  const Wide* at = reinterpret_cast<const Wide*>(from);
  for (size_t index = 0; index + 4 <= size / sizeof(Wide); index += 4) {
    for (size_t part = 0; part < 4; part++) sums[part] ^= at[index + part];
  }
  const Wide all = sums[0] ^ sums[1] ^ sums[2] ^ sums[3];
  return all[0] ^ all[3] ^ all[7];
}

volatile uint64_t sink;

void bench_rows(const Isa& isa, const TypeCase& type, const uint8_t* buffer, size_t tokens) {
  const BlockShape shape = block_shape(type.type);
  const size_t row_bytes = kWidth / shape.elements * shape.bytes;
  const size_t rows = kBufferBytes / row_bytes / 64 * 64;
  const Matrix matrix = {buffer, row_bytes, kWidth, rows, type.type};
  const std::vector<float> input(kWidth * tokens, 0.5f);
  const PreparedInput activations(*isa.kernels, format_of(type.type, false), input.data(), kWidth, tokens);
  std::vector<float> out(rows * tokens);
  for (size_t threads : {1, 2}) {
    double best = 1e9, best_read = 1e9;
    for (int pass = 0; pass < 4; pass++) {
      const double spent = timed(threads, [&](size_t thread) {
        const size_t part = rows / threads;
        for (size_t row = thread * part; row < (thread + 1) * part; row += 64) {
          const size_t count = (thread + 1) * part - row < 64 ? (thread + 1) * part - row : 64;
          isa.kernels->gemv(matrix, row, count, activations.activations, 0, tokens, out.data() + row, rows);
        }
      });
      best = spent < best ? spent : best;
      const size_t size = rows * row_bytes / threads;
      const double read = timed(threads, [&](size_t thread) { sink = sink + read_all(buffer + thread * size, size); });
      best_read = read < best_read ? read : best_read;
    }
    const double bytes = static_cast<double>(rows * row_bytes) * 1e-9;
    printf("%-8s %-7s rows   %zu tokens %zu threads  %6.1f GB/s, read %6.1f GB/s, share %.2f\n", isa.name, type.name,
           tokens, threads, bytes / best, bytes / best_read, best_read / best);
  }
}

void bench_panels(const Isa& isa, const TypeCase& type, size_t tokens) {
  Random random;
  const size_t rows = 1024;
  const Weight weight = make_weight(type.type, kWidth, rows, random);
  std::vector<float> input(kWidth * tokens);
  for (float& value : input) value = random.value();
  const double quantize_start = seconds();
  const PreparedInput activations(*isa.kernels, format_of(type.type, true), input.data(), kWidth, tokens);
  const double quantize_spent = seconds() - quantize_start;
  std::vector<float> out(rows * tokens);
  AlignedBytes scratch(isa.kernels->gemm_scratch_bytes(kWidth, tokens));
  double best = 1e9;
  for (int pass = 0; pass < 15; pass++) {
    const double start = seconds();
    for (size_t row = 0; row < rows; row += kGemmRows) {
      isa.kernels->gemm(weight.matrix, row, kGemmRows, activations.activations, out.data() + row, rows, scratch.data);
    }
    best = seconds() - start < best ? seconds() - start : best;
  }
  printf("%-8s %-7s panels %zu tokens  %6.1f GOP/s, quantize %.2f ms\n", isa.name, type.name, tokens,
         2.0 * static_cast<double>(rows * tokens * kWidth) / best * 1e-9, quantize_spent * 1e3);
}

bool listed(const std::string& list, const char* name) {
  return ("," + list + ",").find(std::string(",") + name + ",") != std::string::npos;
}

}  // namespace

int main(int count, char** arguments) {
  const std::string isa_name = count > 1 ? arguments[1] : "";
  const std::string names = count > 2 ? arguments[2] : "q4_k,q6_k,q8_0,q4_0,f16";
  const size_t tokens = count > 3 ? static_cast<size_t>(atoi(arguments[3])) : 512;
  // Large pages, as a model file in the page cache has.
  const SystemMemory buffer(kBufferBytes, "matmul-bench");
  for (const Isa& isa : isas()) {
    if (!isa_name.empty() && isa_name != isa.name) continue;
    for (const TypeCase& type : types()) {
      if (!listed(names, type.name)) continue;
      if (tokens > 16) bench_panels(isa, type, tokens);
      if (count > 4) continue;
      // Zero bytes multiply as fast as others, but pages must be real and distinct.
      memset(buffer.data(), 0, kBufferBytes);
      bench_rows(isa, type, buffer.data(), tokens > 16 ? 1 : tokens);
    }
  }
  return 0;
}
