// Checks the matmul kernels of every instruction set that this machine can run against double precision, and
// decode_row against golden data if the path of dequantize.jsonl is given: matmul-test [dequantize.jsonl]

#include <cmath>
#include <fstream>
#include <memory>
#include <string>

#include "matmul-cases.h"

using namespace matmul_test;

namespace {

int failures = 0;

#define CHECK(condition, ...)                      \
  do {                                             \
    if (!(condition)) {                            \
      failures++;                                  \
      fprintf(stderr, "FAILED: %s: ", #condition); \
      fprintf(stderr, __VA_ARGS__);                \
      fprintf(stderr, "\n");                       \
    }                                              \
  } while (false)

constexpr double kWorstError = 1e-10;

/// What quantize-activations makes of a row.
std::vector<double> quantized(const float* row, size_t width) {
  std::vector<double> out(width);
  for (size_t start = 0; start < width; start += 32) {
    float largest = 0;
    bool usable = true;
    for (size_t k = start; k < start + 32; k++) {
      usable = usable && std::isfinite(row[k]);
      largest = std::fmax(largest, std::fabs(row[k]));
    }
    const float scale = usable ? largest / 127.0f : NAN;
    for (size_t k = start; k < start + 32; k++) {
      out[k] = scale == 0 ? 0 : std::nearbyint(static_cast<double>(row[k]) / scale) * scale;
    }
  }
  return out;
}

std::vector<float> make_input(size_t width, size_t tokens, Random& random) {
  std::vector<float> input(width * tokens);
  for (float& value : input) value = random.value() * 3;
  return input;
}

std::vector<double> expected_results(const MatmulKernels& kernels, const Weight& weight,
                                     const std::vector<float>& input, size_t tokens) {
  const Matrix& matrix = weight.matrix;
  std::vector<double> out(tokens * matrix.rows);
  std::vector<std::vector<double>> activations;
  for (size_t token = 0; token < tokens; token++) {
    const float* row = input.data() + token * matrix.width;
    activations.push_back(is_plain_float(matrix.type) ? std::vector<double>(row, row + matrix.width)
                                                      : quantized(row, matrix.width));
  }
  std::vector<float> decoded(matrix.width);
  for (size_t r = 0; r < matrix.rows; r++) {
    kernels.decode_row(matrix.type, matrix.data + r * matrix.row_bytes, matrix.width, decoded.data());
    for (size_t token = 0; token < tokens; token++) {
      // Pointers, because under sanitizers every index into a vector is a call.
      const float* const left = decoded.data();
      const double* const right = activations[token].data();
      double sum = 0;
      for (size_t k = 0; k < matrix.width; k++) sum += static_cast<double>(left[k]) * right[k];
      out[token * matrix.rows + r] = sum;
    }
  }
  return out;
}

double squared_error(const std::vector<float>& found, const std::vector<double>& expected) {
  double error = 0, size = 0;
  for (size_t index = 0; index < found.size(); index++) {
    error += (found[index] - expected[index]) * (found[index] - expected[index]);
    size += expected[index] * expected[index];
  }
  return error / size;
}

std::vector<float> run_rows(const MatmulKernels& kernels, const Weight& weight, const Activations& activations,
                            size_t first_token, size_t tokens) {
  const size_t rows = weight.matrix.rows;
  std::vector<float> out(tokens * rows, -77);
  // In two parts, as the engine cuts rows.
  const size_t part = rows > 3 ? rows / 3 : rows;
  kernels.gemv(weight.matrix, 0, part, activations, first_token, tokens, out.data(), rows);
  kernels.gemv(weight.matrix, part, rows - part, activations, first_token, tokens, out.data() + part, rows);
  return out;
}

std::vector<float> run_panels(const MatmulKernels& kernels, const Weight& weight, const Activations& activations) {
  const size_t rows = weight.matrix.rows;
  std::vector<float> out(activations.tokens * rows, -77);
  AlignedBytes scratch(kernels.gemm_scratch_bytes(weight.matrix.width, activations.tokens));
  for (size_t row = 0; row < rows; row += kGemmRows) {
    const size_t count = rows - row < kGemmRows ? rows - row : kGemmRows;
    kernels.gemm(weight.matrix, row, count, activations, out.data() + row, rows, scratch.data);
  }
  return out;
}

bool same_bits(const float* a, const float* b, size_t count) { return memcmp(a, b, count * sizeof(float)) == 0; }

void check_shape(const Isa& isa, const TypeCase& type, size_t width, size_t rows, double& worst) {
  const MatmulKernels& kernels = *isa.kernels;
  Random random;
  random.state += width * 7919 + rows;
  const Weight weight = make_weight(type.type, width, rows, random);
  const size_t most = 100;
  const std::vector<float> input = make_input(width, most, random);
  const std::vector<double> expected = expected_results(kernels, weight, input, most);
  const PreparedInput every(kernels, format_of(type.type, false), input.data(), width, most);
  const std::vector<float> alone = run_rows(kernels, weight, every.activations, 0, most);
  const double error = squared_error(alone, expected);
  worst = std::fmax(worst, error);
  CHECK(error <= kWorstError, "%s %s rows, width %zu: %g", isa.name, type.name, width, error);
  for (size_t tokens = 1; tokens <= 17; tokens++) {
    const size_t first = tokens * 3;
    const std::vector<float> some = run_rows(kernels, weight, every.activations, first, tokens);
    CHECK(same_bits(some.data(), alone.data() + first * rows, tokens * rows),
          "%s %s width %zu: %zu tokens differ from 100", isa.name, type.name, width, tokens);
  }
  for (size_t tokens : {size_t{1}, size_t{3}, size_t{8}, size_t{9}, size_t{17}, most}) {
    const PreparedInput panels(kernels, format_of(type.type, true), input.data(), width, tokens);
    const std::vector<float> found = run_panels(kernels, weight, panels.activations);
    const std::vector<double> part(expected.begin(), expected.begin() + static_cast<long>(tokens * rows));
    const double panel_error = squared_error(found, part);
    worst = std::fmax(worst, panel_error);
    CHECK(panel_error <= kWorstError, "%s %s panels, width %zu, %zu tokens: %g", isa.name, type.name, width, tokens,
          panel_error);
  }
}

/// From more tokens than one panel on, GEMM gives a token the same bits in every batch, whatever form multiplies it.
void check_batches(const Isa& isa, const TypeCase& type, size_t rows) {
  const MatmulKernels& kernels = *isa.kernels;
  Random random;
  const size_t width = 512, most = 131;
  const Weight weight = make_weight(type.type, width, rows, random);
  const std::vector<float> input = make_input(width, most, random);
  const auto run = [&](size_t tokens) {
    const PreparedInput panels(kernels, format_of(type.type, true), input.data(), width, tokens);
    return run_panels(kernels, weight, panels.activations);
  };
  const std::vector<float> all = run(most);
  for (size_t tokens : {9, 17, 64, 65, 80, 96, 97, 113, 128}) {
    const std::vector<float> some = run(tokens);
    CHECK(same_bits(some.data(), all.data(), some.size()), "%s %s, %zu rows: %zu tokens differ from %zu", isa.name,
          type.name, rows, tokens, most);
  }
}

/// A bad number stays with its own token, and reaches every row of it.
void check_not_finite(const Isa& isa, const TypeCase& type, size_t tokens, float bad) {
  const MatmulKernels& kernels = *isa.kernels;
  Random random;
  const size_t width = 512, rows = 37, poisoned = 4;
  const Weight weight = make_weight(type.type, width, rows, random);
  std::vector<float> input = make_input(width, tokens, random);
  const auto both = [&](std::vector<float>& gemv_results, std::vector<float>& gemm_results) {
    const PreparedInput gemv_activations(kernels, format_of(type.type, false), input.data(), width, tokens);
    const PreparedInput gemm_activations(kernels, format_of(type.type, true), input.data(), width, tokens);
    gemv_results = run_rows(kernels, weight, gemv_activations.activations, 0, tokens);
    gemm_results = run_panels(kernels, weight, gemm_activations.activations);
  };
  std::vector<float> clean_rows, clean_panels, gemv_results, gemm_results;
  both(clean_rows, clean_panels);
  input[poisoned * width + 300] = bad;
  both(gemv_results, gemm_results);
  for (size_t token = 0; token < tokens; token++) {
    const size_t at = token * rows;
    if (token == poisoned) {
      for (size_t r = 0; r < rows; r++) {
        CHECK(!std::isfinite(gemv_results[at + r]) && !std::isfinite(gemm_results[at + r]), "%s %s hides %g", isa.name,
              type.name, bad);
      }
    } else {
      CHECK(same_bits(&gemv_results[at], &clean_rows[at], rows), "%s %s rows spread %g", isa.name, type.name, bad);
      CHECK(same_bits(&gemm_results[at], &clean_panels[at], rows), "%s %s panels spread %g", isa.name, type.name, bad);
    }
  }
}

/// Levels of a quantized row, seen through a Q8_0 weight that has one 1 in each row.
void check_quantization(const Isa& isa) {
  const MatmulKernels& kernels = *isa.kernels;
  Random random;
  const size_t width = 512, tokens = 5;
  std::vector<float> input = make_input(width, tokens, random);
  for (size_t k = 0; k < width; k++) {
    input[width + k] = static_cast<float>(static_cast<int>(k % 255) - 127) / 2;  // quotients that are halves
    input[2 * width + k] = 0;
    input[3 * width + k] = static_cast<float>(k % 32) * 0x1p-149f;
    // Just beside a half: 254 steps of two units, moved by one unit in the last place.
    input[4 * width + k] =
        k % 32 == 0 ? 127.0f : std::nextafter(static_cast<float>(k % 100) + 0.5f, k % 2 == 0 ? 0.0f : 200.0f);
  }
  Weight weight;
  weight.bytes.resize(width * width / 32 * 34);
  for (size_t r = 0; r < width; r++) {
    uint8_t* row = weight.bytes.data() + r * (width / 32 * 34);
    for (size_t block = 0; block < width / 32; block++) row[block * 34 + 1] = 0x3c;
    row[r / 32 * 34 + 2 + r % 32] = 1;
  }
  weight.matrix = {weight.bytes.data(), width / 32 * 34, width, width, TensorType::q8_0};
  const PreparedInput activations(kernels, ActivationFormat::q8_rows, input.data(), width, tokens);
  const std::vector<float> found = run_rows(kernels, weight, activations.activations, 0, tokens);
  for (size_t token = 0; token < tokens; token++) {
    const std::vector<double> expected = quantized(input.data() + token * width, width);
    for (size_t k = 0; k < width; k++) {
      CHECK(std::fabs(found[token * width + k] - expected[k]) <= std::fabs(expected[k]) * 1e-4 + 1e-43,
            "%s quantizes %.9g to %.9g, not %.9g", isa.name, input[token * width + k], found[token * width + k],
            expected[k]);
    }
  }
}

const char* after(const std::string& line, const char* key) {
  const size_t at = line.find(key);
  return at == std::string::npos ? nullptr : line.c_str() + at + strlen(key);
}

void check_golden(const Isa& isa, const char* path) {
  std::ifstream file(path);
  CHECK(file.good(), "cannot read %s", path);
  size_t lines = 0;
  for (std::string line; std::getline(file, line);) {
    const char* id = after(line, "\"id\":");
    const char* hex = after(line, "\"bytes\":\"");
    const char* values = after(line, "\"values\":[");
    if (id == nullptr || hex == nullptr || values == nullptr) continue;
    const TensorType type = static_cast<TensorType>(atoi(id));
    if (block_shape(type).bytes == 0) continue;
    std::vector<uint8_t> bytes;
    for (; *hex != '"'; hex += 2) bytes.push_back(static_cast<uint8_t>(std::stoi(std::string(hex, 2), nullptr, 16)));
    std::vector<float> expected;
    for (const char* at = values; *at != ']';) {
      char* end;
      expected.push_back(strncmp(at, "null", 4) == 0 ? NAN : strtof(at, &end));
      at = strncmp(at, "null", 4) == 0 ? at + 4 : end;
      if (*at == ',') at++;
    }
    std::vector<float> found(expected.size());
    isa.kernels->decode_row(type, bytes.data(), expected.size(), found.data());
    for (size_t k = 0; k < expected.size(); k++) {
      const bool same = std::isnan(expected[k]) ? !std::isfinite(found[k]) : same_bits(&found[k], &expected[k], 1);
      CHECK(same, "%s decodes type %d element %zu as %.9g, not %.9g", isa.name, static_cast<int>(type), k, found[k],
            expected[k]);
      if (!same) break;
    }
    lines++;
  }
  CHECK(lines >= 10, "only %zu golden types in %s", lines, path);
  printf("%s: %zu golden types decode to the bit\n", isa.name, lines);
}

}  // namespace

int main(int count, char** arguments) {
  for (const Isa& isa : isas()) {
    double worst = 0;
    for (const TypeCase& type : types()) {
      const uint32_t block = block_shape(type.type).elements;
      for (size_t width : {1, 20, 32, 64, 100, 256, 896, 2048}) {
        if (width % block == 0) check_shape(isa, type, width, width > 1000 ? 65 : 37, worst);
      }
      for (const size_t tokens : {size_t{11}, size_t{107}}) {
        check_not_finite(isa, type, tokens, NAN);
        check_not_finite(isa, type, tokens, INFINITY);
      }
    }
    for (const TypeCase& type : types()) {
      for (const size_t rows : {size_t{16}, size_t{37}, size_t{101}, kGemmRows + 21}) check_batches(isa, type, rows);
    }
    // More rows than one call takes, and more than its tiles hold together.
    check_shape(isa, {"q4_k", TensorType::q4_k}, 512, kGemmRows + 21, worst);
    check_shape(isa, {"q6_k", TensorType::q6_k}, 512, kGemmRows + 21, worst);
    check_quantization(isa);
    if (count > 1) check_golden(isa, arguments[1]);
    printf("%s: %zu types, worst normalised squared error %.2g, %d failures so far\n", isa.name, types().size(), worst,
           failures);
  }
  return failures == 0 ? 0 : 1;
}
