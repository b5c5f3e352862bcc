// The one place that looks at JavaScript types.

#include "reader.h"

#include <cmath>
#include <cstring>

#include "../engine/error.h"

namespace rocmforge {

namespace {

std::string describe(const Napi::Value& value) {
  if (value.IsUndefined()) return "undefined";
  if (value.IsNull()) return "null";
  if (value.IsBoolean()) return value.As<Napi::Boolean>().Value() ? "true" : "false";
  if (value.IsString()) return "a string";
  if (value.IsArray()) return "an array";
  if (value.IsTypedArray()) return "a typed array";
  if (value.IsFunction()) return "a function";
  if (value.IsBigInt()) return "a bigint";
  if (!value.IsNumber()) return "an object";
  const double number = value.As<Napi::Number>().DoubleValue();
  if (std::abs(number) < 9e15 && number == std::floor(number)) return std::to_string(static_cast<int64_t>(number));
  return std::to_string(number);
}

}  // namespace

void Reader::refuse_found(const std::string& expected) const { refuse(where_, expected, describe(value_)); }

Napi::Object Reader::object() const {
  if (!value_.IsObject()) refuse_found("an object");
  return value_.As<Napi::Object>();
}

Reader Reader::field(const char* name) const {
  return {object().Get(name), where_.empty() ? name : where_ + "." + name};
}

std::vector<Reader> Reader::entries(size_t most) const {
  if (!value_.IsArray()) refuse_found("an array");
  const Napi::Array array = value_.As<Napi::Array>();
  const uint32_t length = array.Length();
  if (length > most) refuse(where_, "at most " + std::to_string(most) + " entries", std::to_string(length));
  std::vector<Reader> readers;
  readers.reserve(length);
  for (uint32_t index = 0; index < length; index++) {
    readers.emplace_back(array.Get(index), where_ + "[" + std::to_string(index) + "]");
  }
  return readers;
}

double Reader::number() const {
  if (!value_.IsNumber()) refuse_found("a number");
  return value_.As<Napi::Number>().DoubleValue();
}

int64_t Reader::whole(int64_t least, int64_t most) const {
  const std::string expected = "a whole number from " + std::to_string(least) + " to " + std::to_string(most);
  if (!value_.IsNumber()) refuse_found(expected);
  const double found = value_.As<Napi::Number>().DoubleValue();
  if (!(found >= static_cast<double>(least) && found <= static_cast<double>(most)) || found != std::floor(found))
    refuse_found(expected);
  return static_cast<int64_t>(found);
}

bool Reader::boolean() const {
  if (!value_.IsBoolean()) refuse_found("true or false");
  return value_.As<Napi::Boolean>().Value();
}

std::string Reader::string() const {
  if (!value_.IsString()) refuse_found("a string");
  return value_.As<Napi::String>().Utf8Value();
}

uint64_t Reader::address() const {
  if (!value_.IsBigInt()) refuse_found("a bigint");
  bool lossless = false;
  const uint64_t address = value_.As<Napi::BigInt>().Uint64Value(&lossless);
  if (!lossless) refuse(where_, "an address of 64 bits", "a larger number");
  return address;
}

template <typename Element>
std::vector<Element> Reader::typed_array(napi_typedarray_type type, const char* name) const {
  if (!value_.IsTypedArray() || value_.As<Napi::TypedArray>().TypedArrayType() != type) refuse_found(name);
  const Napi::TypedArrayOf<Element> array = value_.As<Napi::TypedArrayOf<Element>>();
  // A detached buffer has length 0.
  const size_t length = array.ElementLength();
  std::vector<Element> copy(length);
  if (length > 0) std::memcpy(copy.data(), array.Data(), length * sizeof(Element));
  return copy;
}

std::vector<int32_t> Reader::int32s() const { return typed_array<int32_t>(napi_int32_array, "an Int32Array"); }
std::vector<uint32_t> Reader::uint32s() const { return typed_array<uint32_t>(napi_uint32_array, "a Uint32Array"); }
std::vector<float> Reader::floats() const { return typed_array<float>(napi_float32_array, "a Float32Array"); }
std::vector<double> Reader::doubles() const { return typed_array<double>(napi_float64_array, "a Float64Array"); }

}  // namespace rocmforge
