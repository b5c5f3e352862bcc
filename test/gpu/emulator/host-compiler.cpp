// See host-compiler.h. Everything lies in a folder of its own while it lasts; nothing passes through a shell. What was
// compiled once is kept beside the emulator (EMULATOR_LIBRARIES), named by all that it was made of, because tests open many
// copies of the emulator with settings of their own, and each of them would compile the same kernels again.
#include "host-compiler.h"
#include <fcntl.h>
#include <ftw.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

extern char** environ;

namespace emulator {
namespace {

int remove_entry(const char* path, const struct stat*, int, struct FTW*) { return remove(path); }

class TemporaryFolder {
 public:
  TemporaryFolder() {
    const char* parent = getenv("TMPDIR");
    std::string pattern = std::string(parent == nullptr || *parent == '\0' ? "/tmp" : parent) + "/hip-emulator-XXXXXX";
    if (mkdtemp(&pattern[0]) != nullptr) path_ = pattern;
  }
  ~TemporaryFolder() {
    if (!path_.empty()) nftw(path_.c_str(), remove_entry, 8, FTW_DEPTH | FTW_PHYS);
  }
  bool exists() const { return !path_.empty(); }
  std::string file(const char* name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

bool write_file(const std::string& path, const std::string& text) {
  FILE* file = fopen(path.c_str(), "wb");
  if (file == nullptr) return false;
  const bool written = fwrite(text.data(), 1, text.size(), file) == text.size();
  return fclose(file) == 0 && written;
}

std::vector<char> read_file(const std::string& path) {
  std::vector<char> bytes;
  FILE* file = fopen(path.c_str(), "rb");
  if (file == nullptr) return bytes;
  char part[65536];
  for (size_t count; (count = fread(part, 1, sizeof part, file)) > 0;) bytes.insert(bytes.end(), part, part + count);
  fclose(file);
  return bytes;
}

uint64_t hash_of(const std::vector<std::string>& parts, uint64_t hash) {
  for (const std::string& part : parts) {
    // With its end, so that no two lists read alike.
    for (size_t index = 0; index <= part.size(); index++)
      hash = (hash ^ static_cast<unsigned char>(part.c_str()[index])) * 0x100000001b3u;
  }
  return hash;
}

/** Where the library made of these is kept; two hashes, because one of 64 bits might be met twice. */
std::string kept_path(const std::vector<std::string>& parts) {
  char name[64];
  snprintf(name, sizeof name, "/%016llx%016llx.so",
           static_cast<unsigned long long>(hash_of(parts, 0xcbf29ce484222325u)),
           static_cast<unsigned long long>(hash_of(parts, 0x6c62272e07bb0142u)));
  return EMULATOR_LIBRARIES + std::string(name);
}

/** Complete or absent; a folder that cannot be written to costs time, never a failure. */
void keep(const std::string& path, const std::vector<char>& library) {
  mkdir(EMULATOR_LIBRARIES, 0700);
  const std::string partial = path + "." + std::to_string(getpid());
  if (!write_file(partial, std::string(library.begin(), library.end())) || rename(partial.c_str(), path.c_str()) != 0)
    remove(partial.c_str());
}

/** The exit status, or -1 where the program could not be started. */
int run(const std::vector<std::string>& command, const std::string& log_path) {
  std::vector<char*> arguments;
  for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t child = 0;
  const int failure = posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failure != 0) return -1;
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return -1;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

std::vector<std::string> with(std::vector<std::string> list, const std::vector<std::string>& more) {
  list.insert(list.end(), more.begin(), more.end());
  return list;
}

std::vector<std::string> compilers() {
  const char* chosen = getenv("CXX");
  if (chosen != nullptr && *chosen != '\0') return {chosen};
  return {"g++", "clang++", "c++"};
}

std::vector<std::string> options(bool frames) {
  std::vector<std::string> options = {
      "-std=c++17", "-x", "c++", "-shared", "-fPIC", "-DROCMFORGE_EMULATOR", "-I" EMULATOR_FOLDER,
      // Sums are what the source says, as on the devices; errors and addresses are not looked at.
      "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-fno-exceptions", "-fno-rtti",
      // Every copy of the library has variables of its own, and .bss nothing but shared memory.
      "-fno-gnu-unique", "-fno-common", "-fno-threadsafe-statics", "-Wl,-Bsymbolic",
      // The mathematical library is all that a kernel calls, and a linker that looks through the others for it takes long.
      "-nostdlib", "-fno-asynchronous-unwind-tables", "-Wno-unknown-pragmas", "-Wno-unused",
      "-fdiagnostics-color=never"};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    for (const char* option : {"-mavx2", "-mfma", "-mf16c"}) options.emplace_back(option);
  }
#endif
  if (frames) {
    for (const char* option : {"-O0", "-fno-omit-frame-pointer", "-DROCMFORGE_EMULATOR_FRAMES"})
      options.emplace_back(option);
  } else {
    // -O1 takes half as long again to compile, and most kernels of tests are compiled for a few launches of a few blocks.
    options.emplace_back("-Og");
  }
  return options;
}

/** For GCC alone: a quick way to choose registers, and a heap that it need not tidy up. */
std::vector<std::string> own_options(const std::string& compiler) {
  if (compiler.find("g++") == std::string::npos || compiler.find("clang") != std::string::npos) return {};
  return {"-fira-algorithm=priority", "--param=ggc-min-expand=1000", "--param=ggc-min-heapsize=1000000"};
}

}  // namespace

HostCompilation compile_for_host(const std::string& name, const std::string& source,
                                 const std::vector<std::string>& definitions, bool frames) {
  // The log then names the program as the caller knows it.
  const std::string text = "#line 1 \"" + name + "\"\n" + source;
  std::vector<std::string> parts = options(frames);
  parts.insert(parts.end(), definitions.begin(), definitions.end());
  const char* chosen = getenv("CXX");
  const std::string kept = kept_path(with(parts, {chosen == nullptr ? "" : chosen, text}));
  std::vector<char> library = read_file(kept);
  if (!library.empty()) return {true, library, ""};

  const TemporaryFolder folder;
  const std::string source_path = folder.file("kernel.hip"), library_path = folder.file("kernel.so"),
                    log_path = folder.file("log");
  if (!folder.exists() || !write_file(source_path, text)) return {false, {}, "no temporary folder could be written"};
  for (const std::string& compiler : compilers()) {
    std::vector<std::string> command = with(with({compiler}, own_options(compiler)), parts);
    for (const std::string& argument : {source_path, std::string("-o"), library_path, std::string("-lm")})
      command.push_back(argument);
#if defined(__aarch64__)
    command.push_back("-lgcc");  // atomic operations
#endif
    const int status = run(command, log_path);
    // 127: a shell's word for a program that is not there, which some systems use too.
    if (status == -1 || status == 127) continue;
    const std::vector<char> log = read_file(log_path);
    HostCompilation result{status == 0, read_file(library_path), std::string(log.begin(), log.end())};
    result.succeeded = status == 0 && !result.library.empty();
    // Not with warnings, which belong to the result.
    if (result.succeeded && log.empty()) keep(kept, result.library);
    return result;
  }
  return {false, {}, "no C++ compiler was found (CXX, g++, clang++)"};
}

}  // namespace emulator
