// The handler may run at any instant on any thread, so it reads nothing but atomics in a fixed table and a thread-local
// of the initial-exec model (which is never allocated on first use), and calls nothing but the system.

#include "bus-fault.h"

#if defined(_WIN32)

#include <mutex>

#include "loaded-library.h"

// A mapped file cannot be made shorter on Windows, so nothing is watched; a disk that fails ends the process there.

namespace rocmforge {

BusFaultGuard::BusFaultGuard() = default;
BusFaultGuard::~BusFaultGuard() = default;

WatchedRange::WatchedRange(const uint8_t*, size_t) : entry_(0) {
  static std::once_flag kept;
  std::call_once(kept, keep_library_loaded);
}

WatchedRange::~WatchedRange() { (void)entry_; }

bool WatchedRange::truncated() const { return false; }

}  // namespace rocmforge

#else

#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <mutex>

#include "error.h"
#include "loaded-library.h"

#if defined(MAP_ANONYMOUS)
#define ROCMFORGE_ANONYMOUS MAP_ANONYMOUS
#else
#define ROCMFORGE_ANONYMOUS MAP_ANON
#endif

namespace rocmforge {

namespace {

/// Files mapped at once, over all models of the process; the table is searched in a signal handler, hence fixed.
constexpr size_t kMaxRanges = 4096;

struct Entry {
  /// 0 while the entry is free; written last when it is taken, first when it is given up.
  std::atomic<uintptr_t> end{0};
  std::atomic<uintptr_t> begin{0};
  std::atomic<bool> truncated{false};
};

Entry entries[kMaxRanges];
std::atomic<size_t> entries_used{0};
std::mutex entries_mutex;
struct sigaction previous_action;
uintptr_t page_bytes = 4096;

// musl refuses this model in libraries that are loaded late; there the guard has touched the variable before a fault
// can.
#if defined(__GLIBC__)
__attribute__((tls_model("initial-exec")))
#endif
thread_local volatile int computing = 0;

/// Several regions may be the same file: each must know, because the page will not fault again.
bool mend(uintptr_t address) {
  bool ours = false;
  const size_t used = entries_used.load(std::memory_order_acquire);
  for (size_t index = 0; index < used; index++) {
    Entry& entry = entries[index];
    const uintptr_t end = entry.end.load(std::memory_order_acquire);
    if (end == 0 || address >= end || address < entry.begin.load(std::memory_order_relaxed)) continue;
    entry.truncated.store(true, std::memory_order_release);
    ours = true;
  }
  void* const page = reinterpret_cast<void*>(address & ~(page_bytes - 1));
  return ours && mmap(page, page_bytes, PROT_READ, MAP_PRIVATE | MAP_FIXED | ROCMFORGE_ANONYMOUS, -1, 0) != MAP_FAILED;
}

void on_bus_fault(int signal, siginfo_t* info, void* context) {
  // Only an access past the end of a file; broken memory and signals from other processes are not handled here.
  const bool past_end = info != nullptr && info->si_code == BUS_ADRERR;
  if (computing != 0 && past_end && mend(reinterpret_cast<uintptr_t>(info->si_addr))) return;
  if ((previous_action.sa_flags & SA_SIGINFO) != 0 && previous_action.sa_sigaction != nullptr) {
    previous_action.sa_sigaction(signal, info, context);
  } else if (previous_action.sa_handler != SIG_DFL && previous_action.sa_handler != SIG_IGN) {
    previous_action.sa_handler(signal);
  } else {
    // A fault comes again on return, and this time ends the process as it would have without us; a signal that was sent
    // does not, so it is sent again.
    struct sigaction fall_back = {};
    fall_back.sa_handler = SIG_DFL;
    sigemptyset(&fall_back.sa_mask);
    sigaction(signal, &fall_back, nullptr);
    if (info != nullptr && info->si_code <= 0) raise(signal);
  }
}

void install_handler() {
  static std::once_flag installed;
  std::call_once(installed, [] {
    keep_library_loaded();
    page_bytes = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    struct sigaction action = {};
    action.sa_sigaction = on_bus_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, &previous_action);
  });
}

}  // namespace

BusFaultGuard::BusFaultGuard() { computing = computing + 1; }
BusFaultGuard::~BusFaultGuard() { computing = computing - 1; }

WatchedRange::WatchedRange(const uint8_t* data, size_t size_bytes) {
  install_handler();
  std::lock_guard<std::mutex> lock(entries_mutex);
  const size_t used = entries_used.load(std::memory_order_relaxed);
  size_t index = 0;
  while (index < used && entries[index].end.load(std::memory_order_relaxed) != 0) index++;
  if (index == kMaxRanges) {
    throw EngineError{ErrorCode::memory, "region: more than " + std::to_string(kMaxRanges) + " files are mapped", 0};
  }
  Entry& entry = entries[index];
  entry.truncated.store(false, std::memory_order_relaxed);
  entry.begin.store(reinterpret_cast<uintptr_t>(data), std::memory_order_relaxed);
  entry.end.store(reinterpret_cast<uintptr_t>(data) + size_bytes, std::memory_order_release);
  if (index == used) entries_used.store(used + 1, std::memory_order_release);
  entry_ = index;
}

WatchedRange::~WatchedRange() {
  std::lock_guard<std::mutex> lock(entries_mutex);
  entries[entry_].end.store(0, std::memory_order_release);
}

bool WatchedRange::truncated() const { return entries[entry_].truncated.load(std::memory_order_acquire); }

}  // namespace rocmforge

#endif
