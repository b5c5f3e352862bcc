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
  explicit Oracle(const Model& model) : program_(model.executor->program()) {
    for (size_t id = 0; id < program_.weights.size(); id++) {
      const Weight& weight = program_.weights[id];
      const Matrix& matrix = model.weights->matrix(static_cast<Id>(id));
      std::vector<float> row(weight.width);
      Vector values;
      for (size_t index = 0; index < weight.rows; index++) {
        kernel_tables().back().products->decode_row(weight.type, matrix.data + index * matrix.row_bytes, weight.width,
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
      for (const Instruction& instruction : program_.instructions)
        std::visit([this](const auto& one) { run(one); }, instruction);
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

  Vector multiplied(const Vector& input, const Product& product) const {
    const Vector& matrix = weight(product.weight);
    Vector out(matrix.size() / input.size());
    for (size_t row = 0; row < out.size(); row++) {
      for (size_t k = 0; k < input.size(); k++) out[row] += matrix[row * input.size() + k] * input[k];
      if (product.scale != kNone) out[row] *= weight(product.scale)[0];
      if (product.bias != kNone) out[row] += weight(product.bias)[row];
    }
    return out;
  }

  Vector turned(const Vector& input, const Turn& turn) const {
    Vector out = input;
    const size_t pairs = turn.rotary_width / 2;
    const Rope& rope = program_.ropes[0];
    for (size_t start = 0; start < input.size(); start += turn.head_width) {
      float angle_before = static_cast<float>(position_);
      for (size_t pair = 0; pair < pairs; pair++) {
        const double angle = static_cast<float>(angle_before / weight(turn.factors)[pair]);
        const size_t left = start + (turn.adjacent ? 2 * pair : pair);
        const size_t right = turn.adjacent ? left + 1 : left + pairs;
        out[left] = input[left] * std::cos(angle) - input[right] * std::sin(angle);
        out[right] = input[left] * std::sin(angle) + input[right] * std::cos(angle);
        angle_before *= rope.ratio;
      }
    }
    return out;
  }

  void run(const Embed& embed) {
    const auto row = weight(embed.weight).begin() + static_cast<std::ptrdiff_t>(token_ * kWidth);
    at(embed.out).assign(row, row + kWidth);
  }
  void run(const Norm& norm) { at(norm.out) = normed(at(norm.input), weight(norm.weight), norm.epsilon); }
  void run(const Project& project) {
    const Vector input =
        project.norm == kNone ? at(project.input) : normed(at(project.input), weight(project.norm), project.epsilon);
    if (project.gated) {
      const Vector gate = multiplied(input, project.products[0]);
      Vector up = multiplied(input, project.products[1]);
      for (size_t k = 0; k < up.size(); k++) up[k] *= gate[k] / (1 + std::exp(-gate[k]));
      at(project.gated_out) = up;
      return;
    }
    for (const Product& product : project.products) {
      Vector out = multiplied(input, product);
      for (size_t k = 0; project.residual != kNone && k < out.size(); k++) out[k] += at(project.residual)[k];
      at(product.out) = out;
    }
  }
  void run(const RotateStore& store) {
    at(store.query_out) = turned(at(store.query), store.turn);
    keys_[store.layer].push_back(turned(at(store.key), store.turn));
    stored_[store.layer].push_back(at(store.value));
  }
  void run(const Attention& attention) {
    const Vector& query = at(attention.query);
    Vector out(query.size());
    for (size_t head = 0; head < kHeads; head++) {
      const size_t column = head / (kHeads / kKvHeads) * kHeadWidth;
      Vector scores(position_ + 1);
      double total = 0;
      for (size_t past = 0; past <= position_; past++) {
        for (size_t k = 0; k < kHeadWidth; k++)
          scores[past] += query[head * kHeadWidth + k] * keys_[attention.layer][past][column + k];
        scores[past] = std::exp(scores[past] * attention.scale);
        total += scores[past];
      }
      for (size_t past = 0; past <= position_; past++) {
        for (size_t k = 0; k < kHeadWidth; k++)
          out[head * kHeadWidth + k] += scores[past] / total * stored_[attention.layer][past][column + k];
      }
    }
    at(attention.out) = out;
  }
  void run(const SelectRows& select) { at(select.out) = at(select.input); }
  template <typename Other>
  void run(const Other&) {
    abort();
  }

  const Program& program_;
  std::vector<Vector> weights_;
  std::vector<Vector> values_;
  std::vector<std::vector<Vector>> keys_;
  std::vector<std::vector<Vector>> stored_;
  size_t position_ = 0;
  size_t token_ = 0;
};

}  // namespace rocmforge
