// AMD, by hiprtc or by clang alone: compiler builtins only, so that neither headers nor the device library are needed.
#pragma once

#define DEVICE static inline __attribute__((device)) __attribute__((always_inline))
#define CONSTANT static __attribute__((device)) const
#define INLINE_LAMBDA __attribute__((always_inline))
#define SHARED __attribute__((shared))
#define DYNAMIC_SHARED(name) extern __attribute__((shared)) __attribute__((aligned(16))) u8 name[]
#define KERNEL(name, Arguments, threads)                                                                       \
  extern "C" __attribute__((global)) __attribute__((amdgpu_flat_work_group_size(threads, threads))) void name( \
      const Arguments a)

DEVICE int thread_index() { return __builtin_amdgcn_workitem_id_x(); }
/** Said to be the same for all lanes: what depends on it alone is computed once for the wave, addresses among it. */
DEVICE int wave_index() { return __builtin_amdgcn_readfirstlane(thread_index() / WAVE); }
DEVICE int block_x() { return __builtin_amdgcn_workgroup_id_x(); }
DEVICE int block_y() { return __builtin_amdgcn_workgroup_id_y(); }
DEVICE int block_z() { return __builtin_amdgcn_workgroup_id_z(); }

/** A barrier that orders what threads of the block write to memory off the chip too, and waits for their loads. */
DEVICE void memory_barrier() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

// Loads on their way need not be waited for, and caches stay as they are: the fences are of shared memory alone. Snapshots
// of clang 19 (ROCm 6.4) call themselves 19.0 and may not know them yet.
#if __clang_major__ >= 20 || (__clang_major__ == 19 && __clang_minor__ >= 1)
DEVICE void barrier() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup", "local");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup", "local");
}
#else
DEVICE void barrier() { memory_barrier(); }
#endif

/** Shared memory written by lanes of this wave becomes visible to its other lanes. */
DEVICE void wave_barrier() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");
  __builtin_amdgcn_wave_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
}

DEVICE u32 wave_exchange(u32 value, int source_lane) {
  return u32(__builtin_amdgcn_ds_bpermute(source_lane * 4, int(value)));
}

// Exchanges within a wave by the vector unit alone, where it can; ds_bpermute takes a way through shared memory. Clang 19 to
// 21 may sink an exchange into a branch that fewer lanes take (LLVM's pull request 142962): the asm keeps it where it is.
#if __clang_major__ >= 22
#define PINNED(value) (value)
#else
DEVICE u32 pinned(u32 value) {
  asm volatile("" : "+v"(value));
  return value;
}
#define PINNED(value) pinned(value)
#endif
#define DPP(value, control) u32(__builtin_amdgcn_mov_dpp(int(value), control, 0xf, 0xf, true))

/** What lane lane_index() ^ mask has. `mask` is a power of two, known to the compiler. */
DEVICE u32 wave_xor(u32 value, int mask) {
  switch (mask) {
    case 1: return PINNED(DPP(value, 0xb1));   // quad_perm:[1,0,3,2]
    case 2: return PINNED(DPP(value, 0x4e));   // quad_perm:[2,3,0,1]
    case 8: return PINNED(DPP(value, 0x128));  // row_ror:8
#if WAVE == 64
    case 4: return PINNED(DPP(DPP(value, 0x141), 0x1b));  // row_half_mirror is ^ 7, quad_perm:[3,2,1,0] ^ 3
    case 16: return PINNED(u32(__builtin_amdgcn_ds_swizzle(int(value), 0x401f)));  // ^ 16 in each half
#else
    case 4: return PINNED(DPP(value, 0x164));  // row_xmask:4
    case 16: return PINNED(__builtin_amdgcn_permlanex16(value, value, 0x76543210u, 0xfedcba98u, true, true));
#endif
#if defined(__gfx950__)
    case 32: {
      const auto halves = __builtin_amdgcn_permlane32_swap(value, value, false, false);
      return PINNED((thread_index() & 32) == 0 ? halves[1] : halves[0]);
    }
#endif
    default: return wave_exchange(value, (thread_index() % WAVE) ^ mask);
  }
}
#undef DPP
#undef PINNED

/** accumulator + the sum of four products of signed bytes. */
DEVICE int dot4(int left, int right, int accumulator) {
#if __has_builtin(__builtin_amdgcn_sudot4) && (defined(__GFX11__) || defined(__GFX12__))
  return __builtin_amdgcn_sudot4(true, left, true, right, accumulator, false);
#elif defined(__gfx906__) || defined(__gfx908__) || defined(__gfx90a__) || defined(__gfx940__) ||   \
    defined(__gfx941__) || defined(__gfx942__) || defined(__gfx950__) || defined(__gfx1011__) ||    \
    defined(__gfx1012__) || defined(__gfx1030__) || defined(__gfx1031__) || defined(__gfx1032__) || \
    defined(__gfx1033__) || defined(__gfx1034__) || defined(__gfx1035__) || defined(__gfx1036__)
  return __builtin_amdgcn_sdot4(left, right, accumulator, false);
#else
  for (int byte = 0; byte < 32; byte += 8) accumulator += int(i8(left >> byte)) * int(i8(right >> byte));
  return accumulator;
#endif
}

