// hiprtc's functions over the compiler of the machine. Like the real one it ends the process when it is asked for an
// architecture that it does not know.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include "host-compiler.h"
#include "runtime.h"

using namespace emulator;

namespace {

constexpr int kMajor = 6, kMinor = 4;
/** Programs compiled to be followed back are not those compiled to be fast: who keeps results tells them apart by this. */
constexpr int kStrictMinor = 104;

constexpr const char* kArchitectures[] = {"gfx900",  "gfx906",  "gfx908",  "gfx90a",  "gfx90c",  "gfx942",  "gfx950",
                                          "gfx1030", "gfx1036", "gfx1100", "gfx1101", "gfx1151", "gfx1200", "gfx1201"};

struct Program {
  std::string name, source, log;
  std::vector<char> image;
};

Handles<Program>& programs() {
  static Handles<Program>& all = *new Handles<Program>(0x57);
  return all;
}

bool starts_with(const std::string& text, const char* start) { return text.rfind(start, 0) == 0; }

bool is_known_architecture(const std::string& architecture) {
  for (const char* known : kArchitectures) {
    if (architecture == known) return true;
  }
  return false;
}

/** Options that change nothing here. */
bool is_harmless(const std::string& option) {
  for (const char* start :
       {"-O", "-std=", "--std=", "-ffp-contract=", "-mcumode", "-mno-cumode", "-I", "-w", "-W", "-g"}) {
    if (starts_with(option, start)) return true;
  }
  return false;
}

bool has_define(const std::vector<std::string>& definitions, const std::string& wanted) {
  for (const std::string& definition : definitions) {
    const std::string text = definition.substr(2);
    if (text == wanted || text.substr(0, text.find('=')) == wanted) return true;
  }
  return false;
}

bool holds(const std::vector<std::string>& definitions, const std::string& condition) {
  return condition[0] == '!' ? !has_define(definitions, condition.substr(1)) : has_define(definitions, condition);
}

/** The definitions that break this module (emulated-device.h), as ROCMFORGE_EMULATOR_WRONG asks. */
std::vector<std::string> injected_faults(const std::string& name, const std::vector<std::string>& definitions) {
  std::vector<std::string> faults;
  for (const InjectedWrongCode& wrong : runtime().settings.wrong_code) {
    bool fits = name == wrong.file + ".hip" && (wrong.careful_too || !has_define(definitions, "CAREFUL"));
    for (const std::string& condition : wrong.conditions) fits = fits && holds(definitions, condition);
    if (fits) faults.push_back("-DEMULATED_WRONG_" + wrong.fault);
  }
  return faults;
}

template <typename Body>
int program_call(const char* name, void* handle, Body body) {
  const Status injected = runtime().enter(name, false);
  if (injected != kSuccess) return injected;
  const std::shared_ptr<Program> program = programs().find(handle);
  return program == nullptr ? kCompilerInvalidProgram : body(*program);
}

int compile(Program& program, int count, const char** options) {
  std::string architecture;
  std::vector<std::string> definitions;
  for (int index = 0; index < count; index++) {
    const std::string option = options[index] == nullptr ? "" : options[index];
    const size_t value = option.find('=') + 1;
    if (starts_with(option, "--gpu-architecture=") || starts_with(option, "--offload-arch=")) {
      architecture = option.substr(value, option.find(':', value) - value);
    } else if (starts_with(option, "-D") && option.size() > 2) {
      definitions.push_back(option);
    } else if (!is_harmless(option)) {
      program.log = "error: unknown argument: '" + option + "'\n";
      return kCompilerCompilation;
    }
  }
  Runtime& known = runtime();
  if (architecture.empty() && !known.devices.empty()) architecture = known.current_device().architecture;
  if (!is_known_architecture(architecture)) {
    fprintf(stderr, "HIP emulator: the target %s is not known to the compiler\n", architecture.c_str());
    abort();
  }
  for (const std::string& fault : injected_faults(program.name, definitions)) definitions.push_back(fault);
  HostCompilation result = compile_for_host(program.name, program.source, definitions, known.settings.strict);
  program.log = result.log;
  if (!result.succeeded) return kCompilerCompilation;
  program.image = make_image(architecture, result.library);
  return kCompilerSuccess;
}

}  // namespace

EMULATOR_EXPORT const char* hiprtcGetErrorString(int status) { return compiler_text_of(status); }

EMULATOR_EXPORT int hiprtcVersion(int* major, int* minor) {
  if (major == nullptr || minor == nullptr) return kCompilerInvalidInput;
  *major = kMajor;
  *minor = runtime().settings.strict ? kStrictMinor : kMinor;
  return kCompilerSuccess;
}

EMULATOR_EXPORT int hiprtcCreateProgram(void** handle, const char* source, const char* name, int headers, const char**,
                                        const char**) {
  const Status injected = runtime().enter("hiprtcCreateProgram", false);
  if (injected != kSuccess) return injected;
  if (handle == nullptr || source == nullptr || headers != 0) return kCompilerInvalidInput;
  auto program = std::make_shared<Program>();
  program->name = name == nullptr || strpbrk(name, "\"\\\n") != nullptr ? "program" : name;
  program->source = source;
  *handle = programs().add(program);
  return kCompilerSuccess;
}

EMULATOR_EXPORT int hiprtcCompileProgram(void* handle, int count, const char** options) {
  return program_call("hiprtcCompileProgram", handle, [&](Program& program) {
    return count < 0 || (count > 0 && options == nullptr) ? int(kCompilerInvalidInput)
                                                          : compile(program, count, options);
  });
}

EMULATOR_EXPORT int hiprtcGetProgramLogSize(void* handle, size_t* size_bytes) {
  return program_call("hiprtcGetProgramLogSize", handle, [&](Program& program) {
    if (size_bytes == nullptr) return kCompilerInvalidInput;
    *size_bytes = program.log.size() + 1;
    return kCompilerSuccess;
  });
}

EMULATOR_EXPORT int hiprtcGetProgramLog(void* handle, char* log) {
  return program_call("hiprtcGetProgramLog", handle, [&](Program& program) {
    if (log == nullptr) return kCompilerInvalidInput;
    memcpy(log, program.log.c_str(), program.log.size() + 1);
    return kCompilerSuccess;
  });
}

EMULATOR_EXPORT int hiprtcGetCodeSize(void* handle, size_t* size_bytes) {
  return program_call("hiprtcGetCodeSize", handle, [&](Program& program) {
    if (size_bytes == nullptr) return kCompilerInvalidInput;
    *size_bytes = program.image.size();
    return program.image.empty() ? kCompilerInvalidProgram : kCompilerSuccess;
  });
}

EMULATOR_EXPORT int hiprtcGetCode(void* handle, char* code) {
  return program_call("hiprtcGetCode", handle, [&](Program& program) {
    if (code == nullptr) return kCompilerInvalidInput;
    if (program.image.empty()) return kCompilerInvalidProgram;
    memcpy(code, program.image.data(), program.image.size());
    return kCompilerSuccess;
  });
}

EMULATOR_EXPORT int hiprtcDestroyProgram(void** handle) {
  const Status injected = runtime().enter("hiprtcDestroyProgram", false);
  if (injected != kSuccess) return injected;
  if (handle == nullptr || programs().take(*handle) == nullptr) return kCompilerInvalidProgram;
  *handle = nullptr;
  return kCompilerSuccess;
}
