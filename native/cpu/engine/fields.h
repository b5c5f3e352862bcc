// The fields of an instruction as its caller wrote them. An instruction reads itself through this interface, so that
// its file knows nothing of JavaScript: the bindings read the fields of an object, the C++ tests those of a map.

#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "program.h"

namespace rocmforge {

/// Every read throws `invalid` with the path of the field if its type or range is wrong.
class Fields {
 public:
  virtual ~Fields() = default;

  /// False if the field is absent, as the optional fields of an operation may be.
  virtual bool has(const char* name) const = 0;
  /// A whole number that is not negative.
  virtual size_t count(const char* name) const = 0;
  /// The id of a value, weight or rope, or kNone.
  virtual Id id(const char* name) const = 0;
  virtual float number(const char* name) const = 0;
  virtual bool flag(const char* name) const = 0;
  virtual std::string text(const char* name) const = 0;
  /// Calls `visit` for each entry of a list of objects.
  virtual void each(const char* name, const std::function<void(const Fields&)>& visit) const = 0;
  /// The path of a field, for error messages.
  virtual std::string path(const char* name) const = 0;

  /// The same for fields that may be absent.
  size_t count_or(const char* name, size_t absent) const { return has(name) ? count(name) : absent; }
  Id id_or_none(const char* name) const { return has(name) ? id(name) : kNone; }
  float number_or(const char* name, float absent) const { return has(name) ? number(name) : absent; }
  bool flag_or(const char* name, bool absent) const { return has(name) ? flag(name) : absent; }
};

}  // namespace rocmforge
