// Changing stacks in about a nanosecond: what the C calling convention says a call keeps is pushed, nothing else.
#pragma once
#include <cstdint>
#include <cstring>

#if !defined(__x86_64__) && !defined(__aarch64__)
#error "the test double knows the stacks of x86-64 and arm64"
#endif

extern "C" {
/** Leaves this stack, writing where it stands to `save_stack`, and goes on where `next_stack` stood. */
__attribute__((visibility("hidden"))) void emulator_switch(void** save_stack, void* next_stack);
/** Where a new fiber begins: calls the function in one kept register with the value in another. */
__attribute__((visibility("hidden"))) void emulator_begin();
}

namespace emulator {

/** A stack, below `top`, that runs `begin(context)` when it is first switched to. The chain of frames ends there. */
inline void* new_fiber(uintptr_t top, void (*begin)(void*), void* context) {
  top &= ~uintptr_t(63);
#if defined(__x86_64__)
  // r15, r14, r13, r12, rbx, rbp, return address, and two words that leave the stack aligned for emulator_begin's call.
  void** frame = reinterpret_cast<void**>(top) - 9;
  memset(frame, 0, 72);
  frame[2] = reinterpret_cast<void*>(begin);
  frame[3] = context;
  frame[6] = reinterpret_cast<void*>(&emulator_begin);
#else
  void** frame = reinterpret_cast<void**>(top - 160);
  // x19, x20 … x29, x30, d8 to d15.
  memset(frame, 0, 160);
  frame[0] = context;
  frame[1] = reinterpret_cast<void*>(begin);
  frame[11] = reinterpret_cast<void*>(&emulator_begin);
#endif
  return frame;
}

}  // namespace emulator
