// The kinds of instructions that are linked in, and how a program's instructions are read by them.

#include "instruction.h"

#include <string>

#include "error.h"
#include "fields.h"

namespace rocmforge {

namespace {

/// The last kind that was registered, and through it all others. Set before any constant is constructed.
const InstructionKind* last_kind = nullptr;

}  // namespace

InstructionKind::InstructionKind(const char* name, Read read) : name_(name), read_(read), next_(last_kind) {
  last_kind = this;
}

std::unique_ptr<Instruction> read_instruction(const Fields& fields) {
  const std::string name = fields.text("kind");
  for (const InstructionKind* kind = last_kind; kind != nullptr; kind = kind->next_) {
    if (name != kind->name_) continue;
    std::unique_ptr<Instruction> instruction = kind->read_(fields);
    instruction->kind_ = kind->name_;
    return instruction;
  }
  refuse(fields.path("kind"), "a kind of instruction", name);
}

}  // namespace rocmforge
