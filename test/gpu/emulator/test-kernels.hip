// Kernels for the test double's own tests: each does one thing that a device allows, or one that it does not.
// v1: no figures, nobody waits for them.

struct IndexArguments {
  u32* out;
  int width;
};

KERNEL(write_index, IndexArguments, 96) {
  const int block = block_x() + a.width * (block_y() + 2 * block_z());
  a.out[block * 96 + thread_index()] = u32(block * 1000 + thread_index());
}

struct ArrayArguments {
  const u32* in;
  u32* out;
};

KERNEL(wave_reverse, ArrayArguments, 128) {
  const u32 value = a.in[thread_index()];
  a.out[thread_index()] = wave_exchange(value, WAVE - 1 - lane_index());
}

KERNEL(wave_sums, ArrayArguments, 128) { a.out[thread_index()] = u32(wave_sum(int(a.in[thread_index()]))); }

KERNEL(block_sums, ArrayArguments, 256) {
  SHARED float scratch[256 / WAVE];
  const float once = block_sum<256>(float(a.in[thread_index()]), scratch);
  // The same scratch a second time: what the first sum left must not leak into it.
  const float twice = block_sum<256>(float(thread_index()), scratch);
  a.out[thread_index()] = u32(once) * 100000 + u32(twice);
}

KERNEL(many_block_sums, ArrayArguments, 256) {
  SHARED float scratch[256 / WAVE];
  const float sum = block_sum<256>(float(a.in[thread_index()] + u32(block_x())), scratch);
  a.out[block_x() * 256 + thread_index()] = u32(sum);
}

KERNEL(dynamic_reverse, ArrayArguments, 128) {
  DYNAMIC_SHARED(shared);
  u32* const values = reinterpret_cast<u32*>(shared);
  values[thread_index()] = a.in[thread_index()];
  barrier();
  a.out[thread_index()] = values[127 - thread_index()];
}

KERNEL(shared_remains, ArrayArguments, 32) {
  SHARED u32 own[32];
  DYNAMIC_SHARED(shared);
  a.out[thread_index()] = own[thread_index()];
  a.out[32 + thread_index()] = reinterpret_cast<const u32*>(shared)[thread_index()];
  own[thread_index()] = reinterpret_cast<u32*>(shared)[thread_index()] = 1;
}

KERNEL(past_shared, ArrayArguments, 32) {
  DYNAMIC_SHARED(shared);
  a.out[thread_index()] = reinterpret_cast<const u32*>(shared)[thread_index()];
}

struct PlaceArguments {
  u32* base;
  u64 index;
  u32* out;
};

KERNEL(read_at, PlaceArguments, 32) {
  if (thread_index() == 7) a.out[0] = a.base[a.index];
}

KERNEL(write_at, PlaceArguments, 32) {
  if (thread_index() == 7) a.base[a.index] = 42;
}

KERNEL(count, PlaceArguments, 64) { atomic_add(a.base, u32(a.index)); }

KERNEL(increment, PlaceArguments, 32) {
  if (thread_index() == 0) a.base[0] = a.base[0] + u32(a.index);
}

/** Goes on when the host says so, or when it has been forgotten. */
KERNEL(wait_for_host, PlaceArguments, 32) {
  if (thread_index() != 0) return;
  const volatile u32* const flag = a.base;
  for (u64 turn = 0; turn < a.index && flag[0] == 0; turn++) continue;
}

KERNEL(wide_load, PlaceArguments, 32) {
  const Words4 words = load_once(reinterpret_cast<const u8*>(a.base) + a.index);
  a.out[thread_index()] = words.x + words.w;
}

KERNEL(divide, PlaceArguments, 32) { a.out[thread_index()] = 100 / u32(a.index); }

__attribute__((noinline)) static u32 deeper(u64 depth, volatile u32* before) {
  volatile u32 here[256];
  here[0] = before[0] + 1;
  return depth == 0 ? here[0] : deeper(depth - 1, here) + here[0];
}

KERNEL(recursion, PlaceArguments, 32) {
  volatile u32 start[1] = {0};
  a.out[thread_index()] = deeper(a.index, start);
}

/** Some lanes at the block's barrier, the others in an exchange. */
KERNEL(different_kinds, ArrayArguments, 64) {
  if (lane_index() < 5) {
    barrier();
  } else {
    a.out[thread_index()] = wave_exchange(a.in[thread_index()], 6);
  }
}

/** All lanes exchange, but not in the same call. */
KERNEL(different_places, ArrayArguments, 64) {
  u32 value = a.in[thread_index()];
  if (lane_index() < 5) {
    value += wave_xor(value, 1);
  } else {
    value += wave_xor(value, 2);
  }
  a.out[thread_index()] = value;
}

KERNEL(early_end, ArrayArguments, 64) {
  if (lane_index() == 3) return;
  a.out[thread_index()] = wave_exchange(a.in[thread_index()], 0);
}

/** Threads that have returned are not waited for at a barrier. */
KERNEL(early_end_at_barrier, ArrayArguments, 128) {
  SHARED u32 values[128];
  values[thread_index()] = a.in[thread_index()];
  if (thread_index() >= 100) return;
  barrier();
  a.out[thread_index()] = values[99 - thread_index()];
}

/** Half a wave, when waves have 64 lanes. */
KERNEL(half_wave, ArrayArguments, 32) {
  a.out[thread_index()] = wave_exchange(a.in[thread_index()], thread_index() ^ 32);
}

/** Forgets the barrier: what a thread finds depends on who ran first. */
KERNEL(no_barrier, ArrayArguments, 64) {
  SHARED u32 values[64];
  values[thread_index()] = a.in[thread_index()];
  a.out[thread_index()] = values[63 - thread_index()];
}

struct HalvesArguments {
  float* floats;
  u16* halves;
  int count;
};

KERNEL(halves, HalvesArguments, 256) {
  const int index = block_x() * 256 + thread_index();
  if (index >= a.count) return;
  a.floats[index] = half_to_float(u16(index));
  a.halves[index] = float_to_half(a.floats[index]);
}

KERNEL(to_halves, HalvesArguments, 256) {
  const int index = block_x() * 256 + thread_index();
  if (index < a.count) a.halves[index] = float_to_half(a.floats[index]);
}

/** What device/portable.h asks of a machine, once each. */
KERNEL(arithmetic, HalvesArguments, 32) {
  if (thread_index() != 0) return;
  a.floats[0] = float(dot4(0x7f80ff01, 0x02030405, 1000));
  a.floats[1] = exponential2(3.5f);
  a.floats[2] = reciprocal_root(16.0f);
  a.floats[3] = fma(1.0f + 0x1p-12f, 1.0f - 0x1p-12f, -1.0f);
  a.floats[4] = nearest(2.5f);
  a.floats[5] = magnitude(-3.0f);
  a.floats[6] = bfloat_to_float(float_to_bfloat(1.00390625f));
}
