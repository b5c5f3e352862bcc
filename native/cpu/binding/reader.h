// Reading JavaScript values with a check of every type and range. What is read is copied at once: the next property may
// be a getter that changes everything. A violation is thrown as `invalid`, with the path in the argument.

#pragma once

#include <napi.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace rocmforge {

/// A value and its path in the argument.
class Reader {
 public:
  Reader(Napi::Value value, std::string where) : value_(value), where_(std::move(where)) {}

  const std::string& where() const { return where_; }
  Napi::Value value() const { return value_; }
  bool is_undefined() const { return value_.IsUndefined(); }

  /// A property of an object.
  Reader field(const char* name) const;
  /// The entries of a plain array of at most `most`.
  std::vector<Reader> entries(size_t most) const;

  Napi::Object object() const;
  int64_t whole(int64_t least, int64_t most) const;
  size_t count(size_t most) const { return static_cast<size_t>(whole(0, static_cast<int64_t>(most))); }
  /// An id, or -1 for none.
  int32_t id() const { return static_cast<int32_t>(whole(-1, INT32_MAX)); }
  double number() const;
  bool boolean() const;
  std::string string() const;
  uint64_t address() const;

  std::vector<int32_t> int32s() const;
  std::vector<uint32_t> uint32s() const;
  std::vector<float> floats() const;
  std::vector<double> doubles() const;

  [[noreturn]] void refuse_found(const std::string& expected) const;

 private:
  template <typename Element>
  std::vector<Element> typed_array(napi_typedarray_type type, const char* name) const;

  Napi::Value value_;
  std::string where_;
};

/// The largest whole number that a JavaScript number holds exactly.
constexpr size_t kMaxWhole = (size_t{1} << 53) - 1;

}  // namespace rocmforge
