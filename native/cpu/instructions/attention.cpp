// attention: causal attention of each token over the cached positions of its own sequence: all of them, a sliding window,
// or its chunk. Queries of one KV head and a few tokens attend together, span by span. A query's result is the merge of its
// spans in order, so it is the same whether one thread computes all spans or several share them.

#include <algorithm>
#include <cmath>
#include <cstring>

#include "../engine/fields.h"
#include "../engine/instruction-check.h"
#include "../engine/scratch.h"
#include "../engine/step-run.h"

namespace rocmforge {

namespace {

/// Partials that are kept at once, in all and by one thread.
constexpr size_t kMaxPartialBytes = size_t{64} << 20;
constexpr size_t kThreadPartialBytes = size_t{256} << 10;
constexpr size_t kMaxTilesTogether = 4;
/// With fewer tasks than this per thread, several threads share the spans of one task.
constexpr size_t kTasksPerThread = 8;

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
    return chunk == 0 ? in_window : std::max(in_window, position - position % chunk);
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

/// One instruction on one thread.
class AttentionRun {
 public:
  AttentionRun(const StepRun& run, Member& member, const Attention& attention, const AttentionPlan& plan)
      : run_(run),
        member_(member),
        attention_(attention),
        plan_(plan),
        tiles_(run.tiles[plan.tile_kind]),
        query_(run.rows(attention.query)),
        out_(run.rows(attention.out)),
        sinks_(run.weights.vector(attention.sinks)),
        part_(run.thread_part(member)) {
    uint8_t* const partials = plan.split ? run.shared_part() : part_;
    partials_ = reinterpret_cast<AttentionPartial*>(partials + plan.partials);
    partial_values_ = reinterpret_cast<float*>(partials + plan.partial_values);
    queries_ = reinterpret_cast<float*>(part_ + plan.queries);
    value_stride_ = run.cache->cell(attention.layer).value_stride;
  }

  void execute() {
    if (plan_.split) {
      share_spans();
    } else {
      share_tasks();
    }
  }

 private:
  /// Query rows that attend together: heads [first_head, first_head + heads) of a tile's tokens, by token.
  struct Task {
    const TokenTile* tile;
    size_t kv_head;
    size_t first_head;
    size_t heads;
    /// Spans [first_span, end_span) hold every position that one of the rows sees.
    size_t first_span;
    size_t end_span;

    size_t rows() const { return tile->tokens * heads; }
    size_t token(size_t row) const { return tile->first_token + row / heads; }
    size_t head(size_t row) const { return first_head + row % heads; }
  };

  /// Tasks of one head follow one another, so that a thread finds the same keys in its cache again.
  Task task(size_t index) const {
    const size_t head = index / plan_.tiles;
    const size_t kv_head = head / plan_.head_chunks;
    const size_t start = head % plan_.head_chunks * plan_.chunk_heads;
    const TokenTile& tile = tiles_[index % plan_.tiles];
    return {&tile,
            kv_head,
            kv_head * plan_.group + start,
            std::min(plan_.chunk_heads, plan_.group - start),
            first_span(tile.first_token),
            end_span(tile.first_token + tile.tokens - 1)};
  }

  /// The spans that a token sees.
  size_t first_span(size_t token) const { return attention_.first_position(run_.position(token)) / kAttentionSpan; }
  size_t end_span(size_t token) const { return run_.position(token) / kAttentionSpan + 1; }

  /// Partials of one row, from its task's first span on.
  AttentionPartial* partials_of(size_t slot, size_t row) const {
    return partials_ + (slot * kAttentionRows + row) * plan_.max_spans;
  }

  void scale_queries(const Task& task, float* queries) const {
    const size_t width = attention_.key_width;
    for (size_t row = 0; row < task.rows(); row++) {
      const size_t token = task.token(row);
      float* const scaled = queries + row * plan_.query_stride;
      run_.row_kernels().scale(query_.row(token) + task.head(row) * width, width,
                               attention_.scale_at(run_.position(token)), scaled);
      std::memset(scaled + width, 0, (plan_.query_stride - width) * sizeof(float));
    }
  }

