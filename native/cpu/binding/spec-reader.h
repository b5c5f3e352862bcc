// The border's program and step (index.d.ts) as the engine's plain structs. Only types are checked here; what the numbers
// mean to each other is the engine's to check.

#pragma once

#include "../engine/program.h"
#include "../engine/step.h"
#include "reader.h"

namespace rocmforge {

Program read_program(const Reader& spec);
KvOptions read_kv_options(const Reader& options);
StepInput read_step(const Reader& step, const Program& program);

}  // namespace rocmforge
