// Attention: queries of one KV head and a few tokens attend together, span by span. What a query gets is the merge of its
// spans in order, so it is the same whether one thread takes all spans or several share them.

#include <algorithm>

#include "step-run.h"

namespace rocmforge {

namespace {

class Attending {
 public:
  Attending(const StepRun& run, Member& member, const Attention& attention, const AttentionPlan& plan)
      : run_(run),
        member_(member),
        attention_(attention),
        plan_(plan),
        tiles_(run.tiles[plan.tile_kind]),
        query_(run.rows(attention.query)),
        out_(run.rows(attention.out)),
        part_(run.thread_part(member)) {
    uint8_t* const partials = plan.split ? run.arena + run.layout.attention : part_;
    partials_ = reinterpret_cast<AttentionPartial*>(partials + plan.partials);
    partial_values_ = reinterpret_cast<float*>(partials + plan.partial_values);
    queries_ = reinterpret_cast<float*>(part_ + plan.queries);
    value_stride_ = run.cache->cell().value_stride;
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

    size_t rows() const { return tile->tokens * heads; }
    size_t token(size_t row) const { return tile->first_token + row / heads; }
    size_t head(size_t row) const { return first_head + row % heads; }
  };

  /// Tasks of one head stand together, so that a thread meets the same keys again.
  Task task(size_t index) const {
    const size_t head = index / plan_.tiles;
    const size_t kv_head = head / plan_.chunks;
    const size_t start = head % plan_.chunks * plan_.chunk_heads;
    return {&tiles_[index % plan_.tiles], kv_head, kv_head * plan_.group + start,
            std::min(plan_.chunk_heads, plan_.group - start)};
  }

  size_t position(size_t token) const { return static_cast<size_t>(run_.step.positions[token]); }

  AttentionPartial* partials_of(size_t place, size_t row) const {
    return partials_ + (place * kAttentionRows + row) * plan_.most_spans;
  }

  void scale_queries(const Task& task, float* queries) const {
    const size_t width = attention_.key_width;
    for (size_t row = 0; row < task.rows(); row++) {
      const float* query = query_.row(task.token(row)) + task.head(row) * width;
      run_.row_kernels().scale(query, width, attention_.scale, queries + row * width);
    }
  }

  /// Leaves the span's partials of the task at `place`.
  void attend(const Task& task, size_t span, const float* queries, size_t place) const {
    const size_t first = span * kAttentionSpan;
    AttentionTask work;
    work.cell = &run_.cache->cell();
    work.cells = run_.cache->cells(attention_.layer, task.kv_head);
    work.block_stride = run_.cache->block_stride();
    work.block_table = run_.block_table(task.tile->sequence);
    work.first = first;
    work.table_end = position(task.token(task.rows() - 1)) + 1;
    work.end = std::min(first + kAttentionSpan, work.table_end);
    work.rows = 0;
    // Rows are sorted by token: those that end before this span come first, and take no part in it.
    size_t skipped = 0;
    for (size_t row = 0; row < task.rows(); row++) {
      const size_t limit = position(task.token(row)) + 1;
      if (limit <= first) {
        skipped++;
        continue;
      }
      AttentionPartial* const partial = partials_of(place, row) + span;
      partial->values = partial_values_ + static_cast<size_t>(partial - partials_) * value_stride_;
      work.queries[work.rows] = queries + row * attention_.key_width;
      work.limits[work.rows] = std::min(limit, work.end);
      work.partials[work.rows] = *partial;
      work.rows++;
    }
    run_.row_kernels().attend(work, part_ + plan_.kernel_scratch);
    for (size_t row = 0; row < work.rows; row++) partials_of(place, skipped + row)[span] = work.partials[row];
  }

  void merge(const Task& task, size_t place) const {
    const size_t width = attention_.value_width;
    for (size_t row = 0; row < task.rows(); row++) {
      const size_t token = task.token(row);
      run_.row_kernels().merge_attention(partials_of(place, row), position(token) / kAttentionSpan + 1, width,
                                         out_.row(token) + task.head(row) * width);
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
    const size_t query_floats = kAttentionRows * attention_.key_width;
    size_t spans = 0;
    for (size_t place = 0; place < count; place++) {
      const Task one = task(first + place);
      scale_queries(one, queries_ + place * query_floats);
      spans = std::max<size_t>(spans, one.tile->spans);
    }
    for (size_t span = 0; span < spans; span++) {
      for (size_t place = 0; place < count; place++) {
        const Task one = task(first + place);
        if (span < one.tile->spans) attend(one, span, queries_ + place * query_floats, place);
      }
    }
    for (size_t place = 0; place < count; place++) merge(task(first + place), place);
  }

  /// Few tasks over long sequences: a unit is one span of one task, and whoever finishes a task's last span merges it.
  void share_spans() {
    for (size_t first = 0; first < plan_.tasks; first += plan_.together) {
      const size_t tasks = std::min(plan_.together, plan_.tasks - first);
      member_.phase(tasks * plan_.most_spans, {1, 1, SIZE_MAX}, [&](size_t unit, size_t end) {
        for (; unit < end; unit++)
          attend_shared(task(first + unit / plan_.most_spans), unit % plan_.most_spans, unit / plan_.most_spans);
      });
    }
  }

  void attend_shared(const Task& one, size_t span, size_t place) const {
    const uint32_t spans = one.tile->spans;
    if (span >= spans) return;
    scale_queries(one, queries_);
    attend(one, span, queries_, place);
    std::atomic<uint32_t>& done = run_.spans_done[place];
    if (done.fetch_add(1, std::memory_order_acq_rel) + 1 != spans) return;
    done.store(0, std::memory_order_relaxed);
    merge(one, place);
  }

  const StepRun& run_;
  Member& member_;
  const Attention& attention_;
  const AttentionPlan& plan_;
  const std::vector<TokenTile>& tiles_;
  const Rows query_;
  const Rows out_;
  uint8_t* const part_;
  AttentionPartial* partials_;
  float* partial_values_;
  float* queries_;
  size_t value_stride_;
};

}  // namespace

void run_attention(const StepRun& run, Member& member, const Attention& attention, const AttentionPlan& plan) {
  Attending(run, member, attention, plan).execute();
}

}  // namespace rocmforge
