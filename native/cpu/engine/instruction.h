// What every instruction is to the engine. Each has one file under instructions/ with its struct, how it is read, how
// it is checked and how it runs; instructions/table.cpp lists them.

#pragma once

#include <cstddef>
#include <memory>

namespace rocmforge {

class Fields;
class InstructionCheck;
class Member;
struct Program;
struct StepRun;
struct StepSize;

/// How an instruction divides a step of one size, and the scratch memory that this takes. Instructions use the same
/// memory one after the other.
struct InstructionPlan {
  /// Of each thread.
  size_t thread_bytes = 0;
  /// Of all threads together.
  size_t shared_bytes = 0;
  /// Shared counters that are 0 before the instruction and must be 0 again after it.
  size_t counters = 0;

  virtual ~InstructionPlan() = default;
};

class Instruction {
 public:
  virtual ~Instruction() = default;

  /// The kind's name in index.d.ts, which profiles and error messages use.
  virtual const char* kind() const = 0;
  /// Throws `invalid` unless no step of the program can make this instruction leave its buffers; fills derived fields.
  virtual void check(InstructionCheck& check) = 0;
  /// Null for an instruction that takes no scratch memory. Throws `memory` for sizes beyond any machine.
  virtual std::unique_ptr<InstructionPlan> plan(const Program&, const StepSize&) const { return nullptr; }
  /// Every thread of the step calls this; they share the work of each phase. `plan` is what `plan` returned for the
  /// step.
  virtual void run(const StepRun& run, Member& member, const InstructionPlan* plan) const = 0;
};

/// One row of the table of instructions.
struct InstructionKind {
  const char* name;
  std::unique_ptr<Instruction> (*read)(const Fields& fields);
};

/// Reads an instruction whose constructor takes the fields.
template <typename Kind>
std::unique_ptr<Instruction> read_as(const Fields& fields) {
  return std::make_unique<Kind>(fields);
}

}  // namespace rocmforge
