// The matmuls of matmul/grouped-gemm.hip for tiles of 64 or 128 slots on sm_90, by wide products (device/wide-matmul.h): four
// waves multiply 64 × 128 at a time from registers and shared memory, while they decode the next weights. The input is
// gathered from rows of rows/wide-rows.hip, whose columns lie in the order in which the lanes hold weights: chunk
// (group × 4 + step) × 2 + j of a slab has halves 4 × step + 2 j and the next of that group of the slab's four blocks.
//
// What bounds it, for Q4_K on an H200: a slab of 128 columns is 2 × 1024 cycles of products for the two blocks of a
// multiprocessor, and 2 × 550 instructions of each of its quarters, which the products do not wait for. matmul/
// grouped-gemm.hip takes half as long again at best: its products are those of one wave, at two thirds of the rate, and
// read their input through registers.
// Defines: as there, without PREFETCH; TOKENS 64 or 128; STAGES 3; MATRIX_LAYOUT 80. A tile of at most 64 slots takes half as many
// products. Grid: the same.
// v1 On an H200 prefill of 4,096 tokens of Qwen3-30B-A3B takes 150 ms; it took 175 before this and some other changes.
#define MATRIX_WAVES 4
#define WIDE 1
#ifndef STAGES
#define STAGES 3
#endif
#include "matmul/grouped-arguments.h"

static_assert(kShares == 4 && kSlabBlocks == 4, "a slab is 16 chunks of a row");
constexpr int kSlabChunks = 16;
constexpr int kStageBytes = kSlabChunks * kWideChunkBytes;

/** Of slots that the tile has not got nothing is brought: what their place in shared memory holds is only theirs. */
DEVICE void copy_slab(const GroupedGemmArguments& a, const GroupTile& tile, int slab, u8* stage) {
  const int chunk = thread_index() % kSlabChunks, first_token = thread_index() / kSlabChunks;
  const u8* const columns = reinterpret_cast<const u8*>(a.halves) + (slab * kSlabChunks + chunk) * 16;
  const SharedPlace target = shared_place(stage + chunk * kWideChunkBytes + first_token * 16);
#pragma unroll 1
  for (int first = 0; first < kThreadChunks; first += 4) {
    static_assert(kThreadChunks % 4 == 0, "four places at a time");
    if (first_token + first * kTokenStep >= tile.count) break;
    const Words4 inputs = *reinterpret_cast<const Words4*>(slot_inputs[0].chunks[first_token] + first);
    const u32 four[4] = {inputs.x, inputs.y, inputs.z, inputs.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
      if (first_token + (first + i) * kTokenStep < tile.count)
        copy_to_place(target + (first + i) * kTokenStep * 16, columns + u64(four[i]) * 16, true);
    }
  }
}

template <typename Source>
DEVICE void decode_group(const typename Source::Raw (&raw)[kHalves][kLines], int weight_block, int group,
                         u32 (&left)[kHalves][kLines][8]) {
#pragma unroll
  for (int half = 0; half < kHalves; half++) {
#pragma unroll
    for (int line = 0; line < kLines; line++) Source::halves(raw[half][line], weight_block, group, left[half][line]);
  }
}

/** A group's products, which are under way when this returns. */
template <int Columns>
DEVICE void multiply_group(Tile (&sums)[kHalves][kTiles], const u32 (&left)[kHalves][kLines][8], WidePlace place) {
  wide_begin();
#pragma unroll
  for (int step = 0; step < kSteps; step++) {
#pragma unroll
    for (int half = 0; half < kHalves; half++)
      wide_multiply_add<Columns>(sums[half], pack_fragment(left[half], step), chunks_on(place, step * 2));
  }
  wide_end();
}

template <typename Source, int Columns>
DEVICE void multiply_tile(const GroupedGemmArguments& a, const GroupTile& tile, u8* shared) {
  const u8* rows[kHalves][kLines];
  find_rows<Source>(a, tile, rows);
  const int weight_blocks = a.width / 32, slabs = (weight_blocks + kSlabBlocks - 1) / kSlabBlocks;
  typename Source::Raw raw[kHalves][kLines];
  fetch_weights<Source>(rows, weight_blocks, fragment_share(), raw);
#pragma unroll
  for (int stage = 0; stage < STAGES - 1; stage++) {
    if (stage < slabs) copy_slab(a, tile, stage, shared + stage * kStageBytes);
    end_copy_group();
  }
  Tile sums[kHalves][kTiles];
  clear_sums(sums);
  u32 left[2][kHalves][kLines][8];
  int stage = 0;
#pragma unroll 1
  for (int slab = 0; slab < slabs; slab++) {
    const int weight_block = min(slab * kSlabBlocks + fragment_share(), weight_blocks - 1);
    // The first group's products of the slab before are done with its registers, the second's may still run.
    wide_wait<1>();
    decode_group<Source>(raw, weight_block, 0, left[0]);
    wide_wait<0>();
    wait_for_copy_groups<STAGES - 2>();
    wide_inputs_written();
    barrier();
    const int free_stage = stage == 0 ? STAGES - 1 : stage - 1;
    if (slab + STAGES - 1 < slabs) copy_slab(a, tile, slab + STAGES - 1, shared + free_stage * kStageBytes);
    end_copy_group();
    const WidePlace place = wide_place(shared + stage * kStageBytes);
    multiply_group<Columns>(sums, left[0], place);
    decode_group<Source>(raw, weight_block, 1, left[1]);
    fetch_weights<Source>(rows, weight_blocks, min(slab + 1, slabs - 1) * kSlabBlocks + fragment_share(), raw);
    multiply_group<Columns>(sums, left[1], chunks_on(place, kSlabChunks / 2));
    stage = stage == STAGES - 1 ? 0 : stage + 1;
  }
  wide_wait<0>();
  wait_for_copy_groups<0>();
  write_sums(a, tile, sums);
}

KERNEL(grouped_wide, GroupedGemmArguments, kThreads) {
  typedef HalfSource<TYPE0> Source;
  DYNAMIC_SHARED(shared);
  dependency_release();
  dependency_wait();
  GroupTile tile;
  if (!find_tile(a, tile)) return;
  place_slots(a, tile);
  barrier();
  if (kTokens == 64 || tile.count <= 64) {
    multiply_tile<Source, 64>(a, tile, shared);
  } else {
    multiply_tile<Source, kTokens>(a, tile, shared);
  }
}
