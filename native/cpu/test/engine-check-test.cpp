// What the engine refuses before it computes: programs, steps and weights that do not go together, each by the name of the
// part that is wrong.

#include "engine-fixture.h"

using namespace rocmforge;

namespace {

using Change = std::function<void(Program&)>;

template <typename Kind>
Kind& first_of(Program& program) {
  for (Instruction& instruction : program.instructions) {
    if (Kind* found = std::get_if<Kind>(&instruction)) return *found;
  }
  abort();
}

void refuse_program(const char* part, const Change& change) {
  Program program = tiny_program({});
  change(program);
  check_refused(part, [&] { check_program(program); });
}

void test_program_check() {
  Program good = tiny_program({});
  check_program(good);
  CHECK(good.uses_kv && good.angles.size() == 1, "derived fields");

  refuse_program("threads", [](Program& p) { p.threads = 0; });
  refuse_program("threads", [](Program& p) { p.threads = 1025; });
  refuse_program("maxTokens", [](Program& p) { p.max_tokens = 65537; });
  refuse_program("contextTokens", [](Program& p) { p.context_tokens = 0; });
  refuse_program("slots[0].width", [](Program& p) { p.slots[0].width = 0; });
  refuse_program("values[0].slot", [](Program& p) { p.values[0].slot = 99; });
  refuse_program("values[0].slot", [](Program& p) { p.values[0].slot = -2; });
  refuse_program("values[0].rows", [](Program& p) { p.values[0].rows = RowKind::scored; });
  refuse_program("values[0].stride", [](Program& p) { p.values[0].stride = kWidth + 1; });
  refuse_program("values[0].column", [](Program& p) { p.values[0].column = 1; });
  refuse_program("values[0].width", [](Program& p) { p.values[0].width = kWidth + 1; });
  refuse_program("weights[0].type", [](Program& p) { p.weights[0].type = static_cast<TensorType>(4); });
  refuse_program("weights[0].width", [](Program& p) { p.weights[0] = {TensorType::q4_k, 64, kVocabulary}; });
  refuse_program("weights[0].rows", [](Program& p) { p.weights[0].rows = 0; });
  refuse_program("embed.weight", [](Program& p) { first_of<Embed>(p).weight = 1000; });
  refuse_program("embed.weight rows", [](Program& p) { p.vocabulary_size = 299; });
  refuse_program("embed.out", [](Program& p) { first_of<Embed>(p).out = -1; });
  refuse_program("project.input", [](Program& p) { first_of<Project>(p).input = 1 << 20; });
  refuse_program("project.norm", [](Program& p) { first_of<Project>(p).norm = 0; });
  refuse_program("project.epsilon", [](Program& p) { first_of<Project>(p).epsilon = -1; });
  refuse_program("project.products", [](Program& p) { first_of<Project>(p).products.clear(); });
  refuse_program("project.products.weight width", [](Program& p) {
    p.weights[static_cast<size_t>(first_of<Project>(p).products[1].weight)].width = 128;
  });
  refuse_program("project.products.bias", [](Program& p) { first_of<Project>(p).products[0].bias = 1; });
  refuse_program("project.products.scale",
                 [](Program& p) { first_of<Project>(p).products[0].scale = first_of<Project>(p).norm; });
  refuse_program("project.products.out",
                 [](Program& p) { first_of<Project>(p).products[0].out = first_of<Project>(p).products[1].out; });
  refuse_program("project.products.out", [](Program& p) { p.values[2].slot = p.values[1].slot; });
  refuse_program("project.products with a residual",
                 [](Program& p) { first_of<Project>(p).residual = first_of<Project>(p).input; });
  refuse_program("project.gatedOut", [](Program& p) { first_of<Project>(p).gated_out = 1; });
  refuse_program("project.products of a gated", [](Program& p) { first_of<Project>(p).gated = true; });
  refuse_program("rotate-store.headWidth", [](Program& p) { first_of<RotateStore>(p).turn.head_width = 64; });
  refuse_program("rotate-store.rotaryWidth", [](Program& p) { first_of<RotateStore>(p).turn.rotary_width = 31; });
  refuse_program("rotate-store.rotaryWidth", [](Program& p) { first_of<RotateStore>(p).turn.rotary_width = 34; });
  refuse_program("rotate-store.rope", [](Program& p) { first_of<RotateStore>(p).turn.rope = 1; });
  refuse_program("rotate-store.rope stretches", [](Program& p) { p.ropes[0].stretches.pop_back(); });
  refuse_program("rotate-store.factors", [](Program& p) { first_of<RotateStore>(p).turn.factors = 0; });
  refuse_program("rotate-store.layer", [](Program& p) { first_of<RotateStore>(p).layer = kLayers; });
  refuse_program("rotate-store.key width",
                 [](Program& p) { first_of<RotateStore>(p).key = first_of<RotateStore>(p).query; });
  refuse_program("attention.heads", [](Program& p) { first_of<Attention>(p).heads = 0; });
  refuse_program("attention.kvHeads", [](Program& p) { first_of<Attention>(p).kv_heads = 1; });
  refuse_program("attention.query width", [](Program& p) { first_of<Attention>(p).heads = 6; });
  refuse_program("attention.scale",
                 [](Program& p) { first_of<Attention>(p).scale = std::numeric_limits<float>::quiet_NaN(); });
  refuse_program("select-rows.input rows", [](Program& p) { first_of<SelectRows>(p).input = p.hidden; });
  refuse_program("norm.groupWidth", [](Program& p) { first_of<Norm>(p).group_width = 48; });
  refuse_program("groupWidth groups", [](Program& p) {
    p.slots[0].width = p.values[0].width = p.values[0].stride = 8192;
    p.instructions[0] = Norm{0, static_cast<Id>(p.weights.size()), 1, 0, 0};
    p.weights.push_back({TensorType::f32, 1, 1});
  });
  refuse_program("hidden rows", [](Program& p) { p.hidden = 0; });
  refuse_program("logits", [](Program& p) { p.logits = 1 << 20; });
}

using StepChange = std::function<void(StepInput&)>;

void test_step_check() {
  Program program = tiny_program({});
  check_program(program);
  KvCache cache(tiny_cache());
  const auto refuse_step = [&](const char* part, const StepChange& change) {
    StepInput step = make_step({{0, 0, 20}, {1, 100, 3}});
    change(step);
    check_refused(part, [&] { check_step(program, &cache, step); });
  };
  check_step(program, &cache, make_step({{0, 0, 20}, {1, 100, 3}}));
  const StepInput step = make_step({{0, 0, 1}});
  check_refused("step.kvCache", [&] { check_step(program, nullptr, step); });
  KvOptions other = tiny_cache();
  other.layers = 1;
  KvCache wrong(other);
  check_refused("kvCache.layers", [&] { check_step(program, &wrong, step); });

  refuse_step("step.tokens", [](StepInput& s) { s.tokens.clear(); });
  refuse_step("step.tokens", [](StepInput& s) { s.tokens.resize(1025); });
  refuse_step("step.tokens[3]", [](StepInput& s) { s.tokens[3] = kVocabulary; });
  refuse_step("step.tokens[0]", [](StepInput& s) { s.tokens[0] = -1; });
  refuse_step("step.positions", [](StepInput& s) { s.positions.pop_back(); });
  refuse_step("step.positions[0]", [](StepInput& s) { s.positions[0] = -1; });
  refuse_step("step.positions[2]", [](StepInput& s) { s.positions[2] = 3; });
  refuse_step("step.positions[22]",
              [](StepInput& s) { s.positions = make_step({{0, 0, 20}, {1, kContext - 2, 3}}).positions; });
  refuse_step("step.sequenceOffsets", [](StepInput& s) { s.sequence_offsets.clear(); });
  refuse_step("step.sequenceOffsets", [](StepInput& s) { s.sequence_offsets.back() = 24; });
  refuse_step("step.sequenceOffsets[1]", [](StepInput& s) { s.sequence_offsets[1] = 0; });
  refuse_step("step.sequenceOffsets[2]", [](StepInput& s) { s.sequence_offsets = {0, INT32_MAX, 23}; });
  refuse_step("step.tableOffsets", [](StepInput& s) { s.table_offsets.back() = 1 << 30; });
  refuse_step("step.tableOffsets", [](StepInput& s) { s.table_offsets = {0, 256}; });
  refuse_step("step.tableOffsets[1]", [](StepInput& s) { s.table_offsets[1] = -5; });
  refuse_step("sequence 1", [](StepInput& s) { s.table_offsets[1] = 254; });
  refuse_step("sequence 0", [](StepInput& s) { s.block_tables[1] = 400; });
  refuse_step("sequence 0", [](StepInput& s) { s.block_tables[0] = -1; });
  refuse_step("a block of its own", [](StepInput& s) { s.block_tables[1] = s.block_tables[0]; });
  refuse_step("a block of its own", [](StepInput& s) { s.block_tables[128 + 6] = s.block_tables[0]; });
  refuse_step("nobody writes", [](StepInput& s) { s.block_tables[128] = s.block_tables[0]; });
  refuse_step("step.outputs[1].row", [](StepInput& s) { s.outputs[1].row = s.outputs[0].row; });
  refuse_step("step.outputs[1].row", [](StepInput& s) { s.outputs[1].row = 23; });
  refuse_step("step.outputs", [](StepInput& s) { s.outputs.resize(65); });
  refuse_step("count", [](StepInput& s) { s.outputs[0].want = Want::candidates; });
  refuse_step("biasValues", [](StepInput& s) { s.outputs[0].bias_ids = {1}; });
  refuse_step("biasIds", [](StepInput& s) { s.outputs[0].bias_ids = {kVocabulary}, s.outputs[0].bias_values = {1}; });
  refuse_step("biasValues", [](StepInput& s) {
    s.outputs[0].bias_ids = {1}, s.outputs[0].bias_values = {std::numeric_limits<float>::infinity()};
  });
  refuse_step("allowMask", [](StepInput& s) { s.outputs[0].masked = true; });
  // A refused step leaves no mark behind.
  check_step(program, &cache, make_step({{0, 0, 20}, {1, 100, 3}}));
}

void test_bind_check() {
  const Model model({});
  const Program& program = model.executor->program();
  const auto refuse_bind = [&](const char* part, const std::function<void(std::vector<WeightLocation>&)>& change) {
    std::vector<WeightLocation> locations = model.locations;
    change(locations);
    check_refused(part, [&] { BoundWeights bound(program, locations); });
  };
  refuse_bind("weights", [](auto& locations) { locations.pop_back(); });
  refuse_bind("weights[2].sizeBytes", [](auto& locations) { locations[2].size_bytes--; });
  refuse_bind("weights[2]", [](auto& locations) { locations[2].byte_offset = SIZE_MAX; });
  refuse_bind("weights[2]", [&](auto& locations) { locations[2].byte_offset = model.region->size_bytes() - 1; });
  refuse_bind("weights[0].region", [](auto& locations) {
    locations[0].region = Region::allocate(locations[0].size_bytes);
    locations[0].region->close();
  });
}

}  // namespace

int main() {
  test_program_check();
  test_step_check();
  test_bind_check();
  printf("engine checks: ok\n");
  return 0;
}
