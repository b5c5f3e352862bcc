// The row kernels of every instruction set that this machine runs, against plain code in double precision.
//   g++ -std=c++17 test/rows-test.cpp, the helpers rows-attention-test.cpp and rows-experts-test.cpp, and the kernels'
//   isa-*-rows.cpp, each with its own flags

#include "rows-test.h"

#include <cstring>

namespace rocmforge {

void test_attention(const RowIsa& isa, size_t parity);
void test_expert_rows(const RowIsa& isa);
void test_recurrent_rows(const RowIsa& isa);

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
const size_t kWidths[] = {1, 3, 8, 16, 31, 33, 64, 100, 2048, 8192};

/// Within `relative` of the expected value, or of `unit` if that is greater.
bool near(double found, double expected, double relative, double unit) {
  return std::fabs(found - expected) <= relative * std::fmax(std::fabs(expected), unit);
}

/// The width's own values are written, and nothing after them.
std::vector<float> guarded(size_t width) { return std::vector<float>(width + 16, 12345.0f); }
void check_guard(const std::vector<float>& out, size_t width, const char* name) {
  for (size_t k = width; k < out.size(); k++) CHECK(out[k] == 12345.0f, "%s wrote past its end at %zu", name, k);
}

void test_norm(const RowIsa& isa) {
  Numbers numbers(1);
  for (const size_t width : kWidths) {
    for (const float range : {1e-3f, 5.0f, 1e25f}) {
      const std::vector<float> input = numbers.row(width, range);
      const std::vector<float> weight = numbers.row(width, 2);
      std::vector<float> out = guarded(width);
      isa.kernels->rms_norm(input.data(), weight.data(), width, 1e-5f, out.data());
      check_guard(out, width, "norm");
      double squares = 0;
      for (const float value : input) squares += static_cast<double>(value) * value;
      const double inverse = 1 / std::sqrt(squares / static_cast<double>(width) + static_cast<double>(1e-5f));
      for (size_t k = 0; k < width; k++) {
        const double expected = input[k] * inverse * weight[k];
        CHECK(near(out[k], expected, 3e-7, 1e-30), "norm of %zu at %zu: %g, not %g", width, k, out[k], expected);
      }
      isa.kernels->rms_norm(input.data(), nullptr, width, 1e-5f, out.data());
      check_guard(out, width, "norm");
      for (size_t k = 0; k < width; k++)
        CHECK(near(out[k], input[k] * inverse, 3e-7, 1e-30), "norm without weight of %zu at %zu", width, k);
    }
  }
}

/// As the reference backend has it.
float half_to_even(double value) {
  const double below = std::floor(value);
  const double rest = value - below;
  if (rest != 0.5) return static_cast<float>(rest < 0.5 ? below : below + 1);
  return static_cast<float>(std::fmod(below, 2) == 0 ? below : below + 1);
}

void test_quantize(const RowIsa& isa) {
  Numbers numbers(2);
  for (const size_t width : kWidths) {
    for (const float range : {3e-44f, 1e-30f, 1.0f, 1e38f}) {
      std::vector<float> input = numbers.row(width, range);
      // Ties, and values next to them.
      if (range == 1.0f) {
        for (size_t k = 0; k + 1 < width; k++) {
          if (k % 3 == 0) input[k] = (static_cast<float>(k % 100) + 0.5f) / 127.0f;
          if (k % 3 == 1)
            input[k] = std::nextafter((static_cast<float>(k % 100) + 0.5f) / 127.0f, k % 2 == 0 ? 0.0f : 1.0f);
        }
        input[width - 1] = 1.0f;
      }
      std::vector<float> out = guarded(width);
      isa.kernels->quantize_activations(input.data(), width, out.data());
      check_guard(out, width, "quantization");
      for (size_t start = 0; start < width; start += 32) {
        const size_t end = std::min(start + 32, width);
        float largest = 0;
        for (size_t k = start; k < end; k++) largest = std::fmax(largest, std::fabs(input[k]));
        const float scale = static_cast<float>(static_cast<double>(largest) / 127);
        for (size_t k = start; k < end; k++) {
          const float expected =
              scale == 0 ? 0
                         : static_cast<float>(static_cast<double>(half_to_even(static_cast<double>(input[k]) / scale)) *
                                              scale);
          CHECK(out[k] == expected, "quantization of %zu at %zu: %g, not %g", width, k, out[k], expected);
        }
      }
    }
  }
  for (const float odd : {kNan, kInfinity, -kInfinity}) {
    std::vector<float> input = numbers.row(70, 1);
    input[40] = odd;
    std::vector<float> out(70);
    isa.kernels->quantize_activations(input.data(), 70, out.data());
    for (size_t k = 0; k < 70; k++)
      CHECK(std::isnan(out[k]) == (k >= 32 && k < 64), "quantization of %g at %zu: %g", odd, k, out[k]);
  }
}

void test_rope(const RowIsa& isa) {
  Numbers numbers(3);
  for (const size_t pairs : {1, 3, 10, 16, 32, 48, 64}) {
    for (const size_t rest : {0, 5}) {
      const size_t width = 2 * pairs + rest;
      const std::vector<float> input = numbers.row(width, 4);
      std::vector<float> cosines(pairs), sines(pairs);
      for (size_t k = 0; k < pairs; k++) {
        const double angle = numbers.within(3);
        cosines[k] = static_cast<float>(std::cos(angle));
        sines[k] = static_cast<float>(std::sin(angle));
      }
      for (const bool adjacent : {false, true}) {
        std::vector<float> out = guarded(width);
        isa.kernels->rope(input.data(), cosines.data(), sines.data(), pairs, width, adjacent, out.data());
        check_guard(out, width, "rope");
        for (size_t pair = 0; pair < pairs; pair++) {
          const size_t left = adjacent ? 2 * pair : pair;
          const size_t right = adjacent ? 2 * pair + 1 : pair + pairs;
          const double a = input[left], b = input[right], c = cosines[pair], s = sines[pair];
          CHECK(near(out[left], a * c - b * s, 3e-7, 4), "rope of %zu pairs at %zu", pairs, left);
          CHECK(near(out[right], a * s + b * c, 3e-7, 4), "rope of %zu pairs at %zu", pairs, right);
        }
        for (size_t k = 2 * pairs; k < width; k++) CHECK(out[k] == input[k], "rope's rest at %zu", k);
        std::vector<float> same = input;
        isa.kernels->rope(same.data(), cosines.data(), sines.data(), pairs, width, adjacent, same.data());
        CHECK(memcmp(same.data(), out.data(), width * sizeof(float)) == 0, "rope in place of %zu pairs", pairs);
      }
    }
  }
}

double gelu(double x) { return x / 2 * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x))); }

