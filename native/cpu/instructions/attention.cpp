// attention: causal attention of each token over the cached positions of its own sequence: all of them, a sliding window,
// or its chunk. Queries of one KV head and a few tokens attend together, span by span. A query's result is the merge of its
// spans in order, so it is the same whether one thread computes all spans or several share them.

#include <algorithm>
#include <cmath>
#include <cstring>

#include "attention-plan.h"

namespace rocmforge {

namespace {

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
    // Heads of one token lie side by side, and may stay so.
    const size_t together = plan_.query_stride == width ? task.heads : 1;
    for (size_t row = 0; row < task.rows(); row += together) {
      const size_t token = task.token(row);
      float* const scaled = queries + row * plan_.query_stride;
      run_.row_kernels().scale(query_.row(token) + task.head(row) * width, together * width,
                               attention_.scale_at(run_.position(token)), scaled);
      if (together == 1) std::memset(scaled + width, 0, (plan_.query_stride - width) * sizeof(float));
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
      const size_t partial = static_cast<size_t>(partials_of(slot, row) - partials_) + (span - task.first_span);
      work.queries[work.rows] = queries + row * plan_.query_stride;
      work.starts[work.rows] = std::max(start, first);
      work.limits[work.rows] = std::min(position + 1, work.end);
      work.partials[work.rows] = {0, 0, partial_values_ + partial * value_stride_};
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

  /// Queries and results of a task lie in rows that are far apart, which hardware does not prefetch. Inlined as
  /// prefetch_columns is.
  [[gnu::always_inline]] void prefetch(const Task& task, const Rows& rows, size_t head_width) const {
    for (size_t token = 0; token < task.tile->tokens; token++)
      prefetch_columns(rows.row(task.tile->first_token + token) + task.first_head * head_width,
                       task.heads * head_width);
  }

  void attend_whole(size_t first, size_t count) const {
    const size_t query_floats = kAttentionRows * plan_.query_stride;
    // Tiles follow one another in their sequence: the first has the first span, the last has the last.
    const size_t end_span = task(first + count - 1).end_span;
    for (size_t slot = 0; slot < count; slot++) scale_queries(task(first + slot), queries_ + slot * query_floats);
    for (size_t slot = 0; slot < count; slot++) prefetch(task(first + slot), out_, attention_.value_width);
    for (size_t index = first + count; index < std::min(first + 2 * count, plan_.tasks); index++)
      prefetch(task(index), query_, attention_.key_width);
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

const InstructionKind kAttention("attention", read_as<Attention>);

}  // namespace

void Attention::run(const StepRun& run, Member& member, const InstructionPlan* plan) const {
  AttentionRun(run, member, *this, static_cast<const AttentionPlan&>(*plan)).execute();
}

}  // namespace rocmforge
