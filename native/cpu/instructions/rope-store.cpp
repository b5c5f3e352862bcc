// rope-store: rope of the queries and keys, which share everything but their heads, and the KV write, in one
// instruction.

#include "kv-store.h"
#include "rotation.h"

namespace rocmforge {

namespace {

struct RopeStore final : Instruction {
  size_t layer;
  Id query;
  size_t query_heads;
  Id query_out;
  Id key;
  size_t key_heads;
  Rotation rotation;
  Id value;

  explicit RopeStore(const Fields& fields)
      : layer(fields.count("layer")),
        query(fields.id("query")),
        query_heads(fields.count("queryHeads")),
        query_out(fields.id("queryOut")),
        key(fields.id("key")),
        key_heads(fields.count("keyHeads")),
        rotation(fields),
        value(fields.id("value")) {}

  void check(InstructionCheck& check) override {
    const KvLayerShape& shape = check.layer(layer);
    rotation.check(check);
    require_equal(check.path("headWidth"), shape.key_width, rotation.head_width);
    require_equal(check.path("keyHeads"), shape.kv_heads, key_heads);
    const Value& queries = check.value("query", query);
    check.require_rows("query", queries, RowKind::tokens);
    check.require_like("queryOut", queries, check.value("queryOut", query_out));
    check.require_heads("query", queries, query_heads, rotation.head_width);
    check.stored("key", key, shape.kv_heads, shape.key_width);
    check.stored("value", value, shape.kv_heads, shape.value_width);
    check.require_apart("queryOut", query_out, query);
    check.require_apart("queryOut", query_out, key);
    check.require_apart("queryOut", query_out, value);
  }

  /// A thread's part holds a rotated key before it is stored.
  std::unique_ptr<InstructionPlan> plan(const Program&, const StepSize&) const override {
    auto plan = std::make_unique<InstructionPlan>();
    plan->thread_bytes = rotation.head_width * sizeof(float);
    return plan;
  }

  void run(const StepRun& run, Member& member, const InstructionPlan*) const override {
    const Rows queries = run.rows(query);
    const Rows rotated_queries = run.rows(query_out);
    const Rows keys = run.rows(key);
    const Rows values = run.rows(value);
    const size_t width = rotation.head_width;
    float* const rotated_key = reinterpret_cast<float*>(run.thread_part(member));
    const size_t value_width = run.program.kv_layers[layer].value_width;
    const size_t tokens = queries.count;
    // Keys go head by head, so that a thread fills neighbouring tokens of one cell; queries go row by row.
    const auto store = [&](size_t head, size_t token) {
      if (token + kPrefetchRows < tokens) {
        prefetch_columns(keys.row(token + kPrefetchRows) + head * width, width);
        prefetch_columns(values.row(token + kPrefetchRows) + head * value_width, value_width);
      }
      rotation.rotate(run, token, keys.row(token) + head * width, rotated_key);
      store_head(run, layer, head, token, rotated_key, values.row(token) + head * value_width);
    };
    const auto rotate = [&](size_t unit) {
      const size_t token = unit / query_heads;
      const size_t column = unit % query_heads * width;
      rotation.rotate(run, token, queries.row(token) + column, rotated_queries.row(token) + column);
    };
    for_each_head(member, key_heads + query_heads, tokens, width, [&](size_t head, size_t token) {
      if (head < key_heads) {
        store(head, token);
      } else {
        rotate((head - key_heads) * tokens + token);
      }
    });
  }
};

const InstructionKind kRopeStore("rope-store", read_as<RopeStore>);

}  // namespace

}  // namespace rocmforge