double swiglu_oai(double gate, double up) {
  const double g = std::fmin(gate, 7);
  return g / (1 + std::exp(-1.702 * g)) * (std::fmax(-7, std::fmin(up, 7)) + 1);
}

void test_elementwise(const RowIsa& isa) {
  Numbers numbers(4);
  for (const size_t width : kWidths) {
    std::vector<float> left = numbers.row(width, 12), right = numbers.row(width, 3), bias = numbers.row(width, 1);
    if (width == 100) left[7] = -200, left[8] = 200, left[9] = -89.5f;
    std::vector<float> out = guarded(width);
    isa.kernels->glu(Activation::silu, left.data(), false, right.data(), width, out.data());
    check_guard(out, width, "glu");
    for (size_t k = 0; k < width; k++) {
      const double x = left[k];
      const double expected = x / (1 + std::exp(-x)) * right[k];
      CHECK(near(out[k], expected, 6e-7, 1e-30), "silu of %g: %g, not %g", x, out[k], expected);
    }
    isa.kernels->glu(Activation::gelu, left.data(), false, right.data(), width, out.data());
    check_guard(out, width, "glu");
    for (size_t k = 0; k < width; k++) {
      const double expected = gelu(left[k]) * right[k];
      CHECK(near(out[k], expected, 1e-6, 1e-2), "gelu of %g: %g, not %g", left[k], out[k], expected);
    }
    isa.kernels->glu(Activation::sigmoid, left.data(), false, right.data(), width, out.data());
    check_guard(out, width, "glu");
    for (size_t k = 0; k < width; k++) {
      const double expected = right[k] / (1 + std::exp(-static_cast<double>(left[k])));
      CHECK(near(out[k], expected, 6e-7, 1e-30), "sigmoid of %g: %g, not %g", left[k], out[k], expected);
    }
    isa.kernels->glu(Activation::swiglu_oai, left.data(), false, bias.data(), width, out.data());
    check_guard(out, width, "glu");
    for (size_t k = 0; k < width; k++) {
      const double expected = swiglu_oai(left[k], bias[k]);
      CHECK(near(out[k], expected, 1e-6, 1e-5), "swiglu-oai of %g: %g, not %g", left[k], out[k], expected);
    }
    isa.kernels->glu(Activation::relu, left.data(), false, right.data(), width, out.data());
    check_guard(out, width, "glu");
    for (size_t k = 0; k < width; k++) CHECK(out[k] == std::fmax(left[k], 0.0f) * right[k], "relu of %g", left[k]);
    isa.kernels->glu(Activation::identity, left.data(), false, right.data(), width, out.data());
    check_guard(out, width, "glu");
    for (size_t k = 0; k < width; k++) CHECK(out[k] == left[k] * right[k], "identity of %g", left[k]);
    isa.kernels->glu(Activation::sigmoid, bias.data(), true, right.data(), width, out.data());
    check_guard(out, width, "glu");
    for (size_t k = 0; k < width; k++) {
      const double expected = right[k] / (1 + std::exp(-static_cast<double>(bias[0])));
      CHECK(near(out[k], expected, 6e-7, 1e-30), "one gate: %g, not %g", out[k], expected);
    }
    isa.kernels->add(left.data(), right.data(), width, out.data());
    check_guard(out, width, "add");
    for (size_t k = 0; k < width; k++) CHECK(out[k] == left[k] + right[k], "add at %zu", k);
    isa.kernels->scale(left.data(), width, 0.125f, out.data());
    check_guard(out, width, "scale");
    for (size_t k = 0; k < width; k++) CHECK(out[k] == left[k] * 0.125f, "scale at %zu", k);
    for (int given = 0; given < 4; given++) {
      std::vector<float> changed = out;
      const Epilogue plain = {3.0f, given & 1 ? bias.data() : nullptr, 0, given & 2 ? right.data() : nullptr};
      isa.kernels->epilogue(changed.data(), width, plain);
      check_guard(changed, width, "epilogue");
      for (size_t k = 0; k < width; k++) {
        float expected = out[k] * 3.0f;
        if (given & 1) expected += bias[k];
        if (given & 2) expected += right[k];
        CHECK(changed[k] == expected, "epilogue at %zu", k);
      }
    }
  }
  const float odd[] = {kNan, kInfinity, -kInfinity, 0.0f};
  const float ones[] = {1, 1, 1, 1};
  float out[4];
  for (const Activation activation : {Activation::silu, Activation::gelu}) {
    isa.kernels->glu(activation, odd, false, ones, 4, out);
    CHECK(std::isnan(out[0]) && out[1] == kInfinity && std::isnan(out[2]) && out[3] == 0, "glu of special values");
  }
  // Past the range of x³ in f32.
  const float large[] = {1e30f, -1e30f, 20, -20};
  isa.kernels->glu(Activation::gelu, large, false, ones, 4, out);
  CHECK(out[0] == 1e30f && out[1] == 0 && out[2] == 20 && std::fabs(out[3]) < 1e-30f, "gelu of large values");
}

