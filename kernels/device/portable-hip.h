// AMD, by hiprtc or by clang alone: compiler builtins only, so that neither headers nor the device library are needed.
#pragma once

#define DEVICE static inline __attribute__((device)) __attribute__((always_inline))
#define CONSTANT static __attribute__((device)) const
#define SHARED __attribute__((shared))
#define DYNAMIC_SHARED(name) extern __attribute__((shared)) __attribute__((aligned(16))) u8 name[]
#define KERNEL(name, Arguments, threads)                                                                       \
  extern "C" __attribute__((global)) __attribute__((amdgpu_flat_work_group_size(threads, threads))) void name( \
      const Arguments a)

DEVICE int thread_index() { return __builtin_amdgcn_workitem_id_x(); }
DEVICE int block_x() { return __builtin_amdgcn_workgroup_id_x(); }
DEVICE int block_y() { return __builtin_amdgcn_workgroup_id_y(); }
DEVICE int block_z() { return __builtin_amdgcn_workgroup_id_z(); }

DEVICE void barrier() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

/** Shared memory written by lanes of this wave becomes visible to its other lanes. */
DEVICE void wave_barrier() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");
  __builtin_amdgcn_wave_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
}

DEVICE u32 wave_exchange(u32 value, int source_lane) {
  return u32(__builtin_amdgcn_ds_bpermute(source_lane * 4, int(value)));
}

/** accumulator + the sum of four products of signed bytes. */
DEVICE int dot4(int left, int right, int accumulator) {
#if __has_builtin(__builtin_amdgcn_sudot4) && (defined(__GFX11__) || defined(__GFX12__))
  return __builtin_amdgcn_sudot4(true, left, true, right, accumulator, false);
#elif defined(__gfx906__) || defined(__gfx908__) || defined(__gfx90a__) || defined(__gfx940__) ||   \
    defined(__gfx941__) || defined(__gfx942__) || defined(__gfx950__) || defined(__gfx1011__) ||    \
    defined(__gfx1012__) || defined(__gfx1030__) || defined(__gfx1031__) || defined(__gfx1032__) || \
    defined(__gfx1034__) || defined(__gfx1035__) || defined(__gfx1036__)
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

/** Read once by the whole device: 16 bytes that need no place in the small caches. */
DEVICE Words4 load_once(const void* address) {
  typedef u32 Vector __attribute__((ext_vector_type(4)));
  const Vector words = __builtin_nontemporal_load(static_cast<const Vector*>(address));
  return {words.x, words.y, words.z, words.w};
}

/** 16 bytes that other threads read too and no thread writes while this kernel runs. */
DEVICE Words4 load_shared(const void* address) { return *static_cast<const Words4*>(address); }

DEVICE u32 atomic_add(u32* address, u32 value) { return __atomic_fetch_add(address, value, __ATOMIC_RELAXED); }
/** What this thread wrote before is visible to the device before what it writes after. */
DEVICE void device_fence() { __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "agent"); }

// Kernels follow one another here; there is nothing to wait for and no launch to release.
DEVICE void dependency_wait() {}
DEVICE void dependency_release() {}
