// Keys and values of all layers: [layer][block][KV head][cell], then the recurrent states: [state][slot][element] in f32,
// in memory that becomes resident as it is written. Layers may differ in shape, and those of one cache group have the
// same number of blocks. A step and a copy hold a share of it, so giving a cache up while they run is safe.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "../kernels/kernel-table.h"
#include "kv-shape.h"
#include "memory.h"

namespace rocmforge {

struct KvOptions {
  std::vector<KvLayerShape> layers;
  /// Of every cache group.
  size_t blocks = 0;
  size_t block_tokens = 0;
  KvType type = KvType::f16;
  /// The blocks of each group if they differ; `blocks` is then the largest.
  std::vector<size_t> blocks_by_group = {};
  /// Elements of each recurrent state, and the slots that have one of each.
  std::vector<size_t> states = {};
  size_t state_slots = 0;

  /// None without layers.
  size_t groups() const;
  size_t blocks_of(size_t group) const { return blocks_by_group.empty() ? blocks : blocks_by_group[group]; }
};

class KvCache {
 public:
  /// What `options` come to; throws `invalid` for contradictions and `memory` for sizes beyond any machine.
  static size_t size_bytes(const KvOptions& options);

  explicit KvCache(const KvOptions& options);

  const KvOptions& options() const { return options_; }
  const KvCell& cell(size_t layer) const { return layers_[layer].cell; }
  size_t size_bytes() const { return memory_.size_bytes(); }
  /// Bytes from one block of a layer to the next.
  size_t block_stride(size_t layer) const { return layers_[layer].block_stride; }
  /// The cell of `kv_head` in block 0 of `layer`.
  uint8_t* cells(size_t layer, size_t kv_head) const {
    return memory_.data() + layers_[layer].offset + kv_head * layers_[layer].cell.bytes;
  }

  /// A recurrent state in a slot: zeros before it is first written.
  float* state(size_t id, size_t slot) const {
    return reinterpret_cast<float*>(memory_.data() + state_offsets_[id]) + slot * options_.states[id];
  }

  /// Throws `invalid` unless `pairs` is from, to, from, to … of blocks of a group, none of them twice a target or target
  /// and source. On the thread that owns the cache.
  void check_copies(const std::vector<int32_t>& pairs, size_t group = 0);
  /// Whole blocks of all layers of a group. The pairs have been checked, and no step runs meanwhile.
  void copy_blocks(const std::vector<int32_t>& pairs, size_t group = 0) noexcept;

  /// Throws `invalid` unless `source` differs in its numbers of blocks and state slots alone, both have the first `blocks`
  /// of each group, and this one has all its state slots.
  void check_copy_from(const KvCache& source, const std::vector<int32_t>& blocks) const;
  /// The first blocks of all layers and all state slots of another cache, to the same places. Checked before; no step runs meanwhile.
  void copy_from(const KvCache& source, const std::vector<int32_t>& blocks) noexcept;

  /// For the check of a step, which runs on the thread that owns the cache: the step in which a block of a group was last
  /// written.
  std::vector<uint32_t>& written_in(size_t group) { return written_in_[group]; }
  uint32_t next_step_number();
  /// The same for state slots, with the sequence that wrote each.
  struct SlotWrite {
    uint32_t step = 0;
    uint32_t sequence = 0;
  };
  std::vector<SlotWrite>& slot_writes() { return slot_writes_; }

 private:
  struct Layer {
    KvCell cell;
    size_t offset;
    size_t block_stride;
  };

  KvOptions options_;
  std::vector<Layer> layers_;
  SystemMemory memory_;
  std::vector<size_t> state_offsets_;
  std::vector<std::vector<uint32_t>> written_in_;
  std::vector<SlotWrite> slot_writes_;
  uint32_t step_number_ = 0;
};

}  // namespace rocmforge
