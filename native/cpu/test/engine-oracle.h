// The small model of the fixture in plain loops and double precision, one token after the other: what is right.

#pragma once

#include <cmath>
#include <vector>

#include "engine-fixture.h"

namespace rocmforge {

using Vector = std::vector<double>;

/// The same model in plain loops, one token after the other.
class Oracle {
 public:
  explicit Oracle(const Model& model) : program_(model.executor->program()), fields_(model.fields) {
    for (size_t id = 0; id < program_.weights.size(); id++) {
      const Weight& weight = program_.weights[id];
      const Matrix& matrix = model.weights->matrix(static_cast<Id>(id));
      std::vector<float> row(weight.width);
      Vector values;
      for (size_t index = 0; index < weight.rows; index++) {
        kernel_tables().back().matmul->decode_row(weight.type, matrix.data + index * matrix.row_bytes, weight.width,
                                                  row.data());
        values.insert(values.end(), row.begin(), row.end());
      }
      weights_.push_back(values);
    }
  }

  /// Logits of the last of `tokens` tokens of a sequence.
  Vector logits(size_t sequence, size_t tokens) {
    keys_.assign(kLayers, {});
    stored_.assign(kLayers, {});
    values_.assign(program_.values.size(), {});
    for (position_ = 0; position_ < tokens; position_++) {
      token_ = static_cast<size_t>(token_at(sequence, position_));
      for (const FieldMap& one : fields_) run(one);
    }
    return values_[static_cast<size_t>(program_.logits)];
  }

 private:
  Vector& at(Id id) { return values_[static_cast<size_t>(id)]; }
  const Vector& weight(Id id) const { return weights_[static_cast<size_t>(id)]; }

  static Vector normed(const Vector& input, const Vector& weight, double epsilon) {
    double squares = 0;
    for (const double value : input) squares += value * value;
    Vector out(input.size());
    for (size_t k = 0; k < out.size(); k++)
      out[k] = input[k] / std::sqrt(squares / static_cast<double>(out.size()) + epsilon) * weight[k];
    return out;
  }

  static double soft_capped(double x, double cap) { return cap == 0 ? x : cap * std::tanh(x / cap); }

  Vector multiplied(const Vector& input, const FieldMap& matmul) const {
    const Vector& matrix = weight(matmul.id("weight"));
    const Id scale = matmul.id("scale");
    const Id bias = matmul.id("bias");
    Vector out(matrix.size() / input.size());
    for (size_t row = 0; row < out.size(); row++) {
      for (size_t k = 0; k < input.size(); k++) out[row] += matrix[row * input.size() + k] * input[k];
      if (scale != kNone) out[row] *= weight(scale)[0];
      if (bias != kNone) out[row] += weight(bias)[row];
      out[row] = soft_capped(out[row], matmul.number("softCap"));
    }
    return out;
  }

  Vector rotated(const Vector& input, const FieldMap& one) const {
    Vector out = input;
    const size_t pairs = one.count("rotaryWidth") / 2;
    const Rope& rope = program_.ropes[0];
    const bool adjacent = one.text("style") == "adjacent";
    for (size_t start = 0; start < input.size(); start += one.count("headWidth")) {
      float unscaled = static_cast<float>(position_);
      for (size_t pair = 0; pair < pairs; pair++) {
        const double angle = static_cast<float>(unscaled / weight(one.id("factors"))[pair]);
        const size_t left = start + (adjacent ? 2 * pair : pair);
        const size_t right = adjacent ? left + 1 : left + pairs;
        out[left] = input[left] * std::cos(angle) - input[right] * std::sin(angle);
        out[right] = input[left] * std::sin(angle) + input[right] * std::cos(angle);
        unscaled *= rope.ratio;
      }
    }
    return out;
  }

  void run(const FieldMap& one) {
    const std::string kind = one.text("kind");
    if (kind == "embed") return embed(one);
    if (kind == "matmul") return matmul(one);
    if (kind == "rope-store") return rope_store(one);
    if (kind == "attention") return attention(one);
    if (kind == "rms-norm") {
      at(one.id("out")) = normed(at(one.id("input")), weight(one.id("weight")), one.number("epsilon"));
    } else if (kind == "select-rows") {
      at(one.id("out")) = at(one.id("input"));
    } else {
      abort();
    }
  }

  void embed(const FieldMap& one) {
    const auto row = weight(one.id("table")).begin() + static_cast<std::ptrdiff_t>(token_ * kWidth);
    at(one.id("out")).assign(row, row + kWidth);
    for (double& value : at(one.id("out"))) value *= one.number_or("scale", 1);
  }

  static double activated(const std::string& activation, double x) {
    if (activation == "silu") return x / (1 + std::exp(-x));
    return x / 2 * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
  }

  void matmul(const FieldMap& one) {
    const Id norm = one.id("norm");
    const Id residual = one.id("residual");
    const Vector input =
        norm == kNone ? at(one.id("input")) : normed(at(one.id("input")), weight(norm), one.number("epsilon"));
    if (one.text("activation") != "none") {
      const Vector gate = multiplied(input, one.matmuls[0]);
      Vector up = multiplied(input, one.matmuls[1]);
      for (size_t k = 0; k < up.size(); k++) up[k] *= activated(one.text("activation"), gate[k]);
      at(one.id("gatedOut")) = up;
      return;
    }
    for (const FieldMap& matmul : one.matmuls) {
      Vector out = multiplied(input, matmul);
      for (size_t k = 0; residual != kNone && k < out.size(); k++) out[k] += at(residual)[k];
      at(matmul.id("out")) = out;
    }
  }

  void rope_store(const FieldMap& one) {
    at(one.id("queryOut")) = rotated(at(one.id("query")), one);
    keys_[one.count("layer")].push_back(rotated(at(one.id("key")), one));
    stored_[one.count("layer")].push_back(at(one.id("value")));
  }

  void attention(const FieldMap& one) {
    const Vector& query = at(one.id("query"));
    const std::vector<Vector>& keys = keys_[one.count("layer")];
    const std::vector<Vector>& values = stored_[one.count("layer")];
    const size_t window = one.count_or("window", 0);
    const size_t first = window == 0 || position_ < window ? 0 : position_ + 1 - window;
    Vector out(query.size());
    for (size_t head = 0; head < kHeads; head++) {
      const size_t column = head / (kHeads / kKvHeads) * kHeadWidth;
      Vector scores(position_ + 1);
      double total = !one.has("sinks") ? 0 : std::exp(weight(one.id("sinks"))[head]);
      for (size_t past = first; past <= position_; past++) {
        for (size_t k = 0; k < kHeadWidth; k++) scores[past] += query[head * kHeadWidth + k] * keys[past][column + k];
        scores[past] = std::exp(soft_capped(scores[past] * one.number("scale"), one.number_or("softCap", 0)));
        total += scores[past];
      }
      for (size_t past = first; past <= position_; past++) {
        for (size_t k = 0; k < kHeadWidth; k++)
          out[head * kHeadWidth + k] += scores[past] / total * values[past][column + k];
      }
    }
    at(one.id("out")) = out;
  }

  const Program& program_;
  const std::vector<FieldMap>& fields_;
  std::vector<Vector> weights_;
  std::vector<Vector> values_;
  std::vector<std::vector<Vector>> keys_;
  std::vector<std::vector<Vector>> stored_;
  size_t position_ = 0;
  size_t token_ = 0;
};

}  // namespace rocmforge
