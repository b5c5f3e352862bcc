// A whole matrix in its device layout to halves [rows][width], for the BLAS library. Width: a multiple of 32.
// Defines: TYPE0, a ggml type id. Grid: x = ⌈rows × width ÷ 32 ÷ 256⌉.
// v1 one block a thread: its loads are neighbours', its stores 32 bytes each. Not measured yet.
#include "weights/half-blocks.h"

struct UnpackArguments {
  const u8* weights;
  u16* halves;
  int rows;
  int width;
};

constexpr int kUnpackThreads = 256;

KERNEL(unpack, UnpackArguments, kUnpackThreads) {
  typedef HalfSource<TYPE0> Source;
  dependency_release();
  const u32 blocks = u32(a.width) / 32;
  const u32 index = u32(block_x()) * kUnpackThreads + u32(thread_index());
  const u32 row = index / blocks;
  const int block = int(index - row * blocks);
  if (row >= u32(a.rows)) return;
  const Source::Raw raw = Source::fetch(a.weights + u64(row) * Source::row_bytes(a.width), int(blocks), block);
  dependency_wait();
  u16* const out = a.halves + u64(row) * u64(a.width);
#pragma unroll
  for (int group = 0; group < 2; group++) {
    u32 words[8];
    Source::halves(raw, block, group, words);
    Words4* const target = reinterpret_cast<Words4*>(out + Source::column(block, group));
    target[0] = {words[0], words[1], words[2], words[3]};
    target[1] = {words[4], words[5], words[6], words[7]};
  }
}
