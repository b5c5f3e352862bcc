// A whole matrix in its device layout to halves [rows][width], for the BLAS library. Width: a multiple of 32.
// Defines: TYPE0, a ggml type id. Grid: x = ⌈rows × width ÷ 32 ÷ 256⌉.
// v1 one block a thread: its loads are neighbours', its stores 32 bytes each. 43.5 us a matrix of Llama-3-8B on average on
//    an H200 (1.9 TB/s).
// v2 through shared memory, so that neighbouring lanes store neighbouring 16 bytes.
#include "weights/half-blocks.h"

struct UnpackArguments {
  const u8* weights;
  u16* halves;
  int rows;
  int width;
};

constexpr int kUnpackThreads = 256;
/** 8 halves each. */
constexpr int kBlockChunks = 4;

/** Chunks exchanged in their eight so that those that lanes write at once lie in different banks. */
DEVICE int chunk_place(int chunk) { return chunk ^ (chunk >> 3 & 7); }

KERNEL(unpack, UnpackArguments, kUnpackThreads) {
  typedef HalfSource<TYPE0> Source;
  SHARED Words4 chunks[kUnpackThreads * kBlockChunks];
  dependency_release();
  const u32 blocks = u32(a.width) / 32;
  const u32 first = u32(block_x()) * kUnpackThreads;
  const u32 row = (first + u32(thread_index())) / blocks;
  const int block = int(first + u32(thread_index()) - row * blocks);
  if (row < u32(a.rows)) {
    const Source::Raw raw = Source::fetch(a.weights + u64(row) * Source::row_bytes(a.width), int(blocks), block);
    // Pairs of blocks may lie in each other, and begin at even blocks of the matrix as of a row.
    const int origin = int(row * blocks - first) * kBlockChunks;
#pragma unroll
    for (int group = 0; group < 2; group++) {
      u32 words[8];
      Source::halves(raw, block, group, words);
      const int chunk = origin + Source::column(block, group) / 8;
      chunks[chunk_place(chunk)] = {words[0], words[1], words[2], words[3]};
      chunks[chunk_place(chunk + 1)] = {words[4], words[5], words[6], words[7]};
    }
  }
  dependency_wait();
  barrier();
  const u64 end = u64(a.rows) * u64(blocks) * kBlockChunks;
  Words4* const out = reinterpret_cast<Words4*>(a.halves);
#pragma unroll
  for (int sweep = 0; sweep < kBlockChunks; sweep++) {
    const int chunk = sweep * kUnpackThreads + thread_index();
    const u64 place = u64(first) * kBlockChunks + u64(chunk);
    if (place < end) out[place] = chunks[chunk_place(chunk)];
  }
}
