// See fault-guard.h. The handler runs on a stack of its own, because the fault may be a full one.
#include "fault-guard.h"
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <cstdlib>
#include <mutex>

namespace emulator {
namespace {

constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP};
constexpr size_t kHandlerStackBytes = 64 << 10;

struct Guard {
  sigjmp_buf back;
  Fault fault;
};

// Threads that are none of ours look at this in their faults, when nothing can be allocated for them any more.
__attribute__((tls_model("initial-exec"))) thread_local Guard* current_guard = nullptr;
struct sigaction previous_actions[64];

bool was_write(const void* context) {
#if defined(__x86_64__)
  // Bit 1 of a page fault's error code.
  return (static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_ERR] & 2) != 0;
#else
  (void)context;
  return false;
#endif
}

void handle(int signal, siginfo_t* info, void* context) {
  if (Guard* guard = current_guard) {
    current_guard = nullptr;
    guard->fault = {signal, info->si_addr, signal == SIGSEGV && was_write(context)};
    siglongjmp(guard->back, 1);
  }
  const struct sigaction& previous = previous_actions[signal];
  if (previous.sa_flags & SA_SIGINFO) {
    previous.sa_sigaction(signal, info, context);
  } else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
    previous.sa_handler(signal);
  } else {
    // The same instruction faults again, now with the system's own answer.
    sigaction(signal, &previous, nullptr);
  }
}

void install_handlers() {
  struct sigaction action{};
  action.sa_sigaction = handle;
  // Not deferred: the jump out of the handler would otherwise have to restore the mask.
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  sigemptyset(&action.sa_mask);
  for (const int signal : kSignals) sigaction(signal, &action, &previous_actions[signal]);
}

/** The thread's own, unless something else has given it one. */
class HandlerStack {
 public:
  HandlerStack() {
    stack_t existing{};
    if (sigaltstack(nullptr, &existing) == 0 && (existing.ss_flags & SS_DISABLE) == 0) return;
    memory_ = mmap(nullptr, kHandlerStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory_ == MAP_FAILED) abort();
    stack_t stack{};
    stack.ss_sp = memory_;
    stack.ss_size = kHandlerStackBytes;
    sigaltstack(&stack, nullptr);
  }
  ~HandlerStack() {
    if (memory_ == nullptr) return;
    stack_t none{};
    none.ss_flags = SS_DISABLE;
    sigaltstack(&none, nullptr);
    munmap(memory_, kHandlerStackBytes);
  }
  void touch() {}

 private:
  void* memory_ = nullptr;
};

}  // namespace

bool run_guarded(void (*body)(void*), void* context, Fault* fault) {
  static std::once_flag installed;
  std::call_once(installed, install_handlers);
  static thread_local HandlerStack handler_stack;
  handler_stack.touch();

  Guard guard;
  if (sigsetjmp(guard.back, 0) != 0) {
    *fault = guard.fault;
    return false;
  }
  current_guard = &guard;
  body(context);
  current_guard = nullptr;
  return true;
}

}  // namespace emulator
