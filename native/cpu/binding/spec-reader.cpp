// One function per shape of index.d.ts; instructions read themselves (instructions/).

#include "spec-reader.h"

#include "../engine/error.h"
#include "../engine/fields.h"
#include "../engine/isa.h"

namespace rocmforge {

namespace {

/// Entries of any list of a program; the engine's own limits are narrower where they need to be.
constexpr size_t kMaxEntries = size_t{1} << 20;
constexpr size_t kMaxKvLayers = 65536;

RowKind read_row_kind(const Reader& reader) {
  const std::string name = reader.string();
  if (name == "tokens") return RowKind::tokens;
  if (name == "outputs") return RowKind::outputs;
  if (name == "scored") return RowKind::scored;
  refuse(reader.where(), "tokens, outputs or scored", name);
}

size_t read_count(const Reader& object, const char* field) { return object.field(field).count(kMaxWhole); }
Id read_id(const Reader& object, const char* field) { return object.field(field).id(); }
float read_float(const Reader& object, const char* field) { return static_cast<float>(object.field(field).number()); }

/// The fields of an instruction in a JavaScript object.
class ObjectFields final : public Fields {
 public:
  explicit ObjectFields(const Reader& object) : object_(object) {}

  bool has(const char* name) const override { return !object_.field(name).is_undefined(); }
  size_t count(const char* name) const override { return read_count(object_, name); }
  Id id(const char* name) const override { return read_id(object_, name); }
  float number(const char* name) const override { return read_float(object_, name); }
  bool flag(const char* name) const override { return object_.field(name).boolean(); }
  std::string text(const char* name) const override { return object_.field(name).string(); }
  void each(const char* name, const std::function<void(const Fields&)>& visit) const override {
    for (const Reader& entry : object_.field(name).entries(kMaxEntries)) visit(ObjectFields(entry));
  }
  std::string path(const char* name) const override { return object_.where() + "." + name; }

 private:
  const Reader& object_;
};

KvLayerShape read_kv_layer(const Reader& shape) {
  return {read_count(shape, "kvHeads"), read_count(shape, "keyWidth"), read_count(shape, "valueWidth"), 0};
}

/// How far back queries see each cache group; gives each layer its group, which it has exactly once.
std::vector<KvReach> read_kv_groups(const Reader& shape, std::vector<KvLayerShape>& layers) {
  const Reader groups = shape.field("groups");
  if (groups.is_undefined()) return {KvReach{}};
  std::vector<KvReach> reaches;
  std::vector<bool> known(layers.size(), false);
  const auto limit = [](const Reader& field) { return field.is_undefined() ? SIZE_MAX : field.count(kMaxWhole); };
  for (const Reader& group : groups.entries(kMaxKvLayers)) {
    for (const Reader& entry : group.field("layers").entries(kMaxKvLayers)) {
      const size_t layer = entry.count(kMaxKvLayers);
      if (layer >= layers.size() || known[layer])
        refuse(entry.where(), "a layer below " + std::to_string(layers.size()) + " of no other group",
               std::to_string(layer));
      known[layer] = true;
      layers[layer].group = reaches.size();
    }
    reaches.push_back({limit(group.field("window")), limit(group.field("chunk"))});
  }
  for (size_t layer = 0; layer < layers.size(); layer++) {
    if (!known[layer]) refuse(groups.where(), "a group of every layer", "none of layer " + std::to_string(layer));
  }
  return reaches;
}

/// The shape of each layer: those of `byLayer`, or `layers` times the same.
std::vector<KvLayerShape> read_kv_layers(const Reader& shape) {
  const size_t count = shape.field("layers").count(kMaxKvLayers);
  const Reader by_layer = shape.field("byLayer");
  if (by_layer.is_undefined()) return std::vector<KvLayerShape>(count, read_kv_layer(shape));
  std::vector<KvLayerShape> layers;
  for (const Reader& layer : by_layer.entries(kMaxKvLayers)) layers.push_back(read_kv_layer(layer));
  if (layers.size() != count)
    refuse(by_layer.where(), std::to_string(count) + " layers", std::to_string(layers.size()));
  return layers;
}

/// Elements of each recurrent state; none if the field is absent.
std::vector<size_t> read_states(const Reader& shape) {
  std::vector<size_t> elements;
  const Reader states = shape.field("states");
  if (states.is_undefined()) return elements;
  for (const Reader& state : states.entries(kMaxKvLayers)) elements.push_back(state.count(kMaxWhole));
  return elements;
}

void read_lists(const Reader& spec, Program& program) {
  for (const Reader& slot : spec.field("slots").entries(kMaxEntries)) {
    program.slots.push_back({read_row_kind(slot.field("rows")), read_count(slot, "width")});
  }
  for (const Reader& value : spec.field("values").entries(kMaxEntries)) {
    program.values.push_back({read_id(value, "slot"), read_count(value, "column"), read_count(value, "width"),
                              read_count(value, "stride"), read_row_kind(value.field("rows"))});
  }
  for (const Reader& weight : spec.field("weights").entries(kMaxEntries)) {
    program.weights.push_back({static_cast<TensorType>(weight.field("type").count(UINT32_MAX)),
                               read_count(weight, "width"), read_count(weight, "rows")});
  }
  for (const Reader& rope : spec.field("ropes").entries(kMaxEntries)) {
    program.ropes.push_back(
        {read_float(rope, "ratio"), rope.field("stretches").doubles(), rope.field("magnitude").number()});
  }
  for (const Reader& instruction : spec.field("instructions").entries(kMaxEntries)) {
    program.instructions.push_back(read_instruction(ObjectFields(instruction)));
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
  program.kv_layers = read_kv_layers(kv);
  program.kv_groups = read_kv_groups(kv, program.kv_layers);
  program.states = read_states(kv);
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
  read.layers = read_kv_layers(options);
  read_kv_groups(options, read.layers);
  read.states = read_states(options);
  const Reader slots = options.field("stateSlots");
  if (!slots.is_undefined()) read.state_slots = slots.count(kMaxWhole);
  read.blocks = read_count(options, "blocks");
  const Reader by_group = options.field("blocksByGroup");
  if (!by_group.is_undefined()) {
    for (const Reader& blocks : by_group.entries(kMaxKvLayers)) read.blocks_by_group.push_back(blocks.count(kMaxWhole));
    if (read.blocks_by_group.empty()) refuse(by_group.where(), "a number for each cache group", "none");
  }
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
  const Reader reads = step.field("stateReads");
  const Reader writes = step.field("stateWrites");
  if (!reads.is_undefined()) input.state_reads = reads.int32s();
  if (!writes.is_undefined()) input.state_writes = writes.int32s();
  for (const Reader& output : step.field("outputs").entries(program.max_outputs))
    input.outputs.push_back(read_output(output));
  return input;
}

}  // namespace rocmforge
