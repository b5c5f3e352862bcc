// Stages of shared memory that some waves of a block fill and others use, handed over one by one (NVIDIA from sm_90 on: PTX
// ISA, "mbarrier", "setmaxnreg"), so that neither side waits for more than it needs. Elsewhere both sides go in turns of the
// whole block: those who fill do so before stage_filled() and wait for stage_used(), those who use the other way round.
#pragma once
#include "device/portable.h"
#include "device/async-copy.h"

#if !defined(ROCMFORGE_EMULATOR)

/** Phases that end with a number of arrivals. */
typedef u64 Handover;
DEVICE u32 handover_address(const Handover* shared) {
  u32 address;
  asm("{ .reg .u64 wide; cvta.to.shared.u64 wide, %1; cvt.u32.u64 %0, wide; }" : "=r"(address) : "l"(shared));
  return address;
}
/** By one thread; then handovers_begun() and a barrier. */
DEVICE void begin_handover(Handover* shared, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(handover_address(shared)), "r"(arrivals) : "memory");
}
DEVICE void handovers_begun() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
DEVICE void hand_over(Handover* shared) {
  asm volatile("{ .reg .b64 state; mbarrier.arrive.shared::cta.b64 state, [%0]; }" ::"r"(handover_address(shared))
               : "memory");
}
/** An arrival when all copies that this thread has asked for are there. */
DEVICE void hand_over_copies(Handover* shared) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(handover_address(shared)) : "memory");
}
/** What other launches have written by ordinary stores, after the wait for them, is there for hand_over_bytes(). */
DEVICE void stores_before_copies() { asm volatile("fence.proxy.async.global;" ::: "memory"); }
/**
 * The only arrival of a phase, which ends when these bytes are in shared memory: by one thread. Both addresses and the number
 * are multiples of 16.
 */
DEVICE void hand_over_bytes(Handover* shared, void* target, const void* source, int bytes) {
  asm volatile(
      "{ .reg .b64 state; mbarrier.arrive.expect_tx.shared::cta.b64 state, [%0], %3; }"
      " cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%1], [%2], %3, [%0];" ::"r"(
          handover_address(shared)),
      "r"(shared_place(target)), "l"(source), "r"(bytes)
      : "memory");
}
/** Until the phase of this parity has ended; the one before the first has parity 1. */
DEVICE void await_handover(Handover* shared, int parity) {
  asm volatile(
      "{ .reg .pred done; again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;"
      " @done bra over; bra again; over: }" ::"r"(handover_address(shared)),
      "r"(parity)
      : "memory");
}
DEVICE void stage_filled() {}
DEVICE void stage_used() {}
/** Of those who use, the first `Count` threads of the block; those who fill call fillers_join() as often as it comes up. */
template <int Count>
DEVICE void users_barrier() {
  asm volatile("bar.sync 8, %0;" ::"n"(Count) : "memory");
}
DEVICE void fillers_join(int) {}
/** Of each four waves of a block for themselves; `four` is their number, at most 6. */
DEVICE void four_waves_barrier(int four) { asm volatile("bar.sync %0, 128;" ::"r"(four + 1) : "memory"); }
/** Registers of a thread of four waves, fewer than the block began with so that others may have more. */
template <int Count>
DEVICE void keep_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Count > 0 ? Count : 24));
}
template <int Count>
DEVICE void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Count > 0 ? Count : 24));
}

#else

typedef u64 Handover;
DEVICE void begin_handover(Handover*, int) {}
DEVICE void handovers_begun() {}
DEVICE void hand_over(Handover*) {}
DEVICE void hand_over_copies(Handover*) {}
DEVICE void stores_before_copies() {}
DEVICE void hand_over_bytes(Handover*, void* target, const void* source, int bytes) {
  for (int byte = 0; byte < bytes; byte += 16)
    *reinterpret_cast<Words4*>(static_cast<u8*>(target) + byte) = load_shared(static_cast<const u8*>(source) + byte);
}
DEVICE void await_handover(Handover*, int) {}
DEVICE void stage_filled() { barrier(); }
DEVICE void stage_used() { barrier(); }
template <int Count>
DEVICE void users_barrier() {
  barrier();
}
DEVICE void fillers_join(int barriers) {
  for (int i = 0; i < barriers; i++) barrier();
}
DEVICE void four_waves_barrier(int) {}
template <int Count>
DEVICE void keep_registers() {}
template <int Count>
DEVICE void take_registers() {}

#endif
