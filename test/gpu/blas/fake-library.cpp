// Stands for cuBLASLt and hipBLASLt on the host: the functions this project calls, for f16 × f16 → f32, on host memory.
// It refuses whatever the real ones would: wrong enumerators, wrong sizes, strides too small. Counts what is alive, and
// the environment can make it fail (FAKE_BLAS_FAIL: the call's name) or compute wrongly (FAKE_BLAS_WRONG):
// zeros, nan, nothing (the result is left as it was), tile (the last 32 × 32 elements are zero).
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

int alive = 0;
int heuristics = 0;
int checks = 0;

struct Dialect {
  int compute_f32, transpose_left, transpose_right, transposed, plain, invalid, not_supported, allocation_failed;
  size_t algorithm_bytes;
};
constexpr Dialect kCuda = {68, 3, 4, 1, 0, 7, 15, 3, 64};
constexpr Dialect kHip = {2, 0, 1, 112, 111, 3, 7, 2, 24};
constexpr uint32_t kAlgorithm = 0x51a7;

struct Operation {
  int left = -1, right = -1;
};
struct Layout {
  int type;
  uint64_t rows, columns;
  int64_t stride;
};
struct Preference {
  uint64_t workspace = 0;
};

float half_to_float(uint16_t bits) {
  const int exponent = (bits >> 10) & 31, fraction = bits & 1023;
  float value = exponent == 0 ? fraction / 1024.0f / 16384.0f : (1 + fraction / 1024.0f);
  for (int i = 15; i < exponent; i++) value *= 2;
  for (int i = exponent; exponent > 0 && i < 15; i++) value /= 2;
  return bits & 0x8000 ? -value : value;
}

/** Every half as a float: bits are read for each product. */
const float* half_table() {
  static float* const table = [] {
    float* const made = new float[65536];
    for (int bits = 0; bits < 65536; bits++) made[bits] = half_to_float(uint16_t(bits));
    return made;
  }();
  return table;
}

bool told_to_fail(const char* what) {
  const char* told = getenv("FAKE_BLAS_FAIL");
  return told != nullptr && std::string(told) == what;
}

std::string told_to_be_wrong() {
  const char* told = getenv("FAKE_BLAS_WRONG");
  return told == nullptr ? "" : told;
}

template <typename Object>
int create(void** out, Object* object) {
  *out = object;
  alive++;
  return 0;
}

template <typename Object>
int destroy(void* object) {
  delete static_cast<Object*>(object);
  alive--;
  return 0;
}

int set_operation(const Dialect& dialect, Operation* operation, int attribute, const void* value, size_t bytes) {
  if (bytes != 4) return dialect.invalid;
  int answer;
  memcpy(&answer, value, 4);
  if (answer != dialect.transposed && answer != dialect.plain) return dialect.invalid;
  if (attribute == dialect.transpose_left)
    operation->left = answer;
  else if (attribute == dialect.transpose_right)
    operation->right = answer;
  else
    return dialect.invalid;
  return 0;
}

int set_preference(const Dialect& dialect, Preference* preference, int attribute, const void* value, size_t bytes) {
  if (attribute == 1 && bytes == 8) {
    memcpy(&preference->workspace, value, 8);
    return 0;
  }
  return &dialect == &kCuda && attribute >= 5 && attribute <= 8 && bytes == 4 ? 0 : dialect.invalid;
}

bool fits(const Dialect& dialect, const Operation& operation, const Layout& left, const Layout& right,
          const Layout& out) {
  return operation.left == dialect.transposed && operation.right == dialect.plain && left.type == 2 &&
         right.type == 2 && out.type == 0 && left.rows == right.rows && left.columns == out.rows &&
         right.columns == out.columns && left.stride >= int64_t(left.rows) && right.stride >= int64_t(right.rows) &&
         out.stride >= int64_t(out.rows);
}

int choose(const Dialect& dialect, const Operation& operation, const Layout& left, const Layout& right,
           const Layout& out, const Preference& preference, int wanted, uint8_t* choice, int* count) {
  heuristics++;
  if (wanted < 1 || !fits(dialect, operation, left, right, out)) return dialect.invalid;
  *count = 0;
  if (out.rows == 13) return dialect.not_supported;
  const size_t workspace = out.rows == 17 ? preference.workspace + 1 : preference.workspace / 2;
  memcpy(choice, &kAlgorithm, 4);
  memcpy(choice + dialect.algorithm_bytes, &workspace, 8);
  memset(choice + dialect.algorithm_bytes + 8, 0, 4);
  *count = 1;
  return 0;
}

int check(const Dialect& dialect, const Operation& operation, const Layout& left, const Layout& right,
          const Layout& out, const uint32_t* algorithm, uint8_t* choice) {
  checks++;
  if (!fits(dialect, operation, left, right, out)) return dialect.invalid;
  if (*algorithm != kAlgorithm || told_to_fail("check")) return dialect.not_supported;
  const size_t workspace = 0;
  memcpy(choice, algorithm, dialect.algorithm_bytes);
  memcpy(choice + dialect.algorithm_bytes, &workspace, 8);
  memset(choice + dialect.algorithm_bytes + 8, 0, 4);
  return 0;
}

