// route-experts: the router of a mixture of experts. A row of the result has the numbers of the chosen experts, the most
// probable first, and then their weights. Whatever the logits are, NaN included, the numbers are those of experts.

#include <algorithm>
#include <cmath>
#include <string>

#include "../engine/fields.h"
#include "../engine/instruction-check.h"
#include "../engine/scratch.h"
#include "../engine/step-run.h"

namespace rocmforge {

namespace {

constexpr size_t kMaxExperts = 65536;
/// The sum of weights is not taken below this, the smallest normal number of f16.
constexpr double kSmallestSum = 1.0 / 16384;

ExpertGating read_gating(const Fields& fields) {
  const std::string found = fields.text("gating");
  if (found == "softmax") return ExpertGating::softmax;
  if (found == "sigmoid") return ExpertGating::sigmoid;
  if (found == "softmax-selected") return ExpertGating::softmax_selected;
  if (found == "sqrt-softplus") return ExpertGating::sqrt_softplus;
  if (found == "sigmoid-selected") return ExpertGating::sigmoid_selected;
  refuse(fields.path("gating"), "softmax, sigmoid, softmax-selected, sqrt-softplus or sigmoid-selected", found);
}

/// The best of a list by score, best first; of equal ones the first that was offered.
class Best {
 public:
  Best(uint32_t* list, const float* scores, size_t most) : list_(list), scores_(scores), most_(most) {}

  void offer(size_t index) {
    const float score = scores_[index];
    if (count_ == most_ && !(score > scores_[list_[count_ - 1]])) return;
    size_t place = count_ < most_ ? count_++ : count_ - 1;
    for (; place > 0 && score > scores_[list_[place - 1]]; place--) list_[place] = list_[place - 1];
    list_[place] = static_cast<uint32_t>(index);
  }

 private:
  uint32_t* list_;
  const float* scores_;
  size_t most_;
  size_t count_ = 0;
};

struct RouteExpertsPlan final : InstructionPlan {
  /// Offsets in a thread's part.
  size_t probabilities = 0;
  size_t scores = 0;
  size_t group_scores = 0;
  size_t kept_groups = 0;
  size_t chosen = 0;
};

struct RouteExperts final : Instruction {
  Id input;
  Id bias;
  size_t used;
  ExpertGating gating;
  size_t groups;
  size_t groups_used;
  bool renormalize;
  float scale;
  Id out;

  explicit RouteExperts(const Fields& fields)
      : input(fields.id("input")),
        bias(fields.id_or_none("bias")),
        used(fields.count("used")),
        gating(read_gating(fields)),
        groups(fields.count_or("groups", 1)),
        groups_used(fields.count_or("groupsUsed", groups)),
        renormalize(fields.flag("renormalize")),
        scale(fields.number_or("scale", 1)),
        out(fields.id("out")) {}

  void check(InstructionCheck& check) override {
    const Value& logits = check.value("input", input);
    const Value& to = check.value("out", out);
    check.require_rows("out", to, logits.rows);
    const size_t experts = logits.width;
    require_range(check.path("input width"), experts, 1, kMaxExperts);
    require_range(check.path("used"), used, 1, experts);
    require_range(check.path("groups"), groups, 1, experts);
    require_range(check.path("groupsUsed"), groups_used, 1, groups);
    if (experts % groups != 0) refuse(check.path("groups"), "a divisor of " + text(experts), text(groups));
    require_range(check.path("used"), used, 1, groups_used * (experts / groups));
    require_equal(check.path("out width"), 2 * used, to.width);
    if (bias != kNone) check.vector("bias", bias, experts);
    check.require_finite("scale", scale);
    check.require_apart("out", out, input);
  }

  std::unique_ptr<InstructionPlan> plan(const Program& program, const StepSize&) const override {
    auto plan = std::make_unique<RouteExpertsPlan>();
    const size_t experts = program.value(input).width;
    ScratchOffsets thread;
    plan->probabilities = thread.take(experts * sizeof(float));
    plan->scores = thread.take(experts * sizeof(float));
    plan->group_scores = thread.take(groups * sizeof(float));
    plan->kept_groups = thread.take(groups_used * sizeof(uint32_t));
    plan->chosen = thread.take(used * sizeof(uint32_t));
    plan->thread_bytes = thread.used();
    return plan;
  }

