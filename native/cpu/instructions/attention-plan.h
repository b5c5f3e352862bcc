// The attention instruction's fields, and its plan: how the queries of a step are divided into tasks, and where their
// partial results are kept. attention-plan.cpp checks and plans, attention.cpp runs.

#pragma once

#include <algorithm>
#include <cmath>

#include "../engine/fields.h"
#include "../engine/instruction-check.h"
#include "../engine/step-run.h"

namespace rocmforge {

struct AttentionPlan final : InstructionPlan {
  /// Query heads of one KV head, the number of chunks they are divided into, and the heads in a chunk.
  size_t group = 0;
  size_t head_chunks = 0;
  size_t chunk_heads = 0;
  /// Which of kTileSizes, and the number of tiles of that size.
  size_t tile_kind = 0;
  size_t tiles = 0;
  /// Tiles × KV heads × head chunks.
  size_t tasks = 0;
  /// The most spans that a tile's tokens see.
  size_t max_spans = 0;
  /// Several threads share the spans of one task; partials are then in the shared part instead of a thread's part.
  bool split = false;
  /// Tasks whose partials are kept at once (split), or tiles that a thread takes together (not split).
  size_t together = 1;
  /// Floats from one scaled query to the next.
  size_t query_stride = 0;
  /// Offsets in a thread's part; the partials' in the shared part if split.
  size_t queries = 0;
  size_t kernel_scratch = 0;
  size_t partials = 0;
  size_t partial_values = 0;
};

struct Attention final : Instruction {
  size_t layer;
  Id query;
  size_t heads;
  size_t kv_heads;
  size_t key_width;
  size_t value_width;
  float scale;
  /// A token sees this many positions, its own included; 0 for all.
  size_t window;
  /// A token sees the positions from the last multiple of this on; 0 for all.
  size_t chunk;
  /// Positions before this one are seen by themselves alone.
  size_t first;
  /// Scores are multiplied by 1 + temperature × ln(1 + ⌊(position + offset) ÷ length⌋); 0 for none.
  float temperature;
  float temperature_length;
  float temperature_offset;
  /// The values are the first columns of the keys.
  bool values_in_keys;
  /// 0 for none.
  float soft_cap;
  /// One logit per head that joins the softmax without a value; kNone for none.
  Id sinks;
  Id out;

  explicit Attention(const Fields& fields)
      : layer(fields.count("layer")),
        query(fields.id("query")),
        heads(fields.count("heads")),
        kv_heads(fields.count("kvHeads")),
        key_width(fields.count("keyWidth")),
        value_width(fields.count("valueWidth")),
        scale(fields.number("scale")),
        window(fields.count_or("window", 0)),
        chunk(fields.count_or("chunk", 0)),
        first(fields.count_or("first", 0)),
        temperature(fields.number_or("temperature", 0)),
        temperature_length(fields.number_or("temperatureLength", 1)),
        temperature_offset(fields.number_or("temperatureOffset", 0)),
        values_in_keys(fields.flag_or("valuesInKeys", false)),
        soft_cap(fields.number_or("softCap", 0)),
        sinks(fields.id_or_none("sinks")),
        out(fields.id("out")) {}

  void check(InstructionCheck& check) override;
  std::unique_ptr<InstructionPlan> plan(const Program& program, const StepSize& size) const override;
  void run(const StepRun& run, Member& member, const InstructionPlan* plan) const override;

  /// The first position that a token at `position` sees.
  size_t first_position(size_t position) const {
    const size_t in_window = window == 0 || position < window ? 0 : position - window + 1;
    const size_t visible = chunk == 0 ? in_window : std::max(in_window, position - position % chunk);
    return std::min(position, std::max(first, visible));
  }

  /// The most positions that a token sees; 0 if there is no limit.
  size_t reach() const { return window == 0 || chunk == 0 ? window + chunk : std::min(window, chunk); }

  /// The factor of the scores of a token at `position`.
  float scale_at(size_t position) const {
    if (temperature == 0) return scale;
    const double steps = std::floor((static_cast<double>(position) + temperature_offset) / temperature_length);
    return static_cast<float>(scale * (1 + temperature * std::log1p(steps)));
  }
};

}  // namespace rocmforge