int multiply(const Dialect& dialect, const Operation& operation, const float* alpha, const uint16_t* left,
             const Layout& left_layout, const uint16_t* right, const Layout& right_layout, const float* beta,
             const float* addend, float* out, const Layout& layout, const uint32_t* algorithm, void* workspace,
             size_t workspace_bytes) {
  if (told_to_fail("multiply")) return dialect.allocation_failed;
  if (!fits(dialect, operation, left_layout, right_layout, layout) || *algorithm != kAlgorithm) return dialect.invalid;
  if (workspace == nullptr || workspace_bytes == 0) return dialect.invalid;
  memset(workspace, 0xff, workspace_bytes);
  const float* const value_of = half_table();
  const std::string wrong = told_to_be_wrong();
  if (wrong == "nothing") return 0;
  for (uint64_t column = 0; column < layout.columns; column++) {
    for (uint64_t row = 0; row < layout.rows; row++) {
      float sum = 0;
      for (uint64_t k = 0; k < left_layout.rows; k++) {
        sum += value_of[left[row * left_layout.stride + k]] * value_of[right[column * right_layout.stride + k]];
      }
      const bool in_tile = column + 32 >= layout.columns && row + 32 >= layout.rows;
      if (wrong == "zeros" || (wrong == "tile" && in_tile)) sum = 0;
      if (wrong == "nan") sum = __builtin_nanf("");
      const uint64_t place = column * layout.stride + row;
      out[place] = *alpha * sum + (*beta == 0 ? 0 : *beta * addend[place]);
    }
  }
  return 0;
}

}  // namespace

extern "C" {
int fakeAlive() { return alive; }
int fakeHeuristics() { return heuristics; }
int fakeChecks() { return checks; }
size_t cublasLtGetVersion() { return 130100; }
int cublasLtMatmulAlgoCheck(void*, Operation* operation, Layout* left, Layout* right, Layout*, Layout* out,
                            const uint32_t* algorithm, uint8_t* choice) {
  return check(kCuda, *operation, *left, *right, *out, algorithm, choice);
}
}

#define FAKE_LIBRARY(prefix, dialect)                                                                                 \
  extern "C" {                                                                                                        \
  int prefix##Create(void** out) { return told_to_fail("create") ? 1 : create(out, new int); }                        \
  int prefix##Destroy(void* handle) { return destroy<int>(handle); }                                                  \
  int prefix##MatmulDescCreate(void** out, int compute, int scale) {                                                  \
    return compute == dialect.compute_f32 && scale == 0 ? create(out, new Operation) : dialect.invalid;               \
  }                                                                                                                   \
  int prefix##MatmulDescDestroy(void* operation) { return destroy<Operation>(operation); }                            \
  int prefix##MatmulDescSetAttribute(void* operation, int attribute, const void* value, size_t bytes) {               \
    return set_operation(dialect, static_cast<Operation*>(operation), attribute, value, bytes);                       \
  }                                                                                                                   \
  int prefix##MatrixLayoutCreate(void** out, int type, uint64_t rows, uint64_t columns, int64_t stride) {             \
    return told_to_fail("layout") ? dialect.allocation_failed : create(out, new Layout{type, rows, columns, stride}); \
  }                                                                                                                   \
  int prefix##MatrixLayoutDestroy(void* layout) { return destroy<Layout>(layout); }                                   \
  int prefix##MatmulPreferenceCreate(void** out) { return create(out, new Preference); }                              \
  int prefix##MatmulPreferenceDestroy(void* preference) { return destroy<Preference>(preference); }                   \
  int prefix##MatmulPreferenceSetAttribute(void* preference, int attribute, const void* value, size_t bytes) {        \
    return set_preference(dialect, static_cast<Preference*>(preference), attribute, value, bytes);                    \
  }                                                                                                                   \
  int prefix##MatmulAlgoGetHeuristic(void*, Operation* operation, Layout* left, Layout* right, Layout* addend,        \
                                     Layout* out, Preference* preference, int wanted, uint8_t* choice, int* count) {  \
    return addend == out ? choose(dialect, *operation, *left, *right, *out, *preference, wanted, choice, count)       \
                         : dialect.invalid;                                                                           \
  }                                                                                                                   \
  int prefix##Matmul(void*, Operation* operation, const float* alpha, const uint16_t* left, Layout* left_layout,      \
                     const uint16_t* right, Layout* right_layout, const float* beta, const float* addend, Layout*,    \
                     float* out, Layout* out_layout, const uint32_t* algorithm, void* workspace,                      \
                     size_t workspace_bytes, void*) {                                                                 \
    return multiply(dialect, *operation, alpha, left, *left_layout, right, *right_layout, beta, addend, out,          \
                    *out_layout, algorithm, workspace, workspace_bytes);                                              \
  }                                                                                                                   \
  }

FAKE_LIBRARY(cublasLt, kCuda)
FAKE_LIBRARY(hipblasLt, kHip)
