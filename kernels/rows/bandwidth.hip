// Reads memory as fast as it comes: the limit that a decoding step is compared with. Every thread reads 16 bytes at a
// time, neighbours beside each other, eight loads in flight; what was read is kept alive by a store that never happens.
// Grid: any; blocks share the buffer.
// v1 grid-stride loop of load_once, 8 loads ahead: 4.4 to 4.5 TB/s on an H200.
#include "device/portable.h"

struct ReadAllArguments {
  const u8* source;
  u32* never;
  u64 size_bytes;
  int blocks;
};

constexpr int kThreads = 256;
constexpr int kInFlight = 8;

KERNEL(read_all, ReadAllArguments, kThreads) {
  dependency_release();
  dependency_wait();
  const u64 step = u64(a.blocks) * kThreads * kInFlight * 16;
  u32 mixed = 0;
  for (u64 start = u64(block_x()) * kThreads * kInFlight * 16; start + kThreads * kInFlight * 16 <= a.size_bytes;
       start += step) {
    Words4 words[kInFlight];
#pragma unroll
    for (int i = 0; i < kInFlight; i++)
      words[i] = load_once(a.source + start + u64(i * kThreads + thread_index()) * 16);
#pragma unroll
    for (int i = 0; i < kInFlight; i++) mixed ^= words[i].x ^ words[i].y ^ words[i].z ^ words[i].w;
  }
  // The buffer is filled with one byte, an even number of words of which leave nothing; no compiler knows that.
  if (mixed == 0x5eed5eedu) *a.never = mixed;
}
