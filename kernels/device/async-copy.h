// 16 bytes from memory to shared memory in the background, where the machine can (NVIDIA from sm_80 on); elsewhere the
// copy is made at once. Both addresses are aligned to 16 bytes. Copies are waited for by the thread that asked for
// them, all at once or in the order of the groups that it made; for the others a barrier must follow.
#pragma once
#include "device/portable.h"

#if !defined(ROCMFORGE_EMULATOR) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
DEVICE void copy_in_background(void* shared, const void* global) {
  asm volatile(
      "{ .reg .u64 wide; .reg .u32 address; cvta.to.shared.u64 wide, %0; cvt.u32.u64 address, wide;"
      " cp.async.cg.shared.global [address], [%1], 16; }"
      :
      : "l"(shared), "l"(global)
      : "memory");
}
/** Zeros where it is not wanted; `global` must be an address of the device all the same. */
DEVICE void copy_or_clear(void* shared, const void* global, bool wanted) {
  asm volatile(
      "{ .reg .u64 wide; .reg .u32 address; cvta.to.shared.u64 wide, %0; cvt.u32.u64 address, wide;"
      " cp.async.cg.shared.global [address], [%1], 16, %2; }"
      :
      : "l"(shared), "l"(global), "r"(wanted ? 16 : 0)
      : "memory");
}
/** A place in shared memory for several copies: what leads there is computed once. */
typedef u32 SharedPlace;
DEVICE SharedPlace shared_place(void* shared) {
  u32 address;
  asm("{ .reg .u64 wide; cvta.to.shared.u64 wide, %1; cvt.u32.u64 %0, wide; }" : "=r"(address) : "l"(shared));
  return address;
}
/** The same as copy_or_clear. */
DEVICE void copy_to_place(SharedPlace place, const void* global, bool wanted) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(place), "l"(global), "r"(wanted ? 16 : 0)
               : "memory");
}
DEVICE void end_copy_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/** Until at most `Groups` of this thread's groups are under way. */
template <int Groups>
DEVICE void wait_for_copy_groups() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Groups) : "memory");
}
/** For all copies that this thread has asked for. */
DEVICE void wait_for_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }
#else
DEVICE void copy_in_background(void* shared, const void* global) {
  *static_cast<Words4*>(shared) = load_shared(global);
}
DEVICE void copy_or_clear(void* shared, const void* global, bool wanted) {
  *static_cast<Words4*>(shared) = wanted ? load_shared(global) : Words4{0, 0, 0, 0};
}
typedef u8* SharedPlace;
DEVICE SharedPlace shared_place(void* shared) { return static_cast<u8*>(shared); }
DEVICE void copy_to_place(SharedPlace place, const void* global, bool wanted) { copy_or_clear(place, global, wanted); }
DEVICE void end_copy_group() {}
template <int Groups>
DEVICE void wait_for_copy_groups() {}
DEVICE void wait_for_copies() {}
#endif
