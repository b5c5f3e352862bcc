// Layer norms, sums of runs and the probabilities of experts, against plain code in double precision.

#include "rows-test.h"

#include <string>

namespace rocmforge {

void test_expert_rows(const RowIsa& isa);

namespace {

const size_t kCounts[] = {1, 2, 7, 16, 17, 32, 100, 128, 513};

bool near(double found, double expected, double relative, double unit) {
  return std::fabs(found - expected) <= relative * std::fmax(std::fabs(expected), unit);
}

void test_layer_norm(const RowIsa& isa) {
  Numbers numbers(21);
  for (const size_t width : kCounts) {
    const std::vector<float> input = numbers.row(width, 3), weight = numbers.row(width, 2),
                             bias = numbers.row(width, 1);
    double mean = 0, variance = 0;
    for (const float value : input) mean += value / static_cast<double>(width);
    for (const float value : input) variance += (value - mean) * (value - mean) / static_cast<double>(width);
    for (const bool biased : {false, true}) {
      std::vector<float> out(width + 1, 12345.0f);
      isa.kernels->layer_norm(input.data(), weight.data(), biased ? bias.data() : nullptr, width, 1e-3f, out.data());
      CHECK(out[width] == 12345.0f, "layer norm of %zu wrote past its end", width);
      for (size_t k = 0; k < width; k++) {
        const double expected =
            (input[k] - mean) / std::sqrt(variance + static_cast<double>(1e-3f)) * weight[k] + (biased ? bias[k] : 0);
        CHECK(near(out[k], expected, 3e-7, 1e-2), "layer norm of %zu at %zu: %g, not %g", width, k, out[k], expected);
      }
    }
  }
}

void test_sum_runs(const RowIsa& isa) {
  Numbers numbers(22);
  for (const size_t width : kCounts) {
    for (const size_t count : {1, 2, 5, 8}) {
      const std::vector<float> input = numbers.row(width * count, 3);
      std::vector<float> out(width + 1, 12345.0f);
      isa.kernels->sum_runs(input.data(), count, width, out.data());
      CHECK(out[width] == 12345.0f, "sum of %zu runs wrote past its end", count);
      for (size_t k = 0; k < width; k++) {
        // From the first run to the last, which is the order of a sum that grows slot by slot.
        float expected = input[k];
        for (size_t run = 1; run < count; run++) expected += input[run * width + k];
        CHECK(out[k] == expected, "sum of %zu runs at %zu: %g, not %g", count, k, out[k], expected);
      }
    }
  }
}

double probability(ExpertGating gating, double logit, double highest, double total) {
  switch (gating) {
    case ExpertGating::softmax: return std::exp(logit - highest) / total;
    case ExpertGating::sigmoid: return 1 / (1 + std::exp(-logit));
    case ExpertGating::softmax_selected:
    case ExpertGating::sigmoid_selected: return logit;
    default: return std::sqrt(std::fmax(logit, 0) + std::log1p(std::exp(-std::fabs(logit))));
  }
}

void test_probabilities(const RowIsa& isa) {
  Numbers numbers(23);
  for (const ExpertGating gating : {ExpertGating::softmax, ExpertGating::sigmoid, ExpertGating::softmax_selected,
                                    ExpertGating::sqrt_softplus, ExpertGating::sigmoid_selected}) {
    for (const size_t count : kCounts) {
      std::vector<float> logits = numbers.row(count, 8);
      if (count > 3) logits[1] = 95, logits[2] = -95;
      std::vector<float> out(count + 1, 12345.0f);
      isa.kernels->expert_probabilities(gating, logits.data(), count, out.data());
      CHECK(out[count] == 12345.0f, "probabilities of %zu wrote past their end", count);
      const double highest = *std::max_element(logits.begin(), logits.end());
      double total = 0;
      for (const float logit : logits) total += std::exp(logit - highest);
      for (size_t k = 0; k < count; k++) {
        const double expected = probability(gating, logits[k], highest, total);
        CHECK(near(out[k], expected, 1e-6, 1e-12), "gating %u of %g: %g, not %g", static_cast<unsigned>(gating),
              logits[k], out[k], expected);
      }
      logits[count - 1] = std::numeric_limits<float>::quiet_NaN();
      isa.kernels->expert_probabilities(gating, logits.data(), count, out.data());
      CHECK(std::isnan(out[count - 1]), "gating %u of NaN", static_cast<unsigned>(gating));
    }
  }
}

}  // namespace

void test_expert_rows(const RowIsa& isa) {
  test_layer_norm(isa);
  test_sum_runs(isa);
  test_probabilities(isa);
}

}  // namespace rocmforge
