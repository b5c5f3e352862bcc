// The activation of a gated linear unit, as instructions read it.

#pragma once

#include <string>

#include "../engine/error.h"
#include "../engine/fields.h"

namespace rocmforge {

inline Activation read_activation(const Fields& fields, const char* name) {
  const std::string found = fields.text(name);
  if (found == "silu") return Activation::silu;
  if (found == "gelu") return Activation::gelu;
  if (found == "sigmoid") return Activation::sigmoid;
  if (found == "swiglu-oai") return Activation::swiglu_oai;
  if (found == "relu") return Activation::relu;
  if (found == "identity") return Activation::identity;
  refuse(fields.path(name), "silu, gelu, sigmoid, swiglu-oai, relu or identity", found);
}

}  // namespace rocmforge
