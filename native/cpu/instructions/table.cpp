// The table of instructions: one row for each file of this folder that defines one.

#include "table.h"

#include "../engine/error.h"

namespace rocmforge {

extern const InstructionKind kAdd;
extern const InstructionKind kAttention;
extern const InstructionKind kEmbed;
extern const InstructionKind kGlu;
extern const InstructionKind kKvWrite;
extern const InstructionKind kMatmul;
extern const InstructionKind kQuantizeActivations;
extern const InstructionKind kRmsNorm;
extern const InstructionKind kRope;
extern const InstructionKind kRopeStore;
extern const InstructionKind kSelectRows;

namespace {

const InstructionKind* const kKinds[] = {&kAdd,       &kAttention,           &kEmbed,   &kGlu,  &kKvWrite,
                                         &kMatmul,    &kQuantizeActivations, &kRmsNorm, &kRope, &kRopeStore,
                                         &kSelectRows};

}  // namespace

std::unique_ptr<Instruction> read_instruction(const Fields& fields) {
  const std::string name = fields.text("kind");
  for (const InstructionKind* kind : kKinds) {
    if (name == kind->name) return kind->read(fields);
  }
  refuse(fields.path("kind"), "a kind of instruction", name);
}

}  // namespace rocmforge