/** Bytes of a table of 16, by the low nibble of each byte; the high ones are zero. */
DEVICE u32 look_up_bytes(u32 indices, const Words4& table) {
  const u32 within = indices & 0x07070707u;
  const u32 lower = __builtin_amdgcn_perm(table.y, table.x, within);
  const u32 upper = __builtin_amdgcn_perm(table.w, table.z, within);
  return __builtin_amdgcn_perm(upper, lower, 0x03020100u | ((indices & 0x08080808u) >> 1));
}

/** Two quads of nibbles, a byte each, in the order of look_up_nibbles: a selection takes a nibble of each byte. */
DEVICE u32 pack_nibbles(u32 first, u32 second) { return first | (second << 4); }

/** Bytes of a table of 16, by each nibble of a word of pack_nibbles. */
DEVICE void look_up_nibbles(u32 word, const Words4& table, u32& first, u32& second) {
  first = look_up_bytes(word & 0x0f0f0f0fu, table);
  second = look_up_bytes((word >> 4) & 0x0f0f0f0fu, table);
}

/** Signed bytes, by each nibble of a word of pack_nibbles: 8 + n is magnitude n of eight, n is minus that. */
DEVICE void look_up_signed(u32 word, u32 low, u32 high, u32& first, u32& second) {
  const u32 low_negative = (0x80808080u - low) ^ 0x80808080u, high_negative = (0x80808080u - high) ^ 0x80808080u;
  look_up_nibbles(word, {low_negative, high_negative, low, high}, first, second);
}

DEVICE float half_to_float(u16 bits) { return float(__builtin_bit_cast(_Float16, bits)); }
DEVICE u16 float_to_half(float value) { return __builtin_bit_cast(u16, _Float16(value)); }

/** Two halves in one word, `low` in the low half. */
DEVICE u32 float2_to_half2(float low, float high) { return u32(float_to_half(low)) | (u32(float_to_half(high)) << 16); }

// Clang 15 (HIP 5) has no name for the instruction; the plain builtin becomes it, with care for the smallest results.
#if __has_builtin(__builtin_amdgcn_exp2f)
DEVICE float exponential2(float value) { return __builtin_amdgcn_exp2f(value); }
#else
DEVICE float exponential2(float value) { return __builtin_exp2f(value); }
#endif
DEVICE float reciprocal_root(float value) { return 1.0f / __builtin_sqrtf(value); }
DEVICE float fma(float left, float right, float sum) { return __builtin_fmaf(left, right, sum); }
DEVICE float nearest(float value) { return __builtin_rintf(value); }
DEVICE float magnitude(float value) { return __builtin_fabsf(value); }

/** A pointer from an address that was read from memory: said to be global, because loads that might be of shared memory
 *  are waited for with those that are. */
template <typename Element>
DEVICE Element* global_pointer(u64 address) {
  return (Element*)(__attribute__((address_space(1))) Element*)address;
}

/** `bytes` and `more` past a place that is the same for all lanes: never negative, so that the load adds it, not the vector unit. */
DEVICE const u8* lane_place(const u8* place, int bytes, int more) { return place + u32(bytes + more); }

/** Read once by the whole device: 16 bytes that need no place in the small caches. */
DEVICE Words4 load_once(const void* address) {
  typedef u32 Vector __attribute__((ext_vector_type(4)));
  const Vector words = __builtin_nontemporal_load(static_cast<const Vector*>(address));
  return {words.x, words.y, words.z, words.w};
}

/** 16 bytes that other threads read too and no thread writes while this kernel runs. */
DEVICE Words4 load_shared(const void* address) { return *static_cast<const Words4*>(address); }

/**
 * Loads from memory stay on their side of this: they arrive in order, and one that is asked for early holds registers. It is
 * no instruction.
 */
DEVICE void keep_load_order() {
#if __has_builtin(__builtin_amdgcn_sched_barrier)
  // What calculates, and loads from shared memory, may pass.
  __builtin_amdgcn_sched_barrier(0x0);
#endif
}

/**
 * The same value, of which the compiler does not know that it is the same in every turn of a loop: offsets of loads that it
 * would widen before the loop are no longer offsets to it.
 */
DEVICE int anew(int value) {
  asm volatile("" : "+v"(value));
  return value;
}
/** The value is computed before this, not where it is first wanted: what it is computed from gives its registers back. */
DEVICE void settle(float& value) { asm volatile("" : "+v"(value)); }

DEVICE u32 atomic_add(u32* address, u32 value) { return __atomic_fetch_add(address, value, __ATOMIC_RELAXED); }
/** What this thread wrote before is visible to the device before what it writes after. */
DEVICE void device_fence() { __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "agent"); }

// Kernels follow one another here; there is nothing to wait for and no launch to release.
DEVICE void dependency_wait() {}
DEVICE void dependency_release() {}