/// Through the epilogue's soft-cap at 1, which is tanh itself.
void test_tanh(const RowIsa& isa) {
  const auto tanh_of = [&](float x) {
    isa.kernels->epilogue(&x, 1, {1, nullptr, 1, nullptr});
    return x;
  };
  double worst = 0;
  for (double x = -12; x < 12; x += 0.00037) {
    const double expected = std::tanh(static_cast<double>(static_cast<float>(x)));
    if (expected != 0) worst = std::fmax(worst, std::fabs(tanh_of(static_cast<float>(x)) / expected - 1));
  }
  CHECK(worst < 4e-7, "tanh is wrong by %g", worst);
  CHECK(tanh_of(0) == 0 && tanh_of(1e-30f) == 1e-30f && tanh_of(-1e-20f) == -1e-20f, "tanh near 0");
  CHECK(tanh_of(kInfinity) == 1 && tanh_of(-kInfinity) == -1 && std::isnan(tanh_of(kNan)), "tanh of special values");
  printf("%s: tanh within %.3g\n", isa.name, worst);
}

void test_convert(const RowIsa& isa) {
  std::vector<uint16_t> halves(65536);
  for (size_t k = 0; k < halves.size(); k++) halves[k] = static_cast<uint16_t>(k);
  std::vector<float> out(65536 + 16, 12345.0f);
  const uint8_t* bytes = reinterpret_cast<const uint8_t*>(halves.data());
  for (const size_t count : {size_t{65536}, size_t{65531}, size_t{1}}) {
    out.assign(out.size(), 12345.0f);
    isa.kernels->convert(TensorType::f16, bytes, count, out.data());
    CHECK(out[count] == 12345.0f, "convert wrote past its end");
    for (size_t k = 0; k < count; k++) {
      const float expected = half_value(static_cast<uint32_t>(k));
      CHECK(out[k] == expected || (std::isnan(out[k]) && std::isnan(expected)), "half %zx: %g, not %g", k, out[k],
            expected);
    }
    isa.kernels->convert(TensorType::bf16, bytes, count, out.data());
    for (size_t k = 0; k < count; k++) {
      const uint32_t bits = static_cast<uint32_t>(k) << 16;
      CHECK(memcmp(&out[k], &bits, 4) == 0, "bfloat %zx: %g", k, out[k]);
    }
  }
  std::vector<float> plain = Numbers(5).row(33, 1);
  isa.kernels->convert(TensorType::f32, reinterpret_cast<const uint8_t*>(plain.data()), 33, out.data());
  CHECK(memcmp(plain.data(), out.data(), 33 * sizeof(float)) == 0, "convert of f32");
}

