// Checks and plans attention: how many query heads and tokens attend together, and whether threads share the spans of a task.

#include <algorithm>

#include "../engine/scratch.h"
#include "attention-plan.h"

namespace rocmforge {

namespace {

/// Partials that are kept at once, in all and by one thread.
constexpr size_t kMaxPartialBytes = size_t{64} << 20;
constexpr size_t kThreadPartialBytes = size_t{256} << 10;
constexpr size_t kMaxTilesTogether = 4;
/// With fewer tasks than this per thread, several threads share the spans of one task.
constexpr size_t kTasksPerThread = 8;

}  // namespace

void Attention::check(InstructionCheck& check) {
  const KvLayerShape& shape = check.layer(layer);
  require_equal(check.path("kvHeads"), shape.kv_heads, kv_heads);
  require_equal(check.path("keyWidth"), shape.key_width, key_width);
  if (values_in_keys) {
    require_equal(check.path("valuesInKeys with values of width"), 0, shape.value_width);
    require_range(check.path("valueWidth"), value_width, 1, key_width);
  } else {
    require_range(check.path("valueWidth"), value_width, 1, kMaxTokens);
    require_equal(check.path("valueWidth"), shape.value_width, value_width);
  }
  const Value& queries = check.value("query", query);
  const Value& to = check.value("out", out);
  check.require_rows("query", queries, RowKind::tokens);
  check.require_rows("out", to, RowKind::tokens);
  check.require_heads("query", queries, heads, key_width);
  check.require_heads("out", to, heads, value_width);
  if (heads % kv_heads != 0) refuse(check.path("heads"), "a multiple of " + text(kv_heads), text(heads));
  check.require_finite("scale", scale);
  check.require_finite("temperature", temperature);
  check.require_finite("temperatureLength", temperature_length);
  check.require_finite("temperatureOffset", temperature_offset);
  if (!(temperature_length > 0))
    refuse(check.path("temperatureLength"), "a positive number", std::to_string(temperature_length));
  if (!(temperature_offset >= 0))
    refuse(check.path("temperatureOffset"), "0 or more", std::to_string(temperature_offset));
  check.require_soft_cap("softCap", soft_cap);
  if (sinks != kNone) check.vector("sinks", sinks, heads);
  check.require_apart("out", out, query);
}

std::unique_ptr<InstructionPlan> Attention::plan(const Program& program, const StepSize& size) const {
  auto planned = std::make_unique<AttentionPlan>();
  AttentionPlan& plan = *planned;
  plan.group = heads / kv_heads;
  plan.chunk_heads = std::min(plan.group, kAttentionRows);
  plan.head_chunks = (plan.group + plan.chunk_heads - 1) / plan.chunk_heads;
  while (kTileSizes[plan.tile_kind] * plan.chunk_heads > kAttentionRows) plan.tile_kind++;
  plan.tiles = size.tiles[plan.tile_kind];
  plan.tasks = plan.tiles * kv_heads * plan.head_chunks;
  plan.max_spans = std::max<size_t>(1, size.spans);
  if (reach() != 0 && reach() <= program.context_tokens) {
    const size_t positions = reach() + kTileSizes[plan.tile_kind] - 1;
    plan.max_spans = std::min(plan.max_spans, (positions + kAttentionSpan - 2) / kAttentionSpan + 1);
  }
  plan.split = plan.max_spans > 1 && plan.tasks < kTasksPerThread * program.threads;

  const size_t value_bytes = round_up(program.kv_layers[layer].stored_value_width(), kKvPadding) * sizeof(float);
  const size_t task_partials = checked_multiply(kAttentionRows, plan.max_spans, "attention");
  const size_t task_bytes = checked_multiply(task_partials, value_bytes + sizeof(AttentionPartial), "attention");
  const size_t fitting = (plan.split ? kMaxPartialBytes : kThreadPartialBytes) / task_bytes;
  const size_t wanted =
      plan.split ? plan.tasks : std::min(kMaxTilesTogether, plan.tasks / (kTasksPerThread * program.threads));
  plan.together = std::clamp<size_t>(fitting, 1, std::max<size_t>(1, wanted));
  plan.counters = plan.split ? plan.together : 0;

  ScratchOffsets thread;
  ScratchOffsets shared;
  ScratchOffsets& partials = plan.split ? shared : thread;
  const size_t tiles_at_once = plan.split ? 1 : plan.together;
  plan.query_stride = round_up(key_width, kKvPadding);
  plan.queries = thread.take(tiles_at_once * kAttentionRows * plan.query_stride * sizeof(float));
  plan.kernel_scratch = thread.take(program.kernels->rows->attention_scratch_bytes());
  plan.partials = partials.take(plan.together * task_partials * sizeof(AttentionPartial));
  plan.partial_values = partials.take(plan.together * task_partials * value_bytes);
  plan.thread_bytes = thread.used();
  plan.shared_bytes = shared.used();
  return planned;
}

}  // namespace rocmforge
