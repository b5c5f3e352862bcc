// The check of one instruction: every id it names, every width it implies. Outputs may not lie where other threads still
// read while they are written.

#include <cmath>
#include <string>

#include "program-limits.h"

namespace rocmforge {

namespace {

/// One instruction's own check: `at` names it in messages.
class InstructionCheck {
 public:
  InstructionCheck(Program& program, size_t index, const char* kind)
      : program_(program), at_("instructions[" + text(index) + "] " + kind) {}

  void operator()(Embed& embed) {
    const Value& out = value("out", embed.out);
    const Weight& table = matrix("weight", embed.weight);
    require_rows("out", out, RowKind::tokens);
    require_equal(at_ + ".weight width", out.width, table.width);
    require_equal(at_ + ".weight rows", program_.vocabulary_size, table.rows);
  }

  void operator()(Norm& norm) {
    const Value& input = value("input", norm.input);
    const Value& out = value("out", norm.out);
    require_like("out", input, out);
    require_range(at_ + ".groupWidth", norm.group_width, 1, input.width);
    if (input.width % norm.group_width != 0)
      refuse(at_ + ".groupWidth", "a divisor of " + text(input.width), text(norm.group_width));
    require_range(at_ + ".groupWidth groups", input.width / norm.group_width, 1, kMostHeads);
    vector("weight", norm.weight, norm.group_width);
    require_epsilon(norm.epsilon);
    require_apart("out", norm.out, norm.input);
  }

  void operator()(Project& project) {
    const Value& input = value("input", project.input);
    if (project.norm != kNone) {
      vector("norm", project.norm, input.width);
      require_epsilon(project.epsilon);
    }
    require_range(at_ + ".products", project.products.size(), 1, kMostProducts);
    if (project.gated) require_equal(at_ + ".products of a gated one", 2, project.products.size());
    size_t rows = 0;
    for (const Product& product : project.products) rows += check_product(project, input, product);
    require_range(at_ + ".products rows in all", rows, 1, kWidest);
    if (project.gated) check_gated(project, input);
    if (!project.gated && project.gated_out != kNone)
      refuse(at_ + ".gatedOut", "-1", std::to_string(project.gated_out));
    if (project.residual != kNone) check_residual(project, input);
    for (size_t left = 0; !project.gated && left < project.products.size(); left++) {
      for (size_t right = 0; right < left; right++) {
        require_apart("products.out", project.products[left].out, project.products[right].out);
      }
    }
  }

  void operator()(Rotate& rotate) {
    const Value& input = value("input", rotate.input);
    const Value& out = value("out", rotate.out);
    require_rows("input", input, RowKind::tokens);
    require_like("out", input, out);
    check_turn(rotate.turn);
    check_heads("input", input, rotate.heads, rotate.turn.head_width);
    require_apart("out", rotate.out, rotate.input);
  }

  void operator()(KvWrite& write) {
    check_layer(write.layer);
    check_stored("key", write.key, program_.key_width);
    check_stored("value", write.value, program_.value_width);
  }

  void operator()(Attention& attention) {
    check_layer(attention.layer);
    require_equal(at_ + ".kvHeads", program_.kv_heads, attention.kv_heads);
    require_equal(at_ + ".keyWidth", program_.key_width, attention.key_width);
    require_equal(at_ + ".valueWidth", program_.value_width, attention.value_width);
    const Value& query = value("query", attention.query);
    const Value& out = value("out", attention.out);
    require_rows("query", query, RowKind::tokens);
    require_rows("out", out, RowKind::tokens);
    check_heads("query", query, attention.heads, attention.key_width);
    check_heads("out", out, attention.heads, attention.value_width);
    if (attention.heads % attention.kv_heads != 0) {
      refuse(at_ + ".heads", "a multiple of " + text(attention.kv_heads), text(attention.heads));
    }
    if (!std::isfinite(attention.scale)) refuse(at_ + ".scale", "a finite number", std::to_string(attention.scale));
    require_apart("out", attention.out, attention.query);
  }