  void run(const StepRun& run, Member& member, const InstructionPlan* plan) const override {
    const Rows logits = run.rows(input);
    const Rows to = run.rows(out);
    const RouteExpertsPlan& own = static_cast<const RouteExpertsPlan&>(*plan);
    uint8_t* const part = run.thread_part(member);
    for_each_row(member, to.count, logits.width * 8,
                 [&](size_t row) { route(run, own, part, logits.row(row), logits.width, to.row(row)); });
  }

 private:
  void route(const StepRun& run, const RouteExpertsPlan& plan, uint8_t* part, const float* logits, size_t experts,
             float* out_row) const {
    float* const probabilities = reinterpret_cast<float*>(part + plan.probabilities);
    uint32_t* const chosen = reinterpret_cast<uint32_t*>(part + plan.chosen);
    run.row_kernels().expert_probabilities(gating, logits, experts, probabilities);
    const float* scores = probabilities;
    if (bias != kNone) {
      float* const biased = reinterpret_cast<float*>(part + plan.scores);
      run.row_kernels().add(probabilities, run.weights.vector(bias), experts, biased);
      scores = biased;
    }
    Best best(chosen, scores, used);
    if (groups_used == groups) {
      for (size_t expert = 0; expert < experts; expert++) best.offer(expert);
    } else {
      offer_best_groups(plan, part, scores, experts / groups, best);
    }
    weigh(probabilities, chosen, out_row);
  }

  /// Offers the experts of the groups whose two best experts have the largest sum.
  void offer_best_groups(const RouteExpertsPlan& plan, uint8_t* part, const float* scores, size_t size,
                         Best& best) const {
    float* const group_scores = reinterpret_cast<float*>(part + plan.group_scores);
    uint32_t* const kept = reinterpret_cast<uint32_t*>(part + plan.kept_groups);
    Best best_groups(kept, group_scores, groups_used);
    for (size_t group = 0; group < groups; group++) {
      uint32_t two[2];
      Best members(two, scores, std::min<size_t>(2, size));
      for (size_t expert = group * size; expert < (group + 1) * size; expert++) members.offer(expert);
      group_scores[group] = size == 1 ? scores[two[0]] : scores[two[0]] + scores[two[1]];
      best_groups.offer(group);
    }
    // By rising number, so that of equal experts the first is chosen.
    std::sort(kept, kept + groups_used);
    for (size_t index = 0; index < groups_used; index++) {
      for (size_t expert = kept[index] * size; expert < (kept[index] + 1) * size; expert++) best.offer(expert);
    }
  }

  void weigh(const float* probabilities, const uint32_t* chosen, float* out_row) const {
    float* const weights = out_row + used;
    double total = 0;
    float highest = probabilities[chosen[0]];
    for (size_t slot = 1; slot < used; slot++) highest = std::max(highest, probabilities[chosen[slot]]);
    for (size_t slot = 0; slot < used; slot++) {
      out_row[slot] = static_cast<float>(chosen[slot]);
      const float probability = probabilities[chosen[slot]];
      weights[slot] = gating == ExpertGating::softmax_selected   ? std::exp(probability - highest)
                      : gating == ExpertGating::sigmoid_selected ? 1 / (1 + std::exp(-probability))
                                                                 : probability;
      total += static_cast<double>(weights[slot]);
    }
    // The softmax over the chosen experts has the sum 1, and nothing is left to renormalize.
    const bool selected = gating == ExpertGating::softmax_selected;
    const double divisor = selected ? total : renormalize ? std::max(total, kSmallestSum) : 1;
    for (size_t slot = 0; slot < used; slot++)
      weights[slot] = static_cast<float>(static_cast<double>(weights[slot]) / divisor * static_cast<double>(scale));
  }
};

const InstructionKind kRouteExperts("route-experts", read_as<RouteExperts>);

}  // namespace

}  // namespace rocmforge
