// How a step of a given size uses scratch memory and cuts its work, decided before it runs. Offsets are bytes from the
// start of the program's arena; every thread has a part of its own, which instructions use one after the other.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "program.h"
#include "step.h"
#include "team.h"

namespace rocmforge {

/// Tiles of 8, 4, 2 and 1 tokens: what fits kAttentionRows for 1, 2, 3 or 4, and more query heads per KV head.
constexpr size_t kTileSizes[] = {8, 4, 2, 1};
constexpr size_t kTileKinds = 4;
static_assert(kTileSizes[0] == kAttentionRows);

/// All that the layout of a step depends on.
struct StepSize {
  size_t rows[kRowKinds] = {0, 0, 0};
  /// Spans of positions that the longest sequence has.
  size_t spans = 0;
  /// How many tiles of each size the sequences come to.
  size_t tiles[kTileKinds] = {0, 0, 0, 0};

  size_t& of(RowKind kind) { return rows[static_cast<size_t>(kind)]; }
  size_t of(RowKind kind) const { return rows[static_cast<size_t>(kind)]; }
  bool operator==(const StepSize& other) const;
};

/// The two ways activations are packed: for quantised weights and for plain floats.
enum PackIndex : size_t { kPackQ8 = 0, kPackF32 = 1 };
constexpr size_t kPackKinds = 2;

inline PackFormat format_of(bool panels, size_t kind) {
  if (kind == kPackQ8) return panels ? PackFormat::q8_panels : PackFormat::q8_rows;
  return panels ? PackFormat::f32_panels : PackFormat::f32_rows;
}

struct ProjectPlan {
  size_t tokens = 0;
  bool panels = false;
  /// Every thread packs for itself, because that takes less time than handing over.
  bool own_pack = false;
  bool uses[kPackKinds] = {false, false};
  size_t groups = 0;
  size_t group_bytes[kPackKinds] = {0, 0};
  /// Weight rows of all products one after the other; of one product when gated.
  size_t rows = 0;
  Pieces pieces;
  /// Tokens that go through a piece of panels at once, so that a thread's part stays small.
  size_t tile_tokens = 0;
  /// Offsets in a thread's part.
  size_t normed = 0;
  size_t own_packed[kPackKinds] = {0, 0};
  size_t product_scratch = 0;
  size_t up = 0;
  size_t thread_bytes = 0;
};

/// Consecutive tokens of one sequence whose queries attend together.
struct TokenTile {
  uint32_t sequence;
  uint32_t first_token;
  uint32_t tokens;
  /// Spans that the last of them sees.
  uint32_t spans;
};

struct AttentionPlan {
  /// Query heads of one KV head, the number of pieces they are cut into, and the heads in a piece.
  size_t group = 0;
  size_t chunks = 0;
  size_t chunk_heads = 0;
  /// Which of kTileSizes, and how many there are of them.
  size_t tile_kind = 0;
  size_t tiles = 0;
  /// Tiles × KV heads × chunks.
  size_t tasks = 0;
  size_t most_spans = 0;
  /// Spans of one task go to several threads; partials then lie in the arena instead of a thread's part.
  bool split = false;
  /// Tasks whose partials are kept at once (split), or tiles that a thread takes together (not split).
  size_t together = 1;
  /// Offsets in a thread's part; in the arena for the partials when split.
  size_t queries = 0;
  size_t kernel_scratch = 0;
  size_t partials = 0;
  size_t partial_values = 0;
  size_t thread_bytes = 0;
  size_t shared_bytes = 0;
};

struct StepLayout {
  std::vector<size_t> slots;
  size_t packed[kPackKinds] = {0, 0};
  std::vector<size_t> angles;
  size_t attention = 0;
  size_t threads = 0;
  size_t thread_bytes = 0;
  size_t size_bytes = 0;
  /// By instruction; empty plans for other kinds.
  std::vector<ProjectPlan> projects;
  std::vector<AttentionPlan> attentions;
};

StepSize size_of(const Program& program, const StepInput& step);
/// The most that a step of so many tokens can come to: at the end of the context, each token a sequence of its own.
StepSize largest_size(const Program& program, size_t tokens, size_t outputs, size_t scored);

/// The most tokens whose products are cut into the longest pieces.
size_t longest_pieces_tokens(const Program& program);

/// Throws `memory` for sizes beyond any machine.
StepLayout plan_layout(const Program& program, const StepSize& size);

}  // namespace rocmforge
