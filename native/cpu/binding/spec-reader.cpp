// One function per shape of the border.

#include "spec-reader.h"

#include <map>

#include "../engine/error.h"
#include "../engine/isa.h"

namespace rocmforge {

namespace {

/// Entries of any list of a program; the engine's own limits are narrower where they need to be.
constexpr size_t kMostEntries = size_t{1} << 20;

RowKind read_row_kind(const Reader& reader) {
  const std::string name = reader.string();
  if (name == "tokens") return RowKind::tokens;
  if (name == "outputs") return RowKind::outputs;
  if (name == "scored") return RowKind::scored;
  refuse(reader.where(), "tokens, outputs or scored", name);
}

size_t read_count(const Reader& object, const char* field) { return object.field(field).count(kMostWhole); }
Id read_id(const Reader& object, const char* field) { return object.field(field).id(); }
float read_float(const Reader& object, const char* field) { return static_cast<float>(object.field(field).number()); }

Turn read_turn(const Reader& from) {
  return {read_count(from, "headWidth"), read_count(from, "rotaryWidth"), from.field("adjacent").boolean(),
          read_id(from, "rope"), read_id(from, "factors")};
}

Instruction read_embed(const Reader& from) { return Embed{read_id(from, "weight"), read_id(from, "out")}; }

Instruction read_norm(const Reader& from) {
  return Norm{read_id(from, "input"), read_id(from, "weight"), read_count(from, "groupWidth"),
              read_float(from, "epsilon"), read_id(from, "out")};
}

Instruction read_project(const Reader& from) {
  Project project = {read_id(from, "input"),        read_id(from, "norm"),     read_float(from, "epsilon"), {},
                     from.field("gated").boolean(), read_id(from, "gatedOut"), read_id(from, "residual")};
  for (const Reader& product : from.field("products").entries(kMostEntries)) {
    project.products.push_back(
        {read_id(product, "weight"), read_id(product, "scale"), read_id(product, "bias"), read_id(product, "out")});
  }
  return project;
}

Instruction read_rotate(const Reader& from) {
  return Rotate{read_id(from, "input"), read_count(from, "heads"), read_turn(from), read_id(from, "out")};
}

Instruction read_kv_write(const Reader& from) {
  return KvWrite{read_count(from, "layer"), read_id(from, "key"), read_id(from, "value")};
}

Instruction read_attention(const Reader& from) {
  return Attention{read_count(from, "layer"),   read_id(from, "query"),       read_count(from, "heads"),
                   read_count(from, "kvHeads"), read_count(from, "keyWidth"), read_count(from, "valueWidth"),
                   read_float(from, "scale"),   read_id(from, "out")};
}

Instruction read_rotate_store(const Reader& from) {
  return RotateStore{read_count(from, "layer"), read_id(from, "query"), read_count(from, "queryHeads"),
                     read_id(from, "queryOut"), read_id(from, "key"),   read_count(from, "keyHeads"),
                     read_turn(from),           read_id(from, "value")};
}

Instruction read_swiglu(const Reader& from) {
  return Swiglu{read_id(from, "gate"), read_id(from, "up"), read_id(from, "out")};
}
Instruction read_add(const Reader& from) {
  return Add{read_id(from, "left"), read_id(from, "right"), read_id(from, "out")};
}
Instruction read_round(const Reader& from) { return RoundActivations{read_id(from, "input"), read_id(from, "out")}; }
Instruction read_select(const Reader& from) { return SelectRows{read_id(from, "input"), read_id(from, "out")}; }

Instruction read_instruction(const Reader& from) {
  using Read = Instruction (*)(const Reader&);
  static const std::map<std::string, Read> readers = {
      {"embed", read_embed},
      {"norm", read_norm},
      {"project", read_project},
      {"rope", read_rotate},
      {"kv-write", read_kv_write},
      {"attention", read_attention},
      {"rotate-store", read_rotate_store},
      {"swiglu", read_swiglu},
      {"add", read_add},
      {"select-rows", read_select},
      {"round-activations", read_round},
  };
  const std::string kind = from.field("kind").string();
  const auto found = readers.find(kind);
  if (found == readers.end()) refuse(from.where() + ".kind", "a kind of instruction", kind);
  return found->second(from);
}

void read_lists(const Reader& spec, Program& program) {
  for (const Reader& slot : spec.field("slots").entries(kMostEntries)) {
    program.slots.push_back({read_row_kind(slot.field("rows")), read_count(slot, "width")});
  }
  for (const Reader& value : spec.field("values").entries(kMostEntries)) {
    program.values.push_back({read_id(value, "slot"), read_count(value, "column"), read_count(value, "width"),
                              read_count(value, "stride"), read_row_kind(value.field("rows"))});
  }
  for (const Reader& weight : spec.field("weights").entries(kMostEntries)) {
    program.weights.push_back({static_cast<TensorType>(weight.field("type").count(UINT32_MAX)),
                               read_count(weight, "width"), read_count(weight, "rows")});
  }
  for (const Reader& rope : spec.field("ropes").entries(kMostEntries)) {
    program.ropes.push_back(
        {read_float(rope, "ratio"), rope.field("stretches").doubles(), rope.field("magnitude").number()});
  }
  for (const Reader& instruction : spec.field("instructions").entries(kMostEntries)) {
    program.instructions.push_back(read_instruction(instruction));
  }
}

Want read_want(const Reader& reader) {
  const std::string name = reader.string();
  if (name == "candidates") return Want::candidates;
  if (name == "logits") return Want::logits;
  if (name == "hidden") return Want::hidden;
  refuse(reader.where(), "candidates, logits or hidden", name);
}

OutputRequest read_output(const Reader& from) {
  OutputRequest output;
  output.row = read_count(from, "row");
  output.want = read_want(from.field("want"));
  output.count = read_count(from, "count");
  const Reader ids = from.field("biasIds");
  const Reader values = from.field("biasValues");
  if (!ids.is_undefined()) output.bias_ids = ids.int32s();
  if (!values.is_undefined()) output.bias_values = values.floats();
  const Reader mask = from.field("allowMask");
  output.masked = !mask.is_undefined();
  if (output.masked) output.allow_mask = mask.uint32s();
  return output;
}

}  // namespace

Program read_program(const Reader& spec) {
  Program program;
  const Reader isa = spec.field("isa");
  const std::string name = isa.string();
  program.kernels = find_kernel_table(name);
  if (program.kernels == nullptr) {
    std::string known;
    for (const KernelTable& table : kernel_tables()) known += (known.empty() ? "" : ", ") + std::string(table.name);
    refuse(isa.where(), "one of " + known, name);
  }
  program.threads = read_count(spec, "threads");
  program.deterministic = spec.field("deterministic").boolean();
  read_lists(spec, program);
  const Reader kv = spec.field("kv");
  program.layers = read_count(kv, "layers");
  program.kv_heads = read_count(kv, "kvHeads");
  program.key_width = read_count(kv, "keyWidth");
  program.value_width = read_count(kv, "valueWidth");
  program.vocabulary_size = read_count(spec, "vocabularySize");
  program.hidden = read_id(spec, "hidden");
  program.logits = read_id(spec, "logits");
  program.max_tokens = read_count(spec, "maxTokens");
  program.max_outputs = read_count(spec, "maxOutputs");
  program.context_tokens = read_count(spec, "contextTokens");
  return program;
}

KvOptions read_kv_options(const Reader& options) {
  KvOptions read;
  read.layers = read_count(options, "layers");
  read.kv_heads = read_count(options, "kvHeads");
  read.key_width = read_count(options, "keyWidth");
  read.value_width = read_count(options, "valueWidth");
  read.blocks = read_count(options, "blocks");
  read.block_tokens = read_count(options, "blockTokens");
  const Reader type = options.field("type");
  const std::string name = type.string();
  if (name == "f32") {
    read.type = KvType::f32;
  } else if (name == "f16") {
    read.type = KvType::f16;
  } else if (name == "q8_0") {
    read.type = KvType::q8_0;
  } else {
    refuse(type.where(), "f32, f16 or q8_0", name);
  }
  return read;
}

StepInput read_step(const Reader& step, const Program& program) {
  StepInput input;
  input.tokens = step.field("tokens").int32s();
  input.positions = step.field("positions").int32s();
  input.sequence_offsets = step.field("sequenceOffsets").int32s();
  input.block_tables = step.field("blockTables").int32s();
  input.table_offsets = step.field("tableOffsets").int32s();
  for (const Reader& output : step.field("outputs").entries(program.max_outputs))
    input.outputs.push_back(read_output(output));
  return input;
}

}  // namespace rocmforge
