// The kernels of recurrent layers against plain code in double precision: any widths, slices of columns, states in place
// and elsewhere, and how the bits depend on the number of tokens.

#include "rows-test.h"

#include <cstring>

namespace rocmforge {

void test_recurrent_rows(const RowIsa& isa);

namespace {

constexpr float kGuard = 12345.0f;

/// The largest difference, relative to the largest expected value or to a tenth, which is a small one here.
double difference(const std::vector<float>& found, const std::vector<double>& expected) {
  double largest = 0.1, worst = 0;
  for (size_t k = 0; k < expected.size(); k++) {
    largest = std::fmax(largest, std::fabs(expected[k]));
    worst = std::fmax(worst, std::fabs(found[k] - expected[k]));
  }
  return worst / largest;
}

double softplus(double x) { return std::log1p(std::exp(x)); }

void test_conv(const RowIsa& isa) {
  Numbers numbers(31);
  for (const size_t columns : {1, 7, 16, 33, 128}) {
    for (const size_t taps : {1, 2, 4, 9}) {
      const std::vector<float> inputs = numbers.row(taps * columns, 2), weights = numbers.row(taps * columns, 1),
                               bias = numbers.row(columns, 1);
      std::vector<const float*> rows;
      for (size_t tap = 0; tap < taps; tap++) rows.push_back(inputs.data() + tap * columns);
      std::vector<float> out(columns + 1, kGuard);
      isa.kernels->causal_conv({taps, columns, rows.data(), weights.data(), bias.data(), true, out.data()});
      CHECK(out[columns] == kGuard, "conv of %zu wrote past its end", columns);
      for (size_t k = 0; k < columns; k++) {
        double total = bias[k];
        for (size_t tap = 0; tap < taps; tap++) total += double{inputs[tap * columns + k]} * weights[tap * columns + k];
        const double expected = total / (1 + std::exp(-total));
        CHECK(std::fabs(out[k] - expected) < 2e-6, "conv at %zu: %g, not %g", k, out[k], expected);
      }
      isa.kernels->causal_conv({taps, columns, rows.data(), weights.data(), nullptr, false, out.data()});
      double total = 0;
      for (size_t tap = 0; tap < taps; tap++) total += double{inputs[tap * columns]} * weights[tap * columns];
      CHECK(std::fabs(out[0] - total) < 2e-6, "plain conv: %g, not %g", out[0], total);
    }
  }
}

/// Rows of queries, keys, values, alpha and beta, and what plain code makes of them.
struct DeltaCase {
  size_t width, tokens, stride;
  std::vector<float> rows, before;
  std::vector<double> state, out;

  DeltaCase(size_t width, size_t tokens) : width(width), tokens(tokens), stride(3 * width + 5) {
    Numbers numbers(width + 100 * tokens);
    rows = numbers.row(tokens * stride, 1.5f);
    before = numbers.row(width * width, 0.5f);
    state.assign(before.begin(), before.end());
    for (size_t token = 0; token < tokens; token++) step(rows.data() + token * stride);
  }

  void step(const float* row) {
    std::vector<double> query(width), key(width);
    normalize(row, query);
    normalize(row + width, key);
    const double kept = std::exp(-0.3 * softplus(row[3 * width] + 0.2));
    const double rate = 1 / (1 + std::exp(-double{row[3 * width + 1]}));
    for (double& held : state) held *= kept;
    for (size_t column = 0; column < width; column++) {
      double known = 0, read = 0;
      for (size_t k = 0; k < width; k++) known += state[k * width + column] * key[k];
      const double delta = rate * (row[2 * width + column] - known);
      for (size_t k = 0; k < width; k++) state[k * width + column] += key[k] * delta;
      for (size_t k = 0; k < width; k++) read += state[k * width + column] * query[k];
      out.push_back(read / std::sqrt(static_cast<double>(width)));
    }
  }

  void normalize(const float* head, std::vector<double>& to) const {
    double squares = 0;
    for (size_t k = 0; k < width; k++) squares += double{head[k]} * head[k];
    for (size_t k = 0; k < width; k++) to[k] = head[k] / std::fmax(std::sqrt(squares), 1e-6);
  }

