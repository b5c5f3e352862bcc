// Sizes that decide how work is cut. Numbers of tokens and rows are bounded by the program check; sums over instructions
// and slots are checked here.

#include "layout.h"

#include <algorithm>

#include "error.h"

namespace rocmforge {

namespace {

constexpr size_t kAlignment = 64;
/// Up to this many tokens, streaming the weights row by row is bound by memory anyway.
constexpr size_t kMostRowTokens = kRowTokens;
/// Weights of one piece when they are streamed: enough that claiming costs nothing, little enough that a thread which
/// loses its core in the middle of one does not hold up the others for long.
constexpr size_t kLeastPieceBytes = size_t{16} << 10;
constexpr size_t kMostPieceBytes = size_t{512} << 10;
/// Weights of one piece that several groups of tokens go through: they stay in the second-level cache.
constexpr size_t kCachedPieceBytes = size_t{192} << 10;
constexpr size_t kRowGranule = 32;
constexpr size_t kSmallRowGranule = 8;
constexpr size_t kPanelGranule = 16;
/// With few groups of tokens memory decides, and a thread that goes on with the rows it has asked for waits less for it.
constexpr size_t kFewGroups = 8;
constexpr size_t kFewGroupsRows = 16 * kPanelRows;
constexpr size_t kTileTokens = 512;
/// Attention: partials that are kept at once, in all and by one thread.
constexpr size_t kMostPartialBytes = size_t{64} << 20;
constexpr size_t kThreadPartialBytes = size_t{256} << 10;
constexpr size_t kMostTilesTogether = 4;
/// With fewer tasks than this per thread, spans of one task are shared out.
constexpr size_t kTasksPerThread = 8;

/// Hands out 64-byte aligned ranges one after the other.
class Bump {
 public:
  size_t take(size_t size_bytes) {
    const size_t start = used_;
    const size_t end = checked_add(start, size_bytes, "scratch");
    used_ = checked_add(end, kAlignment - 1, "scratch") / kAlignment * kAlignment;
    return start;
  }
  size_t used() const { return used_; }

