// What every instruction is to the engine. Each has one file under instructions/ with its struct, how it is read, how
// it is checked and how it runs, and registers itself there as an InstructionKind.

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

  /// The name of its kind, which profiles and error messages use.
  const char* kind() const { return kind_; }
  /// Throws `invalid` unless no step of the program can make this instruction leave its buffers; fills derived fields.
  virtual void check(InstructionCheck& check) = 0;
  /// Null for an instruction that takes no scratch memory. Throws `memory` for sizes beyond any machine.
  virtual std::unique_ptr<InstructionPlan> plan(const Program&, const StepSize&) const { return nullptr; }
  /// Every thread of the step calls this; they share the work of each phase. `plan` is what `plan` returned for the
  /// step.
  virtual void run(const StepRun& run, Member& member, const InstructionPlan* plan) const = 0;

 private:
  friend std::unique_ptr<Instruction> read_instruction(const Fields& fields);
  const char* kind_ = "";
};

/// Reads an instruction by its field `kind`; throws `invalid` for an unknown kind and for fields of the wrong type.
std::unique_ptr<Instruction> read_instruction(const Fields& fields);

/// A kind of instruction: a constant of its file, known to read_instruction because it exists. Those files are linked as
/// objects: from an archive, a linker takes only files that another one names.
class InstructionKind {
 public:
  using Read = std::unique_ptr<Instruction> (*)(const Fields& fields);

  /// `name` is what the field `kind` has: an operation's kind, or that of a fused group in index.d.ts.
  InstructionKind(const char* name, Read read);
  InstructionKind(const InstructionKind&) = delete;
  InstructionKind& operator=(const InstructionKind&) = delete;

 private:
  friend std::unique_ptr<Instruction> read_instruction(const Fields& fields);
  const char* name_;
  Read read_;
  /// The kind that was registered before this one.
  const InstructionKind* next_;
};

/// Reads an instruction whose constructor takes the fields.
template <typename Kind>
std::unique_ptr<Instruction> read_as(const Fields& fields) {
  return std::make_unique<Kind>(fields);
}

}  // namespace rocmforge