  void operator()(RotateStore& store) {
    check_layer(store.layer);
    check_turn(store.turn);
    require_equal(at_ + ".headWidth", program_.key_width, store.turn.head_width);
    require_equal(at_ + ".keyHeads", program_.kv_heads, store.key_heads);
    const Value& query = value("query", store.query);
    require_rows("query", query, RowKind::tokens);
    require_like("queryOut", query, value("queryOut", store.query_out));
    check_heads("query", query, store.query_heads, store.turn.head_width);
    check_stored("key", store.key, program_.key_width);
    check_stored("value", store.value, program_.value_width);
    require_apart("queryOut", store.query_out, store.query);
    require_apart("queryOut", store.query_out, store.key);
    require_apart("queryOut", store.query_out, store.value);
  }

  void operator()(Swiglu& swiglu) {
    const Value& out = value("out", swiglu.out);
    require_like("gate", out, value("gate", swiglu.gate));
    require_like("up", out, value("up", swiglu.up));
    require_apart("out", swiglu.out, swiglu.gate);
    require_apart("out", swiglu.out, swiglu.up);
  }

  void operator()(Add& add) {
    const Value& out = value("out", add.out);
    require_like("left", out, value("left", add.left));
    require_like("right", out, value("right", add.right));
    require_apart("out", add.out, add.left);
    require_apart("out", add.out, add.right);
  }

  void operator()(RoundActivations& round) {
    require_like("out", value("input", round.input), value("out", round.out));
    require_apart("out", round.out, round.input);
  }

  void operator()(SelectRows& select) {
    const Value& input = value("input", select.input);
    const Value& out = value("out", select.out);
    if (out.rows == RowKind::tokens) refuse(at_ + ".out rows", "outputs or scored", "tokens");
    require_rows("input", input, out.rows == RowKind::outputs ? RowKind::tokens : RowKind::outputs);
    require_equal(at_ + ".out width", input.width, out.width);
  }

 private:
  const Value& value(const char* field, Id id) const {
    if (id < 0 || static_cast<size_t>(id) >= program_.values.size()) {
      refuse(at_ + "." + field, "a value below " + text(program_.values.size()), std::to_string(id));
    }
    const Value& found = program_.value(id);
    if (found.slot == kNone)
      refuse(at_ + "." + field, "a value with memory", "value " + std::to_string(id) + " without a slot");
    return found;
  }

  const Weight& matrix(const char* field, Id id) const {
    if (id < 0 || static_cast<size_t>(id) >= program_.weights.size()) {
      refuse(at_ + "." + field, "a weight below " + text(program_.weights.size()), std::to_string(id));
    }
    return program_.weight(id);
  }

  void vector(const char* field, Id id, size_t width) {
    const Weight& found = matrix(field, id);
    if (!is_plain_float(found.type)) {
      refuse(at_ + "." + field, "plain floats", "type " + text(static_cast<size_t>(found.type)));
    }
    require_equal(at_ + "." + field + " rows", 1, found.rows);
    require_equal(at_ + "." + field + " width", width, found.width);
    program_.is_vector[static_cast<size_t>(id)] = true;
  }

  void require_rows(const char* field, const Value& found, RowKind expected) const {
    if (found.rows != expected) refuse(at_ + "." + field + " rows", row_kind_name(expected), row_kind_name(found.rows));
  }

  void require_like(const char* field, const Value& expected, const Value& found) const {
    require_rows(field, found, expected.rows);
    require_equal(at_ + "." + field + " width", expected.width, found.width);
  }

  void require_epsilon(float epsilon) const {
    if (!(epsilon >= 0 && std::isfinite(epsilon))) refuse(at_ + ".epsilon", "0 or more", std::to_string(epsilon));
  }

  /// Threads write one while others still read the other.
  void require_apart(const char* field, Id written, Id other) const {
    const Value& left = program_.value(written);
    const Value& right = program_.value(other);
    if (left.slot != right.slot) return;
    const bool beside = left.stride == right.stride &&
                        (left.column + left.width <= right.column || right.column + right.width <= left.column);
    if (!beside) {
      refuse(at_ + "." + field, "memory that the instruction does not use otherwise",
             "value " + std::to_string(written) + " over value " + std::to_string(other));
    }
  }

