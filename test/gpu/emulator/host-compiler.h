// The compiler of the machine, used as a compiler for the emulated device: kernel source in, shared library out.
#pragma once
#include <string>
#include <vector>

namespace emulator {

struct HostCompilation {
  bool succeeded;
  std::vector<char> library;
  /** What the compiler said; also why there is none. */
  std::string log;
};

/** `definitions` are whole options (`-DWAVE=32`). With `frames`, calls can be followed back (settings.h: strict). */
HostCompilation compile_for_host(const std::string& name, const std::string& source,
                                 const std::vector<std::string>& definitions, bool frames);

}  // namespace emulator