  /// Computes the span's partials of the task at `slot`.
  void attend(const Task& task, size_t span, const float* queries, size_t slot) const {
    const size_t first = span * kAttentionSpan;
    AttentionTask work;
    work.cell = &run_.cache->cell(attention_.layer);
    work.cells = run_.cache->cells(attention_.layer, task.kv_head);
    work.block_stride = run_.cache->block_stride(attention_.layer);
    work.block_table = run_.block_table(attention_.layer, task.tile->sequence);
    work.first = first;
    work.table_end = run_.position(task.token(task.rows() - 1)) + 1;
    work.end = std::min(first + kAttentionSpan, work.table_end);
    work.soft_cap = attention_.soft_cap;
    work.rows = 0;
    // Rows are sorted by token: those that end before this span come first, those whose window begins after it last.
    size_t skipped = 0;
    for (size_t row = 0; row < task.rows(); row++) {
      const size_t position = run_.position(task.token(row));
      const size_t start = attention_.first_position(position);
      if (position < first) {
        skipped++;
        continue;
      }
      if (start >= work.end) break;
      AttentionPartial* const partial = partials_of(slot, row) + (span - task.first_span);
      partial->values = partial_values_ + static_cast<size_t>(partial - partials_) * value_stride_;
      work.queries[work.rows] = queries + row * plan_.query_stride;
      work.starts[work.rows] = std::max(start, first);
      work.limits[work.rows] = std::min(position + 1, work.end);
      work.partials[work.rows] = *partial;
      work.rows++;
    }
    run_.row_kernels().attend(work, part_ + plan_.kernel_scratch);
    for (size_t row = 0; row < work.rows; row++)
      partials_of(slot, skipped + row)[span - task.first_span] = work.partials[row];
  }

  void merge(const Task& task, size_t slot) const {
    const size_t width = attention_.value_width;
    for (size_t row = 0; row < task.rows(); row++) {
      const size_t token = task.token(row);
      const size_t first = first_span(token);
      const float* sink = sinks_ == nullptr ? nullptr : sinks_ + task.head(row);
      run_.row_kernels().merge_attention(partials_of(slot, row) + (first - task.first_span), end_span(token) - first,
                                         width, sink, out_.row(token) + task.head(row) * width);
    }
  }

  /// Many tasks: each thread takes whole ones, a few tiles of the same head and sequence at a time.
  void share_tasks() {
    member_.phase(plan_.tasks, {plan_.together, plan_.together, SIZE_MAX}, [this](size_t first, size_t end) {
      while (first < end) {
        size_t count = 1;
        while (count < plan_.together && first + count < end && same_keys(task(first), task(first + count))) count++;
        attend_whole(first, count);
        first += count;
      }
    });
  }

  static bool same_keys(const Task& left, const Task& right) {
    return left.first_head == right.first_head && left.tile->sequence == right.tile->sequence;
  }

  void attend_whole(size_t first, size_t count) const {
    const size_t query_floats = kAttentionRows * plan_.query_stride;
    // Tiles follow one another in their sequence: the first has the first span, the last has the last.
    const size_t end_span = task(first + count - 1).end_span;
    for (size_t slot = 0; slot < count; slot++) scale_queries(task(first + slot), queries_ + slot * query_floats);
    for (size_t span = task(first).first_span; span < end_span; span++) {
      for (size_t slot = 0; slot < count; slot++) {
        const Task one = task(first + slot);
        if (span >= one.first_span && span < one.end_span) attend(one, span, queries_ + slot * query_floats, slot);
      }
    }
    for (size_t slot = 0; slot < count; slot++) merge(task(first + slot), slot);
  }

  /// Few tasks over long sequences: a unit is one span of one task; the thread that computes the last span merges the
  /// task.
  void share_spans() {
    for (size_t first = 0; first < plan_.tasks; first += plan_.together) {
      const size_t tasks = std::min(plan_.together, plan_.tasks - first);
      member_.phase(tasks * plan_.max_spans, {1, 1, SIZE_MAX}, [&](size_t unit, size_t end) {
        for (; unit < end; unit++)
          attend_shared(task(first + unit / plan_.max_spans), unit % plan_.max_spans, unit / plan_.max_spans);
      });
    }
  }

  void attend_shared(const Task& one, size_t index, size_t slot) const {
    const size_t spans = one.end_span - one.first_span;
    if (index >= spans) return;
    scale_queries(one, queries_);
    attend(one, one.first_span + index, queries_, slot);
    std::atomic<uint32_t>& done = run_.counters[slot];
    if (done.fetch_add(1, std::memory_order_acq_rel) + 1 != spans) return;
    done.store(0, std::memory_order_relaxed);
    merge(one, slot);
  }

  const StepRun& run_;
  Member& member_;
  const Attention& attention_;
  const AttentionPlan& plan_;
  const std::vector<TokenTile>& tiles_;
  const Rows query_;
  const Rows out_;
  const float* const sinks_;
  uint8_t* const part_;
  AttentionPartial* partials_;
  float* partial_values_;
  float* queries_;
  size_t value_stride_;
};

void Attention::run(const StepRun& run, Member& member, const InstructionPlan* plan) const {
  AttentionRun(run, member, *this, static_cast<const AttentionPlan&>(*plan)).execute();
}

const InstructionKind kAttention("attention", read_as<Attention>);

}  // namespace

}  // namespace rocmforge
