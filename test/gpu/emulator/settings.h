// What the environment asks of the test double. Read once, at the first call, and again by emulatorReset():
//   ROCMFORGE_EMULATOR_WAVE=32|64       wave size, and with it the architecture: gfx1100 or gfx90a
//   ROCMFORGE_EMULATOR_ARCHITECTURE=name  what the devices say they are, which their compiler need not know
//   ROCMFORGE_EMULATOR_DEVICES=n        how many devices; where there are several, the first is an integrated one
//   ROCMFORGE_EMULATOR_MEMORY=bytes     memory of each device (K, M and G may follow); an integrated one has a quarter
//   ROCMFORGE_EMULATOR_REPORTED=bytes   what the driver says is free, of each device, whatever there is
//   ROCMFORGE_EMULATOR_SHARED=bytes     shared memory of a block; 64K if it is not said
//   ROCMFORGE_EMULATOR_THREADS=n        host threads that share the blocks of a launch
//   ROCMFORGE_EMULATOR_ORDER=reverse    the last wave, lane and block first
//   ROCMFORGE_EMULATOR_STRICT=1         lanes of a wave must meet at the same place of the code (slow)
//   ROCMFORGE_EMULATOR_FAIL=call:n:code,…   the n-th call (n+: every one from the n-th on) does nothing and gives the code;
//                                       lost:n: the device is lost at the n-th launch that runs
//   ROCMFORGE_EMULATOR_REPLAY=stale:n|skip:n   replays of graphs go wrong: from its n-th launch on a replay sees what memory held
//                                       before the last copy to the device (stale), or its n-th launch does nothing (skip)
//   ROCMFORGE_EMULATOR_WRONG=file[+DEFINE[=value]|+!DEFINE…]:fault[!],…   the compiler makes wrong code of the modules that fit:
//                                       the first block of a grid does nothing (block), sums over a wave miss its last lane
//                                       (lane), products of four bytes miss one (dot). Not of modules compiled with few
//                                       optimizations (CAREFUL), unless a ! follows the fault
//   ROCMFORGE_EMULATOR_LOG=1            messages go to stderr as well
#pragma once
#include <cstddef>
#include <string>
#include <vector>

namespace emulator {

struct InjectedFailure {
  std::string call;
  unsigned long number;
  bool onwards;
  int status;
};

/** What is wrong with replays of graphs; the number counts launches of a graph, from one. */
enum class ReplayFault { none, stale, skip };

/** Modules that the compiler breaks, and how. */
struct InjectedWrongCode {
  /** Without its ending. */
  std::string file;
  /** `NAME`, `NAME=value` or `!NAME`: all of them hold. */
  std::vector<std::string> conditions;
  std::string fault;
  bool careful_too;
};

struct Settings {
  int wave_size;
  /** Empty: the one that goes with the wave size. */
  std::string architecture;
  int devices;
  size_t memory_bytes;
  /** Zero: what there is. */
  size_t reported_free_bytes;
  unsigned shared_bytes;
  int threads;
  bool reverse;
  bool strict;
  bool log;
  std::vector<InjectedFailure> failures;
  /** The launch at which the device is lost, counted from one; 0 for never. */
  unsigned long lost_at_launch;
  ReplayFault replay_fault;
  unsigned long replay_fault_launch;
  std::vector<InjectedWrongCode> wrong_code;
};

Settings read_settings();

}  // namespace emulator