  DeltaNetRun run(const float* from, float* to, float* results, bool one_by_one) const {
    DeltaNetRun one = {};
    one.width = width;
    one.end_column = width;
    one.tokens = tokens;
    one.one_by_one = one_by_one;
    one.queries = rows.data();
    one.keys = rows.data() + width;
    one.values = rows.data() + 2 * width;
    one.alphas = rows.data() + 3 * width;
    one.betas = rows.data() + 3 * width + 1;
    one.stride = one.alpha_stride = one.beta_stride = stride;
    one.decay = -0.3f;
    one.bias = 0.2f;
    one.epsilon = 1e-6f;
    one.from = from;
    one.to = to;
    one.out = results;
    one.out_stride = width;
    return one;
  }
};

void test_delta_net(const RowIsa& isa) {
  for (const size_t width : {1, 7, 16, 20, 64, 128}) {
    std::vector<uint8_t> scratch(isa.kernels->delta_net_scratch_bytes(width) + 64);
    uint8_t* const aligned = scratch.data() + (64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64) % 64;
    for (const size_t tokens : {1, 2, 3, 7, 8, 21}) {
      const DeltaCase wanted(width, tokens);
      for (const bool one_by_one : {false, true}) {
        std::vector<float> in_place = wanted.before, elsewhere(width * width + 1, kGuard);
        std::vector<float> out(tokens * width + 1, kGuard), again(tokens * width);
        isa.kernels->delta_net(wanted.run(in_place.data(), in_place.data(), out.data(), one_by_one), aligned);
        CHECK(out[tokens * width] == kGuard, "delta net of %zu wrote past its results", width);
        CHECK(difference(out, wanted.out) < 3e-6, "%s: %zu tokens of %zu: %g", isa.name, tokens, width,
              difference(out, wanted.out));
        CHECK(difference(in_place, wanted.state) < 3e-6, "state of %zu tokens of %zu", tokens, width);
        // Column by column from another place gives the same bits, and touches no other column.
        const std::vector<float> source = wanted.before;
        const size_t slice = width < 20 ? 1 : width / 2 - 3;
        for (size_t first = 0; first < width; first += slice) {
          DeltaNetRun one = wanted.run(source.data(), elsewhere.data(), again.data(), one_by_one);
          one.first_column = first;
          one.end_column = std::min(width, first + slice);
          isa.kernels->delta_net(one, aligned);
          if (one.end_column < width) CHECK(elsewhere[one.end_column] == kGuard, "slice at %zu", first);
        }
        CHECK(elsewhere[width * width] == kGuard, "delta net of %zu wrote past its state", width);
        CHECK(memcmp(out.data(), again.data(), again.size() * sizeof(float)) == 0, "slices of %zu", width);
        CHECK(memcmp(in_place.data(), elsewhere.data(), in_place.size() * sizeof(float)) == 0, "state of slices");
      }
      // One by one is one after the other, to the bit.
      std::vector<float> state = wanted.before, stepped = wanted.before, out(tokens * width), single(tokens * width);
      isa.kernels->delta_net(wanted.run(state.data(), state.data(), out.data(), true), aligned);
      for (size_t token = 0; token < tokens; token++) {
        DeltaNetRun one = wanted.run(stepped.data(), stepped.data(), single.data() + token * width, token % 2 == 0);
        one.tokens = 1;
        for (const float** part : {&one.queries, &one.keys, &one.values, &one.alphas, &one.betas})
          *part += token * wanted.stride;
        isa.kernels->delta_net(one, aligned);
      }
      CHECK(out == single && state == stepped, "%zu tokens of %zu one by one", tokens, width);
    }
  }
}

void test_scan(const RowIsa& isa) {
  constexpr size_t tokens = 11;
  for (const size_t width : {1, 5, 16, 40, 64}) {
    for (const size_t states : {1, 16, 33}) {
      Numbers numbers(width + states);
      const size_t stride = width + 2 * states + 1;
      const std::vector<float> rows = numbers.row(tokens * stride, 1.5f), before = numbers.row(states * width, 1);
      std::vector<uint8_t> scratch(isa.kernels->ssm_scan_scratch_bytes(states) + 64);
      uint8_t* const aligned = scratch.data() + (64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64) % 64;
      const auto scan = [&](size_t first, size_t count, std::vector<float>& state, std::vector<float>& out) {
        const float* const row = rows.data() + first * stride;
        SsmScanRun one = {};
        one.state_width = states;
        one.head_width = one.end_column = width;
        one.tokens = count;
        one.x = row;
        one.b = row + width;
        one.c = one.b + states;
        one.steps = one.c + states;
        one.stride = one.step_stride = stride;
        one.decay = -0.4f;
        one.bias = 0.1f;
        one.skip = 0.7f;
        one.from = one.to = state.data();
        one.out = out.data() + first * width;
        one.out_stride = width;
        isa.kernels->ssm_scan(one, aligned);
      };
      std::vector<float> state = before, stepped = before, out(tokens * width + 1, kGuard), single(tokens * width);
      scan(0, tokens, state, out);
      CHECK(out[tokens * width] == kGuard, "scan of %zu wrote past its results", width);
      for (size_t token = 0; token < tokens; token++) scan(token, 1, stepped, single);
      CHECK(memcmp(out.data(), single.data(), single.size() * sizeof(float)) == 0 && state == stepped,
            "scan of %zu × %zu one by one", states, width);
      std::vector<double> held(before.begin(), before.end()), expected;
      for (size_t token = 0; token < tokens; token++) {
        const float* const x = rows.data() + token * stride;
        const float* const b = x + width;
        const double delta = softplus(b[2 * states] + 0.1);
        for (size_t column = 0; column < width; column++) {
          double total = 0.7 * x[column];
          for (size_t k = 0; k < states; k++) {
            double& element = held[k * width + column];
            element = element * std::exp(-0.4 * delta) + b[k] * delta * x[column];
            total += element * b[states + k];
          }
          expected.push_back(total);
        }
      }
      CHECK(difference(out, expected) < 3e-6, "scan of %zu × %zu: %g", states, width, difference(out, expected));
      CHECK(difference(state, held) < 3e-6, "state of a scan of %zu × %zu", states, width);
    }
  }
}

}  // namespace

void test_recurrent_rows(const RowIsa& isa) {
  test_conv(isa);
  test_delta_net(isa);
  test_scan(isa);
}

}  // namespace rocmforge
