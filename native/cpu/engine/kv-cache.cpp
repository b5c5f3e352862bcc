// Sizes of the cache, with every product checked: block counts and context lengths come from people.

#include "kv-cache.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "error.h"

namespace rocmforge {

namespace {

/// Far above every model, far below where the sizes of one cell could overflow.
constexpr size_t kMaxCount = size_t{1} << 31;
constexpr size_t kMaxLayers = 65536;
constexpr size_t kWidestHead = 65536;
constexpr size_t kLongestBlock = 65536;
constexpr size_t kMaxStates = 65536;
/// The check of a step keeps a mark for each.
constexpr size_t kMaxStateSlots = size_t{1} << 20;
constexpr size_t kStateAlignment = 64;

void require_count(const char* where, size_t found, size_t most) {
  if (found < 1 || found > most) refuse(where, "1 to " + std::to_string(most), std::to_string(found));
}

void check_options(const KvOptions& options) {
  if (options.states.size() > kMaxStates)
    refuse("kvCache.states", "at most " + std::to_string(kMaxStates), std::to_string(options.states.size()));
  if (options.state_slots > kMaxStateSlots)
    refuse("kvCache.stateSlots", "at most " + std::to_string(kMaxStateSlots), std::to_string(options.state_slots));
  if (options.layers.empty() && !options.states.empty()) return;
  require_count("kvCache.layers", options.layers.size(), kMaxLayers);
  require_count("kvCache.blocks", options.blocks, kMaxCount - 1);
  for (const size_t blocks : options.blocks_by_group) require_count("kvCache.blocksByGroup", blocks, options.blocks);
  if (!options.blocks_by_group.empty() && options.blocks_by_group.size() != options.groups()) {
    refuse("kvCache.blocksByGroup", std::to_string(options.groups()) + " numbers",
           std::to_string(options.blocks_by_group.size()));
  }
  require_count("kvCache.blockTokens", options.block_tokens, kLongestBlock);
  for (const KvLayerShape& layer : options.layers) {
    require_count("kvCache.kvHeads", layer.kv_heads, kMaxCount);
    require_count("kvCache.keyWidth", layer.key_width, kWidestHead);
    require_count("kvCache.valueWidth", layer.stored_value_width(), kWidestHead);
    if (options.type != KvType::q8_0) continue;
    if (layer.key_width % kKvScaleBlock != 0) {
      refuse("kvCache.keyWidth", "a multiple of 32 for q8_0", std::to_string(layer.key_width));
    }
    if (layer.value_width % kKvScaleBlock != 0) {
      refuse("kvCache.valueWidth", "a multiple of 32 for q8_0", std::to_string(layer.value_width));
    }
  }
}

/// Bytes of a state in all slots, with what brings the next one to its alignment.
size_t state_bytes(size_t elements, size_t slots) {
  const size_t bytes =
      checked_multiply(checked_multiply(elements, sizeof(float), "recurrent states"), slots, "recurrent states");
  return checked_add(bytes, kStateAlignment - 1, "recurrent states") / kStateAlignment * kStateAlignment;
}

KvCell cell_of(const KvOptions& options, const KvLayerShape& layer) {
  return kv_cell(options.type, layer.key_width, layer.value_width, options.block_tokens);
}

}  // namespace

size_t KvOptions::groups() const {
  size_t count = 0;
  for (const KvLayerShape& layer : layers) count = std::max(count, layer.group + 1);
  return count;
}

size_t KvCache::size_bytes(const KvOptions& options) {
  check_options(options);
  size_t total = 0;
  for (const KvLayerShape& layer : options.layers) {
    const size_t block = checked_multiply(cell_of(options, layer).bytes, layer.kv_heads, "KV cache");
    total = checked_add(total, checked_multiply(block, options.blocks_of(layer.group), "KV cache"), "KV cache");
  }
  for (const size_t elements : options.states)
    total = checked_add(total, state_bytes(elements, options.state_slots), "recurrent states");
  return total;
}

KvCache::KvCache(const KvOptions& options) : options_(options), memory_(size_bytes(options), "KV cache") {
  size_t offset = 0;
  layers_.reserve(options.layers.size());
  for (const KvLayerShape& layer : options.layers) {
    const KvCell cell = cell_of(options, layer);
    layers_.push_back({cell, offset, cell.bytes * layer.kv_heads});
    offset += layers_.back().block_stride * options.blocks_of(layer.group);
  }
  // Cells are multiples of the alignment.
  for (const size_t elements : options.states) {
    state_offsets_.push_back(offset);
    offset += state_bytes(elements, options.state_slots);
  }
  slot_writes_.resize(options.state_slots);
  for (size_t group = 0; group < options.groups(); group++) written_in_.emplace_back(options.blocks_of(group), 0);
}

void KvCache::check_copies(const std::vector<int32_t>& pairs, size_t group) {
  if (group >= written_in_.size()) {
    refuse("group", "a cache group below " + std::to_string(written_in_.size()), std::to_string(group));
  }
  const size_t blocks = options_.blocks_of(group);
  std::vector<uint32_t>& written_in = written_in_[group];
  if (pairs.size() % 2 != 0) refuse("pairs", "an even number of blocks", std::to_string(pairs.size()));
  const auto path = [](size_t index) { return "pairs[" + std::to_string(index) + "]"; };
  const uint32_t number = next_step_number();
  for (size_t index = 0; index < pairs.size(); index++) {
    const int32_t block = pairs[index];
    if (block < 0 || static_cast<size_t>(block) >= blocks) {
      refuse(path(index), "a block below " + std::to_string(blocks), std::to_string(block));
    }
    if (index % 2 == 0) continue;
    uint32_t& written = written_in[static_cast<size_t>(block)];
    if (written == number) refuse(path(index), "blocks that are a target once", std::to_string(block) + " again");
    written = number;
  }
  for (size_t index = 0; index < pairs.size(); index += 2) {
    if (written_in[static_cast<size_t>(pairs[index])] != number) continue;
    refuse(path(index), "a block that is no target", std::to_string(pairs[index]));
  }
}

void KvCache::copy_blocks(const std::vector<int32_t>& pairs, size_t group) noexcept {
  for (size_t layer = 0; layer < layers_.size(); layer++) {
    if (options_.layers[layer].group != group) continue;
    uint8_t* const blocks = cells(layer, 0);
    const size_t stride = block_stride(layer);
    for (size_t index = 0; index + 1 < pairs.size(); index += 2) {
      const uint8_t* const from = blocks + static_cast<size_t>(pairs[index]) * stride;
      std::memcpy(blocks + static_cast<size_t>(pairs[index + 1]) * stride, from, stride);
    }
  }
}

void KvCache::check_copy_from(const KvCache& source, const std::vector<int32_t>& blocks) const {
  const KvOptions& theirs = source.options_;
  const bool alike = theirs.layers == options_.layers && theirs.block_tokens == options_.block_tokens &&
                     theirs.type == options_.type && theirs.states == options_.states;
  if (!alike || &source == this) refuse("source", "another KV cache of the same shape", "one of another shape");
  if (theirs.state_slots > options_.state_slots) {
    refuse("source.stateSlots", "at most " + std::to_string(options_.state_slots), std::to_string(theirs.state_slots));
  }
  if (blocks.size() != options_.groups()) {
    refuse("blocks", std::to_string(options_.groups()) + " numbers", std::to_string(blocks.size()));
  }
  for (size_t group = 0; group < blocks.size(); group++) {
    const size_t most = std::min(theirs.blocks_of(group), options_.blocks_of(group));
    if (blocks[group] < 0 || static_cast<size_t>(blocks[group]) > most) {
      refuse("blocks", "at most " + std::to_string(most), std::to_string(blocks[group]));
    }
  }
}

void KvCache::copy_from(const KvCache& source, const std::vector<int32_t>& blocks) noexcept {
  for (size_t layer = 0; layer < layers_.size(); layer++) {
    const size_t count = static_cast<size_t>(blocks[options_.layers[layer].group]);
    std::memcpy(cells(layer, 0), source.cells(layer, 0), count * block_stride(layer));
  }
  for (size_t id = 0; id < options_.states.size(); id++) {
    const size_t floats = options_.states[id] * source.options_.state_slots;
    if (floats > 0) std::memcpy(state(id, 0), source.state(id, 0), floats * sizeof(float));
  }
}

uint32_t KvCache::next_step_number() {
  if (++step_number_ == 0) {
    for (std::vector<uint32_t>& written_in : written_in_) std::fill(written_in.begin(), written_in.end(), 0);
    std::fill(slot_writes_.begin(), slot_writes_.end(), SlotWrite{});
    step_number_ = 1;
  }
  return step_number_;
}

}  // namespace rocmforge
