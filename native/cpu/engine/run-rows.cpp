// The instructions that work on each row by itself, and the way of keys and values into the cache.

#include <cmath>
#include <cstring>

#include "step-run.h"

namespace rocmforge {

namespace {

/// Work by (head, token), heads outermost: a thread then fills neighbouring tokens of one cell.
template <typename Work>
void for_each_head(Member& member, size_t heads, size_t tokens, size_t head_width, Work&& work) {
  const Pieces pieces = {1, 1 + 256 / (head_width + 1), SIZE_MAX};
  member.phase(heads * tokens, pieces, [&](size_t first, size_t end) {
    for (size_t unit = first; unit < end; unit++) work(unit / tokens, unit % tokens);
  });
}

void rope_head(const StepRun& run, const Turn& turn, size_t token, const float* input, float* out) {
  const size_t pairs = turn.rotary_width / 2;
  const float* cosines = reinterpret_cast<const float*>(run.arena + run.layout.angles[turn.angles]) + token * 2 * pairs;
  run.row_kernels().rope(input, cosines, cosines + pairs, pairs, turn.head_width, turn.adjacent, out);
}

void store_head(const StepRun& run, size_t layer, size_t head, size_t token, const float* key, const float* value) {
  const size_t block_tokens = run.cache->options().block_tokens;
  const size_t position = static_cast<size_t>(run.step.positions[token]);
  const size_t block = static_cast<size_t>(run.block_table(run.sequence_of[token])[position / block_tokens]);
  const KvStore store = {&run.cache->cell(), run.cache->cells(layer, head) + block * run.cache->block_stride(),
                         position % block_tokens, key, value};
  run.row_kernels().store_kv(store);
}

}  // namespace

/// Angles as graph/rope-angles.ts computes them: multiplied up in f32 from pair to pair, cosine and sine in double.
void run_angles(const StepRun& run, Member& member) {
  for (size_t table = 0; table < run.program.angles.size(); table++) {
    const AnglesKey& key = run.program.angles[table];
    const Rope& rope = run.program.ropes[static_cast<size_t>(key.rope)];
    const float* factors = run.weights.vector(key.factors);
    float* const angles = reinterpret_cast<float*>(run.arena + run.layout.angles[table]);
    member.phase(run.step.tokens.size(), {1, 4, SIZE_MAX}, [&](size_t first, size_t end) {
      for (size_t token = first; token < end; token++) {
        float* const cosines = angles + token * 2 * key.pairs;
        float* const sines = cosines + key.pairs;
        double turned = run.step.positions[token];
        for (size_t pair = 0; pair < key.pairs; pair++) {
          const double factor = factors == nullptr ? 1 : factors[pair];
          const double angle = static_cast<float>(turned / factor) * rope.stretches[pair];
          cosines[pair] = static_cast<float>(std::cos(angle) * rope.magnitude);
          sines[pair] = static_cast<float>(std::sin(angle) * rope.magnitude);
          turned = static_cast<float>(turned * rope.ratio);
        }
      }
    });
  }
}

void run_embed(const StepRun& run, Member& member, const Embed& embed) {
  const Rows out = run.rows(embed.out);
  const Matrix& table = run.weights.matrix(embed.weight);
  member.phase(out.count, pieces_of(out.width), [&](size_t first, size_t end) {
    for (size_t row = first; row < end; row++) {
      const size_t token = static_cast<size_t>(run.step.tokens[row]);
      run.product_kernels().decode_row(table.type, table.data + token * table.row_bytes, table.width, out.row(row));
    }
  });
}

void run_norm(const StepRun& run, Member& member, const Norm& norm) {
  const Rows input = run.rows(norm.input);
  const Rows out = run.rows(norm.out);
  const float* weight = run.weights.vector(norm.weight);
  const size_t groups = input.width / norm.group_width;
  member.phase(input.count * groups, pieces_of(norm.group_width), [&](size_t first, size_t end) {
    for (size_t unit = first; unit < end; unit++) {
      const size_t column = unit % groups * norm.group_width;
      const size_t row = unit / groups;
      run.row_kernels().rms_norm(input.row(row) + column, weight, norm.group_width, norm.epsilon,
                                 out.row(row) + column);
    }
  });
}

void run_rotate(const StepRun& run, Member& member, const Rotate& rotate) {
  const Rows input = run.rows(rotate.input);
  const Rows out = run.rows(rotate.out);
  const size_t width = rotate.turn.head_width;
  for_each_head(member, rotate.heads, input.count, width, [&](size_t head, size_t token) {
    rope_head(run, rotate.turn, token, input.row(token) + head * width, out.row(token) + head * width);
  });
}

void run_kv_write(const StepRun& run, Member& member, const KvWrite& write) {
  const Rows key = run.rows(write.key);
  const Rows value = run.rows(write.value);
  const Program& program = run.program;
  for_each_head(member, program.kv_heads, key.count, program.key_width, [&](size_t head, size_t token) {
    store_head(run, write.layer, head, token, key.row(token) + head * program.key_width,
               value.row(token) + head * program.value_width);
  });
}

void run_rotate_store(const StepRun& run, Member& member, const RotateStore& store) {
  const Rows query = run.rows(store.query);
  const Rows query_out = run.rows(store.query_out);
  const Rows key = run.rows(store.key);
  const Rows value = run.rows(store.value);
  const size_t width = store.turn.head_width;
  float* const turned = reinterpret_cast<float*>(run.thread_part(member));
  for_each_head(member, store.key_heads + store.query_heads, query.count, width, [&](size_t unit, size_t token) {
    if (unit < store.key_heads) {
      rope_head(run, store.turn, token, key.row(token) + unit * width, turned);
      store_head(run, store.layer, unit, token, turned, value.row(token) + unit * run.program.value_width);
    } else {
      const size_t column = (unit - store.key_heads) * width;
      rope_head(run, store.turn, token, query.row(token) + column, query_out.row(token) + column);
    }
  });
}

void run_swiglu(const StepRun& run, Member& member, const Swiglu& swiglu) {
  const Rows gate = run.rows(swiglu.gate);
  const Rows up = run.rows(swiglu.up);
  const Rows out = run.rows(swiglu.out);
  member.phase(out.count, pieces_of(out.width), [&](size_t first, size_t end) {
    for (size_t row = first; row < end; row++)
      run.row_kernels().swiglu(gate.row(row), up.row(row), out.width, out.row(row));
  });
}

void run_add(const StepRun& run, Member& member, const Add& add) {
  const Rows left = run.rows(add.left);
  const Rows right = run.rows(add.right);
  const Rows out = run.rows(add.out);
  member.phase(out.count, pieces_of(out.width), [&](size_t first, size_t end) {
    for (size_t row = first; row < end; row++)
      run.row_kernels().add(left.row(row), right.row(row), out.width, out.row(row));
  });
}

void run_round(const StepRun& run, Member& member, const RoundActivations& round) {
  const Rows input = run.rows(round.input);
  const Rows out = run.rows(round.out);
  member.phase(out.count, pieces_of(out.width), [&](size_t first, size_t end) {
    for (size_t row = first; row < end; row++)
      run.row_kernels().round_activations(input.row(row), out.width, out.row(row));
  });
}

void run_select(const StepRun& run, Member& member, const SelectRows& select) {
  const Rows input = run.rows(select.input);
  const Rows out = run.rows(select.out);
  const bool scored = run.program.value(select.out).rows == RowKind::scored;
  const std::vector<size_t>& kept = scored ? run.scored_rows : run.output_rows;
  member.phase(out.count, pieces_of(out.width), [&](size_t first, size_t end) {
    for (size_t row = first; row < end; row++)
      std::memcpy(out.row(row), input.row(kept[row]), out.width * sizeof(float));
  });
}

}  // namespace rocmforge
