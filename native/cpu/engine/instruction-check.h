// What the checks of instructions are made of: every id that an instruction names, every width that it implies. An
// output may not lie in memory that other threads still read while it is written.

#pragma once

#include <cstddef>
#include <string>

#include "program-limits.h"

namespace rocmforge {

/// The check of one instruction of a program. Every method throws `invalid`, naming the instruction and the field.
class InstructionCheck {
 public:
  InstructionCheck(Program& program, size_t index)
      : program_(program), at_("instructions[" + text(index) + "] " + program.instructions[index]->kind()) {}

  Program& program() { return program_; }
  const Program& program() const { return program_; }
  /// A field's path in error messages.
  std::string path(const std::string& field) const { return at_ + "." + field; }

  /// A value that has memory.
  const Value& value(const char* field, Id id) const;
  const Weight& matrix(const char* field, Id id) const;
  /// A weight of one row of plain floats, which is then read as f32.
  void vector(const char* field, Id id, size_t width);
  /// The same for one that may have several rows, which follow one another.
  void vectors(const char* field, Id id, size_t rows, size_t width);

  /// A weight of `count` plain floats in any number of rows, which is then read as f32.
  void elements(const char* field, Id id, size_t count);

  void require_rows(const char* field, const Value& found, RowKind expected) const;
  /// The same rows and width.
  void require_like(const char* field, const Value& expected, const Value& found) const;
  void require_epsilon(float epsilon) const;
  void require_finite(const char* field, float number) const;
  /// 0, which is none, or a positive number.
  void require_soft_cap(const char* field, float soft_cap) const;
  /// Threads write the one value while others still read the other.
  void require_apart(const char* field, Id written, Id other) const;
  void require_heads(const char* field, const Value& found, size_t heads, size_t width) const;

  /// A layer of the KV cache, whose shape is checked with it.
  const KvLayerShape& layer(size_t layer);
  /// A recurrent state, which must have this many elements.
  void state(size_t id, size_t elements);
  /// Keys or values of all KV heads.
  void stored(const char* field, Id id, size_t kv_heads, size_t head_width) const;

 private:
  Program& program_;
  std::string at_;
};

}  // namespace rocmforge
