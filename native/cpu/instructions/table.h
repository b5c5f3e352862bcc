// The instructions that a program may have.

#pragma once

#include <memory>

#include "../engine/fields.h"
#include "../engine/instruction.h"

namespace rocmforge {

/// Reads an instruction by its field `kind`; throws `invalid` for an unknown kind and for fields of the wrong type.
std::unique_ptr<Instruction> read_instruction(const Fields& fields);

}  // namespace rocmforge