 private:
  size_t used_ = 0;
};

Pieces cut_rows(const ProjectPlan& plan, size_t unit_bytes) {
  if (plan.panels) return {kPanelGranule, kPanelGranule, plan.groups <= kFewGroups ? kFewGroupsRows : kPanelRows};
  const bool cached = plan.tokens > kMostRowTokens;
  const size_t most_bytes = cached ? kCachedPieceBytes : kMostPieceBytes;
  const size_t granule = kRowGranule * unit_bytes > most_bytes ? kSmallRowGranule : kRowGranule;
  const size_t smallest = cached ? granule : round_up(std::max<size_t>(1, kLeastPieceBytes / unit_bytes), granule);
  return {granule, smallest, std::max(smallest, most_bytes / unit_bytes / granule * granule)};
}

ProjectPlan plan_project(const Program& program, const Project& project, const StepSize& size) {
  const ProductKernels& kernels = *program.kernels->products;
  const Value& input = program.value(project.input);
  ProjectPlan plan;
  plan.tokens = size.rows[static_cast<size_t>(input.rows)];
  for (const Product& product : project.products)
    plan.uses[is_plain_float(program.weight(product.weight).type) ? kPackF32 : kPackQ8] = true;
  plan.panels = plan.tokens > (plan.uses[kPackQ8] ? kernels.most_row_tokens : kMostRowTokens) && !program.deterministic;
  plan.own_pack = plan.tokens == 1;
  const size_t group_tokens = plan.panels ? kernels.panel_tokens : 1;
  plan.groups = (plan.tokens + group_tokens - 1) / group_tokens;
  plan.tile_tokens =
      plan.panels ? std::min(plan.groups * group_tokens, round_up(kTileTokens, group_tokens)) : plan.tokens;

  size_t unit_bytes = 0;
  for (const Product& product : project.products) {
    const Weight& weight = program.weight(product.weight);
    plan.rows = project.gated ? weight.rows : plan.rows + weight.rows;
    unit_bytes = project.gated ? unit_bytes + weight.row_bytes : std::max(unit_bytes, weight.row_bytes);
  }
  plan.pieces = cut_rows(plan, unit_bytes);

  Bump thread;
  if (project.norm != kNone) plan.normed = thread.take(group_tokens * input.width * sizeof(float));
  for (size_t kind = 0; kind < kPackKinds; kind++) {
    if (!plan.uses[kind]) continue;
    plan.group_bytes[kind] = kernels.group_bytes(format_of(plan.panels, kind), input.width);
    if (plan.own_pack) plan.own_packed[kind] = thread.take(plan.group_bytes[kind]);
  }
  if (plan.panels) plan.product_scratch = thread.take(kernels.panel_scratch_bytes(input.width, plan.tile_tokens));
  if (project.gated) {
    const size_t most_rows = round_up(std::min(plan.pieces.largest, plan.rows), plan.pieces.granule);
    plan.up = thread.take(checked_multiply(plan.tile_tokens, most_rows * sizeof(float), "scratch"));
  }
  plan.thread_bytes = thread.used();
  return plan;
}

AttentionPlan plan_attention(const Program& program, const Attention& attention, const StepSize& size) {
  AttentionPlan plan;
  plan.group = attention.heads / attention.kv_heads;
  plan.chunk_heads = std::min(plan.group, kAttentionRows);
  plan.chunks = (plan.group + plan.chunk_heads - 1) / plan.chunk_heads;
  while (kTileSizes[plan.tile_kind] * plan.chunk_heads > kAttentionRows) plan.tile_kind++;
  plan.tiles = size.tiles[plan.tile_kind];
  plan.tasks = plan.tiles * attention.kv_heads * plan.chunks;
  plan.most_spans = std::max<size_t>(1, size.spans);
  plan.split = plan.most_spans > 1 && plan.tasks < kTasksPerThread * program.threads;

  const size_t value_bytes = round_up(attention.value_width, kKvPadding) * sizeof(float);
  const size_t task_partials = checked_multiply(kAttentionRows, plan.most_spans, "attention");
  const size_t task_bytes = checked_multiply(task_partials, value_bytes + sizeof(AttentionPartial), "attention");
  const size_t fitting = (plan.split ? kMostPartialBytes : kThreadPartialBytes) / task_bytes;
  const size_t wanted =
      plan.split ? plan.tasks : std::min(kMostTilesTogether, plan.tasks / (kTasksPerThread * program.threads));
  plan.together = std::clamp<size_t>(fitting, 1, std::max<size_t>(1, wanted));

  Bump thread;
  Bump shared;
  Bump& partials = plan.split ? shared : thread;
  const size_t tiles_at_once = plan.split ? 1 : plan.together;
  plan.queries = thread.take(tiles_at_once * kAttentionRows * attention.key_width * sizeof(float));
  plan.kernel_scratch = thread.take(program.kernels->rows->attention_scratch_bytes());
  plan.partials = partials.take(plan.together * task_partials * sizeof(AttentionPartial));
  plan.partial_values = partials.take(plan.together * task_partials * value_bytes);
  plan.thread_bytes = thread.used();
  plan.shared_bytes = shared.used();
  return plan;
}

}  // namespace

bool StepSize::operator==(const StepSize& other) const {
  return std::equal(rows, rows + kRowKinds, other.rows) && spans == other.spans &&
         std::equal(tiles, tiles + kTileKinds, other.tiles);
}

StepSize size_of(const Program& program, const StepInput& step) {
  StepSize size;
  size.of(RowKind::tokens) = step.tokens.size();
  size.of(RowKind::outputs) = step.outputs.size();
  for (const OutputRequest& output : step.outputs) {
    if (output.want != Want::hidden) size.of(RowKind::scored)++;
  }
  if (!program.uses_kv) return size;
  int32_t highest = 0;
  for (const int32_t position : step.positions) highest = std::max(highest, position);
  size.spans = static_cast<size_t>(highest) / kAttentionSpan + 1;
  for (size_t sequence = 0; sequence + 1 < step.sequence_offsets.size(); sequence++) {
    const size_t tokens = static_cast<size_t>(step.sequence_offsets[sequence + 1] - step.sequence_offsets[sequence]);
    for (size_t kind = 0; kind < kTileKinds; kind++)
      size.tiles[kind] += (tokens + kTileSizes[kind] - 1) / kTileSizes[kind];
  }
  return size;
}

StepSize largest_size(const Program& program, size_t tokens, size_t outputs, size_t scored) {
  StepSize size;
  size.of(RowKind::tokens) = tokens;
  size.of(RowKind::outputs) = outputs;
  size.of(RowKind::scored) = scored;
  if (!program.uses_kv) return size;
  size.spans = (program.context_tokens - 1) / kAttentionSpan + 1;
  for (size_t kind = 0; kind < kTileKinds; kind++) size.tiles[kind] = tokens;
  return size;
}

size_t longest_pieces_tokens(const Program& program) { return kFewGroups * program.kernels->products->panel_tokens; }

StepLayout plan_layout(const Program& program, const StepSize& size) {
  StepLayout layout;
  Bump arena;
  for (const Slot& slot : program.slots) {
    const size_t floats = checked_multiply(slot.width, size.of(slot.rows), "scratch");
    layout.slots.push_back(arena.take(checked_multiply(floats, sizeof(float), "scratch")));
  }
  for (const AnglesKey& angles : program.angles) {
    layout.angles.push_back(
        arena.take(checked_multiply(size.of(RowKind::tokens), angles.pairs * 2 * sizeof(float), "scratch")));
  }
  layout.projects.resize(program.instructions.size());
  layout.attentions.resize(program.instructions.size());
  size_t packed_bytes[kPackKinds] = {0, 0};
  size_t attention_bytes = 0;
  // A key that has been turned, on its way into the cache.
  size_t thread_bytes = round_up(program.key_width * sizeof(float), kAlignment);
  for (size_t index = 0; index < program.instructions.size(); index++) {
    if (const Project* project = std::get_if<Project>(&program.instructions[index])) {
      const ProjectPlan& plan = layout.projects[index] = plan_project(program, *project, size);
      thread_bytes = std::max(thread_bytes, plan.thread_bytes);
      for (size_t kind = 0; kind < kPackKinds && !plan.own_pack; kind++) {
        packed_bytes[kind] =
            std::max(packed_bytes[kind], checked_multiply(plan.groups, plan.group_bytes[kind], "scratch"));
      }
    } else if (const Attention* attention = std::get_if<Attention>(&program.instructions[index])) {
      const AttentionPlan& plan = layout.attentions[index] = plan_attention(program, *attention, size);
      thread_bytes = std::max(thread_bytes, plan.thread_bytes);
      attention_bytes = std::max(attention_bytes, plan.shared_bytes);
    }
  }
  for (size_t kind = 0; kind < kPackKinds; kind++) layout.packed[kind] = arena.take(packed_bytes[kind]);
  layout.attention = arena.take(attention_bytes);
  layout.thread_bytes = thread_bytes;
  layout.threads = arena.take(checked_multiply(thread_bytes, program.threads, "scratch"));
  layout.size_bytes = arena.used();
  return layout;
}

}  // namespace rocmforge
