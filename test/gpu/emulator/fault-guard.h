// Turns a fault (a wild address, a trap) of code that runs on a device's behalf into a value. Other faults of the process
// go where they went before, to Node's own handler.
#pragma once

namespace emulator {

struct Fault {
  int signal;
  const void* address;
  bool write;
};

/** Whether the body came to its end. It must own nothing: a fault leaves it by a jump, from whichever stack it was on. */
bool run_guarded(void (*body)(void*), void* context, Fault* fault);

template <typename Body>
bool guarded(Body body, Fault* fault) {
  return run_guarded([](void* context) { (*static_cast<Body*>(context))(); }, &body, fault);
}

}  // namespace emulator
