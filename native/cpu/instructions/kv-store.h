// How the instructions kv-write and rope-store put keys and values into the KV cache.

#pragma once

#include "../engine/step-run.h"

namespace rocmforge {

/// One KV head of one token, at the token's position in its sequence's blocks. `value` is not read if the layer's values
/// are in its keys.
inline void store_head(const StepRun& run, size_t layer, size_t head, size_t token, const float* key,
                       const float* value) {
  const size_t block_tokens = run.cache->options().block_tokens;
  const size_t position = run.position(token);
  const size_t block = static_cast<size_t>(run.block_table(layer, run.sequence_of[token])[position / block_tokens]);
  const KvStore store = {&run.cache->cell(layer),
                         run.cache->cells(layer, head) + block * run.cache->block_stride(layer),
                         position % block_tokens, key, value};
  run.row_kernels().store_kv(store);
}

}  // namespace rocmforge
