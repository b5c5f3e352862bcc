// Instructions of test programs: fields by name, as JavaScript would hand them over.

#pragma once

#include <initializer_list>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "../engine/error.h"
#include "../engine/fields.h"

namespace rocmforge {

class FieldMap final : public Fields {
 public:
  using Numbers = std::map<std::string, double>;
  using Texts = std::map<std::string, std::string>;
  std::vector<FieldMap> matmuls;

  FieldMap(Numbers numbers, Texts texts = {}) : numbers_(std::move(numbers)), texts_(std::move(texts)) {}
  FieldMap(const char* kind, Numbers numbers, std::vector<FieldMap> matmul_list = {})
      : matmuls(std::move(matmul_list)), numbers_(std::move(numbers)), texts_({{"kind", kind}}) {}

  /// A number, 0 if the field was absent.
  double& operator[](const char* name) { return numbers_[name]; }
  FieldMap with_text(const char* name, const char* text) const {
    FieldMap copy = *this;
    copy.set_text(name, text);
    return copy;
  }
  void set_text(const char* name, const char* text) { texts_[name] = text; }

  bool has(const char* name) const override { return numbers_.count(name) + texts_.count(name) != 0; }
  size_t count(const char* name) const override { return static_cast<size_t>(numbers_.at(name)); }
  Id id(const char* name) const override { return static_cast<Id>(numbers_.at(name)); }
  float number(const char* name) const override { return static_cast<float>(numbers_.at(name)); }
  bool flag(const char* name) const override { return numbers_.at(name) != 0; }
  std::string text(const char* name) const override { return texts_.at(name); }
  void each(const char*, const std::function<void(const Fields&)>& visit) const override {
    for (const FieldMap& matmul : matmuls) visit(matmul);
  }
  std::string path(const char* name) const override { return text("kind") + "." + name; }

 private:
  Numbers numbers_;
  Texts texts_;
};

}  // namespace rocmforge