  size_t check_product(const Project& project, const Value& input, const Product& product) {
    const Weight& weight = matrix("products.weight", product.weight);
    require_equal(at_ + ".products.weight width", input.width, weight.width);
    if (product.scale != kNone) vector("products.scale", product.scale, 1);
    if (product.bias != kNone) vector("products.bias", product.bias, weight.rows);
    if (project.gated) {
      if (product.out != kNone) refuse(at_ + ".products.out", "-1 where gated", std::to_string(product.out));
      return weight.rows;
    }
    const Value& out = value("products.out", product.out);
    require_rows("products.out", out, input.rows);
    require_equal(at_ + ".products.out width", weight.rows, out.width);
    require_apart("products.out", product.out, project.input);
    return weight.rows;
  }

  void check_gated(const Project& project, const Value& input) const {
    const size_t rows = program_.weight(project.products[0].weight).rows;
    require_equal(at_ + ".products[1] rows", rows, program_.weight(project.products[1].weight).rows);
    const Value& out = value("gatedOut", project.gated_out);
    require_rows("gatedOut", out, input.rows);
    require_equal(at_ + ".gatedOut width", rows, out.width);
    require_apart("gatedOut", project.gated_out, project.input);
  }

  void check_residual(const Project& project, const Value& input) const {
    const Value& residual = value("residual", project.residual);
    require_rows("residual", residual, input.rows);
    if (project.gated) refuse(at_ + ".residual", "-1 where gated", std::to_string(project.residual));
    require_equal(at_ + ".products with a residual", 1, project.products.size());
    const Id out = project.products[0].out;
    require_equal(at_ + ".residual width", program_.value(out).width, residual.width);
    require_apart("products.out", out, project.residual);
  }

  void check_turn(Turn& turn) {
    require_range(at_ + ".headWidth", turn.head_width, 1, kWidest);
    require_range(at_ + ".rotaryWidth", turn.rotary_width, 2, turn.head_width);
    if (turn.rotary_width % 2 != 0) refuse(at_ + ".rotaryWidth", "an even number", text(turn.rotary_width));
    if (turn.rope < 0 || static_cast<size_t>(turn.rope) >= program_.ropes.size()) {
      refuse(at_ + ".rope", "a rope below " + text(program_.ropes.size()), std::to_string(turn.rope));
    }
    const size_t pairs = turn.rotary_width / 2;
    require_equal(at_ + ".rope stretches", pairs, program_.ropes[static_cast<size_t>(turn.rope)].stretches.size());
    if (turn.factors != kNone) vector("factors", turn.factors, pairs);
    turn.angles = 0;
    while (turn.angles < program_.angles.size() &&
           (program_.angles[turn.angles].rope != turn.rope || program_.angles[turn.angles].factors != turn.factors)) {
      turn.angles++;
    }
    if (turn.angles < program_.angles.size()) return;
    if (turn.angles == kMostAngles)
      refuse(at_ + ".factors", "at most " + text(kMostAngles) + " tables of angles", "more");
    program_.angles.push_back({turn.rope, turn.factors, pairs});
  }

  void check_heads(const char* field, const Value& found, size_t heads, size_t width) const {
    require_range(at_ + ".heads", heads, 1, kMostHeads);
    require_equal(at_ + "." + field + " width", heads * width, found.width);
  }

  void check_layer(size_t layer) {
    if (layer >= program_.layers) refuse(at_ + ".layer", "a layer below " + text(program_.layers), text(layer));
    require_range("kv.kvHeads", program_.kv_heads, 1, kMostHeads);
    require_range("kv.keyWidth", program_.key_width, 1, kMostTokens);
    require_range("kv.valueWidth", program_.value_width, 1, kMostTokens);
    program_.uses_kv = true;
  }

  void check_stored(const char* field, Id id, size_t head_width) const {
    const Value& found = value(field, id);
    require_rows(field, found, RowKind::tokens);
    require_equal(at_ + "." + field + " width", program_.kv_heads * head_width, found.width);
  }

  Program& program_;
  std::string at_;
};

}  // namespace

void check_instruction(Program& program, size_t index) {
  Instruction& instruction = program.instructions[index];
  std::visit(InstructionCheck(program, index, kInstructionKinds[instruction.index()]), instruction);
}

}  // namespace rocmforge
