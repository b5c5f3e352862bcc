// The team of matmul/wide-gemm.hip that brings the input: slabs of 128 columns of a tile's tokens, in chunks of 16 bytes as
// device/wide-matmul.h wants them. Lanes of the products hold whole weight blocks, so a chunk has the same two columns
// of a slab's four blocks: chunk 4 m + i of a slab has columns 8 m + 2 i and the next of each. A thread reads columns 8 m
// to 8 m + 7 of the four blocks and has four chunks. Knows the block's shape and Share.
#pragma once

/** What a thread brings of one token at a time. */
struct InputItem {
  Words4 blocks[4];
};

constexpr int kSlabItems = (kTokens * 4 + kTeamThreads - 1) / kTeamThreads;
/** Items that are on their way together, as many as a thread has registers for. */
constexpr int kItemsAhead = kKeptRegisters >= 88 ? 4 : 2;
/** That add_parts() of matmul/wide-gemm-sums.h has. */
constexpr int kPartBarriers = 3;

/** The next item that a thread brings. */
struct InputPlace {
  u32 unit;
  int token_tile, slab, item;
};

DEVICE void next_place(const Share& share, InputPlace& place) {
  if (++place.item < kSlabItems) return;
  place.item = 0;
  place.unit++;
  if (++place.slab < share.slabs) return;
  place.slab = 0;
  if (++place.token_tile == share.token_tiles) place.token_tile = 0;
}

/** Four neighbouring lanes read 64 neighbouring bytes. */
DEVICE int item_token(int item) { return item * (kTeamThreads / 4) + (thread_index() - kUsers) / 4; }
/** Of its 32 columns a block's eight that a thread brings. */
DEVICE int item_columns() { return thread_index() % 4; }

DEVICE void load_item(const WideGemmArguments& a, const Share& share, const InputPlace& place, InputItem& item) {
  const int column = place.slab * (kSlabBlocks * 32) + item_columns() * 8;
  const int token = place.token_tile * kTokens + item_token(place.item);
  const u16* const row = a.halves + u64(min(token, share.tokens - 1)) * u64(a.halves_stride) + column;
#pragma unroll
  for (int block = 0; block < 4; block++) {
    const bool wanted = place.unit < share.end && token < share.tokens && column + block * 32 < a.width;
    item.blocks[block] = wanted ? load_shared(row + block * 32) : Words4{0, 0, 0, 0};
  }
}

DEVICE void store_item(const InputItem& item, int index, u8* stage) {
  const int token = item_token(index), first = item_columns() * 4;
  if (kTokens * 4 < kTeamThreads && token >= kTokens) return;
  const Words4(&own)[4] = item.blocks;
  *reinterpret_cast<Words4*>(stage + wide_chunk(first, token)) = {own[0].x, own[1].x, own[2].x, own[3].x};
  *reinterpret_cast<Words4*>(stage + wide_chunk(first + 1, token)) = {own[0].y, own[1].y, own[2].y, own[3].y};
  *reinterpret_cast<Words4*>(stage + wide_chunk(first + 2, token)) = {own[0].z, own[1].z, own[2].z, own[3].z};
  *reinterpret_cast<Words4*>(stage + wide_chunk(first + 3, token)) = {own[0].w, own[1].w, own[2].w, own[3].w};
}

/** Stores an item, and hands the stage over with the last of a slab. */
DEVICE void bring_item(const Share& share, InputPlace& place, StageCount& count, const InputItem& item, u8* shared,
                       Handovers& handovers) {
  if (place.unit >= share.end) return;
  if (place.item == 0) await_handover(&handovers.empty[count.stage], (count.turns & 1) ^ 1);
  store_item(item, place.item, shared + count.stage * kStageBytes);
  if (place.item == kSlabItems - 1) {
    wide_inputs_written();
    hand_over(&handovers.full[count.stage]);
    stage_filled();
    stage_used();
    next_stage(count);
    // With the last slab of a tile that other blocks have a part of, the others exchange sums.
    const u32 first = place.unit - u32(place.slab);
    const bool ends = place.slab == share.slabs - 1 || place.unit == share.end - 1;
    const bool whole = first >= share.begin && first + u32(share.slabs) <= share.end;
    if (ends && !whole) fillers_join(kPartBarriers);
  }
  next_place(share, place);
}

DEVICE void bring_input(const WideGemmArguments& a, const Share& share, u8* shared, Handovers& handovers) {
  dependency_wait();
  InputPlace place = {share.begin, 0, 0, 0};
  const u32 tile = share.begin / u32(share.slabs);
  place.slab = int(share.begin - tile * u32(share.slabs));
  place.token_tile = share.token_tiles > 0 ? int(tile % u32(share.token_tiles)) : 0;
  StageCount count = {0, 0};
  InputPlace ahead = place;
  InputItem items[kItemsAhead];
#pragma unroll
  for (int i = 0; i < kItemsAhead - 1; i++) {
    load_item(a, share, ahead, items[i]);
    next_place(share, ahead);
  }
#pragma unroll 1
  while (place.unit < share.end) {
#pragma unroll
    for (int i = 0; i < kItemsAhead; i++) {
      load_item(a, share, ahead, items[(i + kItemsAhead - 1) % kItemsAhead]);
      next_place(share, ahead);
      bring_item(share, place, count, items[i], shared, handovers);
    }
  }
}
