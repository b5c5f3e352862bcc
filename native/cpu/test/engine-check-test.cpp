// What the engine refuses before it computes: programs, steps and weights that do not go together, each by the name of
// the part that is wrong.

#include <cmath>
#include <limits>

#include "engine-fixture.h"

using namespace rocmforge;

namespace {

using Change = std::function<void(ProgramSpec&)>;

void refuse_program(const char* part, const Change& change) {
  ProgramSpec spec = tiny_spec({});
  change(spec);
  check_refused(part, [&] {
    Program program = spec.build();
    check_program(program);
  });
}

void test_program_check() {
  Program good = tiny_program({});
  check_program(good);
  CHECK(good.uses_kv && good.angles.size() == 1, "derived fields");

  refuse_program("threads", [](ProgramSpec& p) { p.threads = 0; });
  refuse_program("threads", [](ProgramSpec& p) { p.threads = 1025; });
  refuse_program("maxTokens", [](ProgramSpec& p) { p.max_tokens = 65537; });
  refuse_program("contextTokens", [](ProgramSpec& p) { p.context_tokens = 0; });
  refuse_program("slots[0].width", [](ProgramSpec& p) { p.slots[0].width = 0; });
  refuse_program("values[0].slot", [](ProgramSpec& p) { p.values[0].slot = 99; });
  refuse_program("values[0].slot", [](ProgramSpec& p) { p.values[0].slot = -2; });
  refuse_program("values[0].rows", [](ProgramSpec& p) { p.values[0].rows = RowKind::scored; });
  refuse_program("values[0].stride", [](ProgramSpec& p) { p.values[0].stride = kWidth + 1; });
  refuse_program("values[0].column", [](ProgramSpec& p) { p.values[0].column = 1; });
  refuse_program("values[0].width", [](ProgramSpec& p) { p.values[0].width = kWidth + 1; });
  refuse_program("weights[0].type", [](ProgramSpec& p) { p.weights[0].type = static_cast<TensorType>(4); });
  refuse_program("weights[0].width", [](ProgramSpec& p) { p.weights[0] = {TensorType::q4_k, 64, kVocabulary}; });
  refuse_program("weights[0].rows", [](ProgramSpec& p) { p.weights[0].rows = 0; });
  refuse_program("embed.table", [](ProgramSpec& p) { p.first("embed")["table"] = 1000; });
  refuse_program("embed.table rows", [](ProgramSpec& p) { p.vocabulary_size = 299; });
  refuse_program("embed.out", [](ProgramSpec& p) { p.first("embed")["out"] = -1; });
  refuse_program("matmul.input", [](ProgramSpec& p) { p.first("matmul")["input"] = 1 << 20; });
  refuse_program("matmul.norm", [](ProgramSpec& p) { p.first("matmul")["norm"] = 0; });
  refuse_program("matmul.epsilon", [](ProgramSpec& p) { p.first("matmul")["epsilon"] = -1; });
  refuse_program("matmul.matmuls", [](ProgramSpec& p) { p.first("matmul").matmuls.clear(); });
  refuse_program("matmul.matmuls.weight width", [](ProgramSpec& p) {
    p.weights[static_cast<size_t>(p.first("matmul").matmuls[1]["weight"])].width = 128;
  });
  refuse_program("matmul.matmuls.bias", [](ProgramSpec& p) { p.first("matmul").matmuls[0]["bias"] = 1; });
  refuse_program("matmul.matmuls.scale",
                 [](ProgramSpec& p) { p.first("matmul").matmuls[0]["scale"] = p.first("matmul")["norm"]; });
  refuse_program("matmul.matmuls.out",
                 [](ProgramSpec& p) { p.first("matmul").matmuls[0]["out"] = p.first("matmul").matmuls[1]["out"]; });
  refuse_program("matmul.matmuls.out", [](ProgramSpec& p) { p.values[2].slot = p.values[1].slot; });
  refuse_program("matmul.matmuls with a residual",
                 [](ProgramSpec& p) { p.first("matmul")["residual"] = p.first("matmul")["input"]; });
  refuse_program("matmul.gatedOut", [](ProgramSpec& p) { p.first("matmul")["gatedOut"] = 1; });
  refuse_program("matmul.matmuls with an activation",
                 [](ProgramSpec& p) { p.first("matmul").set_text("activation", "gelu"); });
  refuse_program("rope-store.headWidth", [](ProgramSpec& p) { p.first("rope-store")["headWidth"] = 64; });
  refuse_program("rope-store.rotaryWidth", [](ProgramSpec& p) { p.first("rope-store")["rotaryWidth"] = 31; });
  refuse_program("rope-store.rotaryWidth", [](ProgramSpec& p) { p.first("rope-store")["rotaryWidth"] = 34; });
  refuse_program("rope-store.rope", [](ProgramSpec& p) { p.first("rope-store")["rope"] = 1; });
  refuse_program("rope-store.rope stretches", [](ProgramSpec& p) { p.ropes[0].stretches.pop_back(); });
  refuse_program("rope-store.factors", [](ProgramSpec& p) { p.first("rope-store")["factors"] = 0; });
  refuse_program("rope-store.style", [](ProgramSpec& p) { p.first("rope-store").set_text("style", "quarters"); });
  refuse_program("rope-store.layer", [](ProgramSpec& p) { p.first("rope-store")["layer"] = kLayers; });
  refuse_program("rope-store.key width",
                 [](ProgramSpec& p) { p.first("rope-store")["key"] = p.first("rope-store")["query"]; });
  refuse_program("attention.heads", [](ProgramSpec& p) { p.first("attention")["heads"] = 0; });
  refuse_program("attention.kvHeads", [](ProgramSpec& p) { p.first("attention")["kvHeads"] = 1; });
  refuse_program("attention.query width", [](ProgramSpec& p) { p.first("attention")["heads"] = 6; });
  refuse_program("attention.scale",
                 [](ProgramSpec& p) { p.first("attention")["scale"] = std::numeric_limits<float>::quiet_NaN(); });
  for (const double wrong : {-1.0, HUGE_VAL}) {
    refuse_program("attention.softCap", [&](ProgramSpec& p) { p.first("attention")["softCap"] = wrong; });
    refuse_program("matmul.matmuls.softCap", [&](ProgramSpec& p) { p.first("matmul").matmuls[0]["softCap"] = wrong; });
  }
  refuse_program("attention.sinks width",
                 [](ProgramSpec& p) { p.first("attention")["sinks"] = p.vector_of(kHeads + 1); });
  refuse_program("attention.sinks", [](ProgramSpec& p) { p.first("attention")["sinks"] = 0; });
  refuse_program("embed.scale", [](ProgramSpec& p) { p.first("embed")["scale"] = HUGE_VAL; });
  refuse_program("matmul.activation", [](ProgramSpec& p) { p.first("matmul").set_text("activation", "tanh"); });
  refuse_program("kind", [](ProgramSpec& p) { p.fields[0].set_text("kind", "swiglu"); });
  refuse_program("select-rows.input rows", [](ProgramSpec& p) { p.first("select-rows")["input"] = p.hidden; });
  refuse_program("rms-norm.groupWidth", [](ProgramSpec& p) { p.first("rms-norm")["groupWidth"] = 48; });
  refuse_program("groupWidth groups", [](ProgramSpec& p) {
    p.slots[0].width = p.values[0].width = p.values[0].stride = 8192;
    p.fields[0] =
        FieldMap("rms-norm", {{"input", 0}, {"weight", p.vector_of(1)}, {"groupWidth", 1}, {"epsilon", 0}, {"out", 0}});
  });
  refuse_program("hidden rows", [](ProgramSpec& p) { p.hidden = 0; });
  refuse_program("logits", [](ProgramSpec& p) { p.logits = 1 << 20; });
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
  other.layers.pop_back();
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
  refuse_step("no sequence writes", [](StepInput& s) { s.block_tables[128] = s.block_tables[0]; });
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

/// Tables of two groups: the second has a window, so that entries before it may be blocks of other sequences.
void test_group_check() {
  Program program = tiny_program({});
  program.kv_layers[1].group = 1;
  check_refused("kv.groups", [&] { check_program(program); });
  program.kv_groups.push_back({20, SIZE_MAX});
  check_program(program);
  KvOptions options = tiny_cache();
  options.layers[1].group = 1;
  options.blocks_by_group = {400, 20};
  KvCache cache(options);
  // Sequence 1 is at position 100, in block 6, and sees positions from 81 on, in block 5.
  const auto grouped = [] {
    StepInput step = make_step({{0, 0, 20}, {1, 100, 3}});
    for (const std::vector<int32_t>& table : {std::vector<int32_t>{2, 3}, {2, 2, 2, 2, 3, 4, 5}}) {
      step.block_tables.insert(step.block_tables.end(), table.begin(), table.end());
      step.table_offsets.push_back(static_cast<int32_t>(step.block_tables.size()));
    }
    return step;
  };
  check_step(program, &cache, grouped());
  const auto refuse_step = [&](const char* part, const StepChange& change) {
    StepInput step = grouped();
    change(step);
    check_refused(part, [&] { check_step(program, &cache, step); });
  };
  refuse_step("step.tableOffsets", [](StepInput& s) {
    s.table_offsets.pop_back();
    s.block_tables.resize(static_cast<size_t>(s.table_offsets.back()));
  });
  refuse_step("sequence 0", [](StepInput& s) { s.block_tables[256] = 20; });
  // Never read, but still an address.
  refuse_step("sequence 1", [](StepInput& s) { s.block_tables[258] = 20; });
  refuse_step("a block of its own", [](StepInput& s) { s.block_tables[264] = 3; });
  refuse_step("no sequence writes", [](StepInput& s) { s.block_tables[263] = 3; });
  // Tables of the first group cannot serve both: its blocks are more.
  check_refused("blocks below 20", [&] { check_step(program, &cache, make_step({{0, 0, 20}})); });
  KvCache other(tiny_cache());
  check_refused("kvCache.groups", [&] { check_step(program, &other, grouped()); });
  program.kv_groups[1].chunk = 0;
  check_refused("kv.groups.chunk", [&] { check_program(program); });
}

/// A cache of states alone: which slots a step may read and write.
void test_state_slots() {
  KvOptions options;
  options.states = {5, 0, 100};
  options.state_slots = 3;
  KvCache cache(options);
  CHECK(cache.size_bytes() == 64 + 1216 && options.groups() == 0, "size");
  CHECK(cache.state(2, 1) == cache.state(0, 0) + 16 + 100, "state 2 of slot 1");
  StepInput step;
  step.tokens = {1, 2, 3};
  step.positions = {0, 1, 7};
  step.sequence_offsets = {0, 2, 3};
  step.state_reads = {-1, 2};
  step.state_writes = {0, 1, 2};
  check_state_slots(cache, step);
  const auto refuse_slots = [&](const char* part, const StepChange& change) {
    StepInput changed = step;
    change(changed);
    check_refused(part, [&] { check_state_slots(cache, changed); });
  };
  refuse_slots("step.stateReads", [](StepInput& s) { s.state_reads.pop_back(); });
  refuse_slots("step.stateWrites", [](StepInput& s) { s.state_writes.push_back(-1); });
  refuse_slots("step.stateReads[0]", [](StepInput& s) { s.state_reads[0] = 3; });
  refuse_slots("step.stateReads[0]", [](StepInput& s) { s.state_reads[0] = INT32_MIN; });
  refuse_slots("step.stateReads[1]", [](StepInput& s) { s.state_reads[1] = -1; });
  refuse_slots("no other sequence", [](StepInput& s) { s.state_reads[1] = 1; });
  refuse_slots("step.stateWrites[1]", [](StepInput& s) { s.state_writes[1] = 3; });
  refuse_slots("step.stateWrites[1]", [](StepInput& s) { s.state_writes[1] = -2; });
  refuse_slots("written once", [](StepInput& s) { s.state_writes[1] = 0; });
  step.state_reads[0] = 1;
  check_state_slots(cache, step);

  for (size_t k = 0; k < 300; k++) cache.state(2, 0)[k] = static_cast<float>(k);
  options.state_slots = 4;
  KvCache grown(options);
  check_refused("source.stateSlots", [&] { cache.check_copy_from(grown, {}); });
  grown.check_copy_from(cache, {});
  grown.copy_from(cache, {});
  CHECK(grown.state(2, 2)[99] == 299 && grown.state(2, 3)[0] == 0, "grown states");
  options.state_slots = size_t{1} << 21;
  check_refused("kvCache.stateSlots", [&] { KvCache::size_bytes(options); });
  options.state_slots = 1000;
  options.states[1] = SIZE_MAX / 16;
  CHECK(thrown("states", [&] { KvCache::size_bytes(options); }).code == ErrorCode::memory, "states beyond memory");
  options.states.clear();
  check_refused("kvCache.layers", [&] { KvCache::size_bytes(options); });
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
  test_group_check();
  test_state_slots();
  test_bind_check();
  printf("engine checks: ok\n");
  return 0;
}
