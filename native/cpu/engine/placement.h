// Where computing threads may run: on some processors of the machine, or wherever the process may. The choice is one for
// the process; a thread takes it before its next piece of work. Systems other than Linux ignore it.

#pragma once

#include <cstddef>
#include <vector>

namespace rocmforge {

/// Confines computing threads to these processors; none: to no other than the process's own.
void confine_threads(const std::vector<size_t>& processors);

/// To be called by a computing thread before it works.
void take_place();

}  // namespace rocmforge
