// Keeps this library in memory for as long as the process lives: Node closes an addon when the last worker that had
// loaded it ends, and our threads and signal handler would be left without instructions.

#pragma once

namespace rocmforge {

void keep_library_loaded();

}  // namespace rocmforge