void test_logits(const RowIsa& isa) {
  Numbers numbers(6);
  for (const size_t count : {1, 3, 31, 33, 100, 2048, 50257}) {
    std::vector<float> values = numbers.row(count, 30);
    double highest = -kInfinity;
    for (const float value : values) highest = std::fmax(highest, value);
    CHECK(isa.kernels->max(values.data(), count) == highest, "max of %zu", count);
    double total = 0;
    for (const float value : values) total += std::exp(static_cast<double>(value) - highest);
    const double found = isa.kernels->sum_exp(values.data(), count, static_cast<float>(highest));
    CHECK(near(found, total, 1e-6, 1), "sum_exp of %zu: %.9g, not %.9g", count, found, total);
    CHECK(isa.kernels->find_not_finite(values.data(), count) == count, "all finite of %zu", count);
    for (const size_t at : {size_t{0}, count / 2, count - 1}) {
      for (const float odd : {kNan, kInfinity, -kInfinity}) {
        std::vector<float> broken = values;
        broken[at] = odd;
        broken[count - 1] = at == count - 1 ? odd : kNan;
        CHECK(isa.kernels->find_not_finite(broken.data(), count) == at, "not finite at %zu of %zu", at, count);
      }
      size_t expected = at;
      while (expected < count && !(values[expected] > 25.0f)) expected++;
      CHECK(isa.kernels->find_above(values.data(), count, at, 25.0f) == expected, "above from %zu of %zu", at, count);
    }
    CHECK(isa.kernels->find_above(values.data(), count, 0, 31.0f) == count, "none above of %zu", count);
    CHECK(isa.kernels->find_above(values.data(), count, count, -31.0f) == count, "from the end of %zu", count);
  }
}

/// Through sum_exp of one value, which is nothing else than the exponential.
void test_exponential(const RowIsa& isa) {
  const auto exp_of = [&](float x) { return isa.kernels->sum_exp(&x, 1, 0.0f); };
  double worst = 0;
  for (double x = -87.3; x < 88.7; x += 0.00137) {
    const double expected = std::exp(static_cast<double>(static_cast<float>(x)));
    worst = std::fmax(worst, std::fabs(exp_of(static_cast<float>(x)) / expected - 1));
  }
  CHECK(worst < 1.5e-7, "exp is wrong by %g", worst);
  CHECK(exp_of(0) == 1 && exp_of(-0.0f) == 1, "exp of 0");
  CHECK(exp_of(-kInfinity) == 0 && exp_of(-1000) == 0 && exp_of(-104) == 0, "exp of large negative values");
  CHECK(exp_of(-100) > 0 && near(exp_of(-100), std::exp(-100.0), 0.05, 0), "exp of -100, which is subnormal");
  CHECK(exp_of(kInfinity) == kInfinity && exp_of(1000) == kInfinity && exp_of(88.8f) == kInfinity,
        "exp of large values");
  CHECK(std::isnan(exp_of(kNan)), "exp of NaN");
  printf("%s: exp within %.3g\n", isa.name, worst);
}

}  // namespace
}  // namespace rocmforge

int main() {
  size_t parity = 0;
  for (const rocmforge::RowIsa& isa : rocmforge::row_isas()) {
    rocmforge::test_exponential(isa);
    rocmforge::test_tanh(isa);
    rocmforge::test_norm(isa);
    rocmforge::test_quantize(isa);
    rocmforge::test_rope(isa);
    rocmforge::test_elementwise(isa);
    rocmforge::test_convert(isa);
    rocmforge::test_logits(isa);
    rocmforge::test_attention(isa, parity++);
    rocmforge::test_expert_rows(isa);
    rocmforge::test_recurrent_rows(isa);
    printf("%s: ok\n", isa.name);
  }
}
