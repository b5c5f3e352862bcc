// Reads the environment for settings.h. A value that makes no sense ends the process: a test that misspells one must not
// pass on the default.
#include "settings.h"
#include <cstdio>
#include <cstdlib>

namespace emulator {
namespace {

/** What block-runner.cpp has room for. */
constexpr unsigned kMostSharedBytes = 256 << 10;

[[noreturn]] void refuse(const char* variable, const std::string& value) {
  fprintf(stderr, "HIP emulator: %s=%s makes no sense\n", variable, value.c_str());
  abort();
}

std::string text(const char* variable) {
  const char* value = getenv(variable);
  return value == nullptr ? "" : value;
}

unsigned long number(const char* variable, const std::string& value) {
  char* end = nullptr;
  const unsigned long parsed = strtoul(value.c_str(), &end, 10);
  if (value.empty() || *end != '\0' || value[0] == '-') refuse(variable, value);
  return parsed;
}

unsigned long number_or(const char* variable, unsigned long otherwise, unsigned long least, unsigned long most) {
  const std::string value = text(variable);
  if (value.empty()) return otherwise;
  const unsigned long parsed = number(variable, value);
  if (parsed < least || parsed > most) refuse(variable, value);
  return parsed;
}

size_t bytes_or(const char* variable, size_t otherwise) {
  std::string value = text(variable);
  if (value.empty()) return otherwise;
  int shift = 0;
  if (value.back() == 'K') shift = 10;
  if (value.back() == 'M') shift = 20;
  if (value.back() == 'G') shift = 30;
  if (shift > 0) value.pop_back();
  return size_t(number(variable, value)) << shift;
}

std::vector<std::string> split(const std::string& value, char separator) {
  std::vector<std::string> parts;
  size_t from = 0;
  for (size_t at; (at = value.find(separator, from)) != std::string::npos; from = at + 1)
    parts.push_back(value.substr(from, at - from));
  parts.push_back(value.substr(from));
  return parts;
}

void read_failures(Settings& settings) {
  const char* variable = "ROCMFORGE_EMULATOR_FAIL";
  const std::string value = text(variable);
  if (value.empty()) return;
  for (const std::string& entry : split(value, ',')) {
    std::vector<std::string> parts = split(entry, ':');
    if (parts.size() == 2 && parts[0] == "lost") {
      settings.lost_at_launch = number(variable, parts[1]);
      continue;
    }
    if (parts.size() != 3 || parts[1].empty()) refuse(variable, value);
    const bool onwards = parts[1].back() == '+';
    if (onwards) parts[1].pop_back();
    settings.failures.push_back({parts[0], number(variable, parts[1]), onwards, int(number(variable, parts[2]))});
  }
}

void read_replay_fault(Settings& settings) {
  const char* variable = "ROCMFORGE_EMULATOR_REPLAY";
  const std::string value = text(variable);
  if (value.empty()) return;
  const std::vector<std::string> parts = split(value, ':');
  if (parts.size() != 2 || (parts[0] != "stale" && parts[0] != "skip")) refuse(variable, value);
  settings.replay_fault = parts[0] == "stale" ? ReplayFault::stale : ReplayFault::skip;
  settings.replay_fault_launch = number(variable, parts[1]);
  if (settings.replay_fault_launch == 0) refuse(variable, value);
}

void read_wrong_code(Settings& settings) {
  const char* variable = "ROCMFORGE_EMULATOR_WRONG";
  const std::string value = text(variable);
  if (value.empty()) return;
  for (const std::string& entry : split(value, ',')) {
    std::vector<std::string> parts = split(entry, ':');
    if (parts.size() != 2 || parts[1].empty()) refuse(variable, value);
    const bool careful_too = parts[1].back() == '!';
    if (careful_too) parts[1].pop_back();
    if (parts[1] != "block" && parts[1] != "lane" && parts[1] != "dot") refuse(variable, value);
    std::vector<std::string> conditions = split(parts[0], '+');
    const std::string file = conditions[0];
    conditions.erase(conditions.begin());
    settings.wrong_code.push_back({file, conditions, parts[1], careful_too});
  }
}

}  // namespace

Settings read_settings() {
  Settings settings{};
  settings.wave_size = int(number_or("ROCMFORGE_EMULATOR_WAVE", 32, 32, 64));
  if (settings.wave_size != 32 && settings.wave_size != 64)
    refuse("ROCMFORGE_EMULATOR_WAVE", text("ROCMFORGE_EMULATOR_WAVE"));
  settings.architecture = text("ROCMFORGE_EMULATOR_ARCHITECTURE");
  settings.devices = int(number_or("ROCMFORGE_EMULATOR_DEVICES", 1, 0, 16));
  settings.memory_bytes = bytes_or("ROCMFORGE_EMULATOR_MEMORY", size_t(2) << 30);
  settings.reported_free_bytes = bytes_or("ROCMFORGE_EMULATOR_REPORTED", 0);
  settings.shared_bytes = unsigned(bytes_or("ROCMFORGE_EMULATOR_SHARED", 64 << 10));
  if (settings.shared_bytes > kMostSharedBytes) refuse("ROCMFORGE_EMULATOR_SHARED", text("ROCMFORGE_EMULATOR_SHARED"));
  settings.threads = int(number_or("ROCMFORGE_EMULATOR_THREADS", 2, 1, 64));
  const std::string order = text("ROCMFORGE_EMULATOR_ORDER");
  if (!order.empty() && order != "forward" && order != "reverse") refuse("ROCMFORGE_EMULATOR_ORDER", order);
  settings.reverse = order == "reverse";
  settings.strict = number_or("ROCMFORGE_EMULATOR_STRICT", 0, 0, 1) == 1;
  settings.log = !text("ROCMFORGE_EMULATOR_LOG").empty();
  read_failures(settings);
  read_replay_fault(settings);
  read_wrong_code(settings);
  return settings;
}

}  // namespace emulator
