// What the waves of a block of attention/deep-decode.hip have come to, merged in their order: as a part for
// attention/deep-combine.hip, or as the token's result.
#pragma once

/** A head's highest score of all waves; exponents are lowered by the base of it, so that nothing is NaN. */
DEVICE float highest_of_waves(const DeepMemory& memory, int head) {
  float top = memory.highest[0][head];
#pragma unroll
  for (int wave = 1; wave < kWaves; wave++) top = max(top, memory.highest[wave][head]);
  return top;
}

DEVICE float base_of_weights(float highest) { return highest == negative_infinity() ? 0.0f : highest; }

/** To where attention/deep-combine.hip finds it. */
DEVICE void give_part(const DeepDecodeArguments& a, const DeepShare& share, const float* parts,
                      const DeepMemory& memory) {
  constexpr int Quads = VALUE_WIDTH / 4;
  for (int index = thread_index(); index < share.heads * Quads; index += kThreads) {
    const int head = index / Quads, quad = index % Quads;
    const float top = highest_of_waves(memory, head);
    const float base = base_of_weights(top);
    float total = 0.0f;
    Quad sum = {{0.0f, 0.0f, 0.0f, 0.0f}};
#pragma unroll
    for (int wave = 0; wave < kWaves; wave++) {
      const float factor = exponential2(memory.highest[wave][head] - base);
      const Quad part = *reinterpret_cast<const Quad*>(parts + (wave * kHeads + head) * kPartStride + quad * 4);
      total = fma(factor, memory.totals[wave][head], total);
#pragma unroll
      for (int column = 0; column < 4; column++) sum.at[column] = fma(factor, part.at[column], sum.at[column]);
    }
    const u64 place = (u64(share.token) * u64(a.heads) + u64(share.first_head + head)) * u64(a.splits) + u64(block_y());
    *reinterpret_cast<Quad*>(a.partial_values + place * VALUE_WIDTH + quad * 4) = sum;
    if (quad == 0) {
      a.partial_weights[place * 2] = top;
      a.partial_weights[place * 2 + 1] = total;
    }
  }
}

/** The token's result, if the block has all of its positions. */
DEVICE void give_result(const DeepDecodeArguments& a, const DeepShare& share, const float* parts,
                        const DeepMemory& memory) {
  constexpr int Columns = kBlockHeads * VALUE_WIDTH;
#pragma unroll 1
  for (int start = 0; start < Columns; start += kThreads) {
    if (Columns % kThreads != 0 && start + wave_index() * WAVE >= Columns) continue;
    const int index = start + thread_index();
    const int head = min(index / VALUE_WIDTH, kHeads - 1), column = index % VALUE_WIDTH;
    const float base = base_of_weights(highest_of_waves(memory, head));
    float total = 0.0f, sum = 0.0f;
#pragma unroll
    for (int wave = 0; wave < kWaves; wave++) {
      const float factor = exponential2(memory.highest[wave][head] - base);
      total = fma(factor, memory.totals[wave][head], total);
      sum = fma(factor, parts[(wave * kHeads + head) * kPartStride + column], sum);
    }
    const bool present = index < share.heads * VALUE_WIDTH;
    write_column(a, share.token, share.first_head * VALUE_WIDTH + index, present,
                 present ? sum / with_sink(a, share.first_head + head, base, total) : 0.0f);
  }
}
