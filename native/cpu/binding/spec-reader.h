// Reads the program and the step of index.d.ts into the engine's plain structs. Only types are checked here; the engine
// checks that the numbers agree with each other.

#pragma once

#include "../engine/program.h"
#include "../engine/step.h"
#include "reader.h"

namespace rocmforge {

Program read_program(const Reader& spec);
KvOptions read_kv_options(const Reader& options);
StepInput read_step(const Reader& step, const Program& program);

}  // namespace rocmforge
