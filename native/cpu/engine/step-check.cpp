// The check of a step as it comes from the bindings: no index is out of range, and no two rows write the same position.
// The same rules as the check in TypeScript, independent of it.

#include <limits>
#include <string>

#include "error.h"
#include "step.h"

namespace rocmforge {

namespace {

std::string text(size_t number) { return std::to_string(number); }

void require_length(const char* where, size_t expected, size_t found) {
  if (expected != found) refuse(where, text(expected) + " entries", text(found));
}

void check_tokens(const Program& program, const StepInput& step) {
  if (step.tokens.empty() || step.tokens.size() > program.max_tokens) {
    refuse("step.tokens", "1 to " + text(program.max_tokens) + " tokens", text(step.tokens.size()));
  }
  require_length("step.positions", step.tokens.size(), step.positions.size());
  for (size_t row = 0; row < step.tokens.size(); row++) {
    const int32_t token = step.tokens[row];
    if (token < 0 || static_cast<size_t>(token) >= program.vocabulary_size) {
      refuse("step.tokens[" + text(row) + "]", "an id below " + text(program.vocabulary_size), std::to_string(token));
    }
  }
}

/// Offsets of parts over `length` entries; parts are at least `least` long.
void check_offsets(const char* where, const std::vector<int32_t>& offsets, size_t length, int32_t least) {
  if (offsets.size() < 2 || offsets.front() != 0 ||
      static_cast<int64_t>(offsets.back()) != static_cast<int64_t>(length)) {
    refuse(where, "offsets from 0 to " + text(length),
           text(offsets.size()) + " entries" + (offsets.empty() ? "" : " up to " + std::to_string(offsets.back())));
  }
  for (size_t part = 0; part + 1 < offsets.size(); part++) {
    // A fall below the one before would make the difference negative; both are within 32 bits.
    if (static_cast<int64_t>(offsets[part + 1]) - offsets[part] < least) {
      refuse(std::string(where) + "[" + text(part + 1) + "]",
             "at least " + std::to_string(int64_t{offsets[part]} + least), std::to_string(offsets[part + 1]));
    }
  }
}

size_t index_of(int32_t number) { return static_cast<size_t>(number); }

/// Rising by one from 0 or more, and inside the context.
void check_positions(const Program& program, const StepInput& step, size_t start, size_t end) {
  const int64_t first = step.positions[start];
  for (size_t row = start; row < end; row++) {
    const int64_t expected = first + static_cast<int64_t>(row - start);
    const int64_t found = step.positions[row];
    if (found >= 0 && found == expected && found < static_cast<int64_t>(program.context_tokens)) continue;
    const std::string where = "step.positions[" + text(row) + "]";
    if (found < 0) refuse(where, "0 or more", std::to_string(found));
    if (found != expected) refuse(where, std::to_string(expected), std::to_string(found));
    refuse(where, "a position below " + text(program.context_tokens), std::to_string(found));
  }
}

int32_t first_position(const StepInput& step, size_t sequence) {
  return step.positions[index_of(step.sequence_offsets[sequence])];
}

int32_t last_position(const StepInput& step, size_t sequence) {
  return step.positions[index_of(step.sequence_offsets[sequence + 1]) - 1];
}

/// Blocks of a group for every position up to the last; those that no query sees have to be blocks, too.
void check_blocks(const KvOptions& cache, const StepInput& step, size_t group, size_t sequence) {
  const size_t table = step.table_of(group, sequence);
  const size_t start = index_of(step.table_offsets[table]);
  const size_t length = index_of(step.table_offsets[table + 1]) - start;
  const size_t used = index_of(last_position(step, sequence)) / cache.block_tokens + 1;
  const size_t blocks = cache.blocks_of(group);
  const std::string where = "step.blockTables of sequence " + text(sequence);
  if (length < used) refuse(where, "at least " + text(used) + " blocks", text(length));
  for (size_t index = 0; index < used; index++) {
    const int32_t block = step.block_tables[start + index];
    if (block < 0 || index_of(block) >= blocks) refuse(where, "blocks below " + text(blocks), std::to_string(block));
  }
}

/// A written block stands once in one table of its group: rows would overwrite each other, or read what is being
/// written. Blocks that no query sees any more may be another sequence's.
void check_writes(KvCache& cache, const StepInput& step, size_t group, const KvReach& reach) {
  const size_t block_tokens = cache.options().block_tokens;
  std::vector<uint32_t>& written_in = cache.written_in(group);
  const uint32_t number = cache.next_step_number();
  for (const bool written : {true, false}) {
    for (size_t sequence = 0; sequence < step.sequences(); sequence++) {
      const int32_t* table = step.block_tables.data() + step.table_offsets[step.table_of(group, sequence)];
      const size_t position = index_of(first_position(step, sequence));
      const size_t seen = reach.first_visible(position) / block_tokens;
      const size_t first = position / block_tokens;
      const size_t last = index_of(last_position(step, sequence)) / block_tokens + 1;
      for (size_t index = written ? first : seen; index < (written ? last : first); index++) {
        uint32_t& mark = written_in[index_of(table[index])];
        if (mark == number) {
          refuse("step.blockTables of sequence " + text(sequence),
                 written ? "a block of its own to write to" : "blocks that no sequence writes in this step",
                 "block " + std::to_string(table[index]));
        }
        if (written) mark = number;
      }
    }
  }
}

void check_cache(const Program& program, const KvCache* cache) {
  if (cache == nullptr) refuse("step.kvCache", "a KV cache", "none");
  const KvOptions& options = cache->options();
  const auto same = [](const char* where, size_t expected, size_t found) {
    if (expected != found) refuse(where, text(expected), text(found));
  };
  same("kvCache.layers", program.kv_layers.size(), options.layers.size());
  for (size_t layer = 0; layer < options.layers.size(); layer++) {
    same("kvCache.kvHeads", program.kv_layers[layer].kv_heads, options.layers[layer].kv_heads);
    same("kvCache.keyWidth", program.kv_layers[layer].key_width, options.layers[layer].key_width);
    same("kvCache.valueWidth", program.kv_layers[layer].value_width, options.layers[layer].value_width);
    same("kvCache.groups", program.kv_layers[layer].group, options.layers[layer].group);
  }
  same("kvCache.states", program.states.size(), options.states.size());
  for (size_t id = 0; id < options.states.size(); id++) same("kvCache.states", program.states[id], options.states[id]);
}

void check_output(const Program& program, const OutputRequest& output, const std::string& where) {
  if (output.want == Want::hidden) return;
  if (program.logits == kNone) refuse(where + ".want", "hidden, because this program computes no logits", "logits");
  if (output.want == Want::candidates && output.count < 1) refuse(where + ".count", "1 or more", "0");
  require_length((where + ".biasValues").c_str(), output.bias_ids.size(), output.bias_values.size());
  for (size_t index = 0; index < output.bias_ids.size(); index++) {
    const int32_t id = output.bias_ids[index];
    if (id < 0 || index_of(id) >= program.vocabulary_size) {
      refuse(where + ".biasIds", "ids below " + text(program.vocabulary_size), std::to_string(id));
    }
    // Minus infinity bans a token; NaN and plus infinity would make the whole row meaningless.
    if (!(output.bias_values[index] < std::numeric_limits<float>::infinity())) {
      refuse(where + ".biasValues", "numbers or -Infinity", std::to_string(output.bias_values[index]));
    }
  }
  if (output.masked)
    require_length((where + ".allowMask").c_str(), (program.vocabulary_size + 31) / 32, output.allow_mask.size());
}

}  // namespace

void check_step(const Program& program, KvCache* cache, const StepInput& step) {
  check_tokens(program, step);
  if (program.uses_kv || program.uses_states) {
    check_cache(program, cache);
    check_offsets("step.sequenceOffsets", step.sequence_offsets, step.tokens.size(), 1);
    for (size_t sequence = 0; sequence < step.sequences(); sequence++) {
      check_positions(program, step, index_of(step.sequence_offsets[sequence]),
                      index_of(step.sequence_offsets[sequence + 1]));
    }
  }
  if (program.uses_kv) {
    check_offsets("step.tableOffsets", step.table_offsets, step.block_tables.size(), 0);
    const size_t groups = cache->options().groups();
    if (step.table_offsets.size() != step.sequence_offsets.size())
      require_length("step.tableOffsets", groups * step.sequences() + 1, step.table_offsets.size());
    for (size_t group = 0; group < groups; group++) {
      for (size_t sequence = 0; sequence < step.sequences(); sequence++)
        check_blocks(cache->options(), step, group, sequence);
      check_writes(*cache, step, group, program.kv_groups[group]);
    }
  }
  if (program.uses_states) check_state_slots(*cache, step);
  if (step.outputs.size() > program.max_outputs) {
    refuse("step.outputs", "at most " + text(program.max_outputs) + " rows", text(step.outputs.size()));
  }
  for (size_t index = 0; index < step.outputs.size(); index++) {
    const OutputRequest& output = step.outputs[index];
    const std::string where = "step.outputs[" + text(index) + "]";
    const bool rising = index == 0 || output.row > step.outputs[index - 1].row;
    if (!rising || output.row >= step.tokens.size()) {
      refuse(where + ".row", "rising rows below " + text(step.tokens.size()), text(output.row));
    }
    check_output(program, output, where);
  }
}

}  // namespace rocmforge
