// While one of these lives, threads that are started take no signals meant for the process: those belong to the thread
// of the event loop. Faults of our own code stay with us. Windows has no such signals.

#pragma once

#if !defined(_WIN32)
#include <pthread.h>

#include <csignal>
#endif

namespace rocmforge {

#if defined(_WIN32)

class BlockedSignals {
 public:
  BlockedSignals() {}
};

#else

class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t blocked;
    sigfillset(&blocked);
    for (const int fault : {SIGBUS, SIGSEGV, SIGFPE, SIGILL, SIGTRAP, SIGABRT}) sigdelset(&blocked, fault);
    pthread_sigmask(SIG_SETMASK, &blocked, &before_);
  }
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_;
};

#endif

}  // namespace rocmforge
