// What a step returns for each output row: bias and mask first, then logits, candidates or the hidden state. A row that
// is not finite says so by itself. Sums run over fixed runs of columns, so that they do not depend on the number of
// threads.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "step-run.h"

namespace rocmforge {

namespace {

/// Up to this many candidates a short sorted list is quicker than sorting the vocabulary.
constexpr size_t kShortList = 128;
constexpr float kNever = -std::numeric_limits<float>::infinity();

size_t parts_of(size_t width) { return (width + kLogitsPart - 1) / kLogitsPart; }

/// Columns [first, end) of one row: bias, mask, and their share of the log-sum.
LogitsPart score_part(const StepRun& run, const OutputRequest& request, float* logits, size_t first, size_t end) {
  const RowKernels& kernels = run.row_kernels();
  const size_t count = end - first;
  const size_t stray = kernels.find_not_finite(logits + first, count);
  if (stray < count) return {first + stray, kNever, 0};
  for (size_t index = 0; index < request.bias_ids.size(); index++) {
    const size_t id = static_cast<size_t>(request.bias_ids[index]);
    if (id < first || id >= end) continue;
    logits[id] += request.bias_values[index];
    // An id that is listed twice can come to infinity minus infinity; a ban wins.
    if (std::isnan(logits[id])) logits[id] = kNever;
  }
  for (size_t id = first; request.masked && id < end; id++) {
    if (((request.allow_mask[id >> 5] >> (id & 31)) & 1) == 0) logits[id] = kNever;
  }
  const float max = kernels.max(logits + first, count);
  return {run.program.vocabulary_size, max, max == kNever ? 0 : kernels.sum_exp(logits + first, count, max)};
}

double merge_log_sum(const LogitsPart* parts, size_t count) {
  float max = kNever;
  for (size_t part = 0; part < count; part++) max = std::max(max, parts[part].max);
  if (max == kNever) return max;
  double sum = 0;
  for (size_t part = 0; part < count; part++) {
    if (parts[part].max != kNever) sum += parts[part].sum * std::exp(static_cast<double>(parts[part].max) - max);
  }
  return max + std::log(sum);
}

/// Highest first, equal ones by rising id: insertion into a short list that few entries reach.
void rank_short(const RowKernels& kernels, const float* logits, size_t count, OutputRow& row) {
  const size_t kept = row.ids.size();
  size_t length = 0;
  for (size_t id = 0; id < count; id++) {
    if (length == kept) id = kernels.find_above(logits, count, id, row.values[kept - 1]);
    if (id >= count) break;
    const float logit = logits[id];
    size_t rank = length < kept ? length++ : kept - 1;
    for (; rank > 0 && row.values[rank - 1] < logit; rank--) {
      row.values[rank] = row.values[rank - 1];
      row.ids[rank] = row.ids[rank - 1];
    }
    row.values[rank] = logit;
    row.ids[rank] = static_cast<int32_t>(id);
  }
}

/// `row.ids` has room for every id; it shrinks to what is kept, which `row.values` is sized for.
void rank_sorted(const float* logits, OutputRow& row) {
  const size_t kept = row.values.size();
  const auto before = [logits](int32_t left, int32_t right) {
    const float first = logits[static_cast<size_t>(left)];
    const float second = logits[static_cast<size_t>(right)];
    return first > second || (first == second && left < right);
  };
  std::iota(row.ids.begin(), row.ids.end(), 0);
  const auto end = row.ids.begin() + static_cast<std::ptrdiff_t>(kept);
  if (end != row.ids.end()) std::nth_element(row.ids.begin(), end, row.ids.end(), before);
  std::sort(row.ids.begin(), end, before);
  row.ids.resize(kept);
  for (size_t rank = 0; rank < kept; rank++) row.values[rank] = logits[static_cast<size_t>(row.ids[rank])];
}

void make_stray(OutputRow& row, size_t column) {
  row.kind = OutputRow::Kind::not_finite;
  row.column = column;
}

void read_hidden(const StepRun& run, size_t output, OutputRow& row) {
  const Rows hidden = run.rows(run.program.hidden);
  const size_t stray = run.row_kernels().find_not_finite(hidden.row(output), hidden.width);
  if (stray < hidden.width) return make_stray(row, stray);
  std::memcpy(row.values.data(), hidden.row(output), hidden.width * sizeof(float));
}

void read_scored(const StepRun& run, size_t scored, const OutputRequest& request, OutputRow& row) {
  const Rows rows = run.rows(run.program.logits);
  const float* logits = rows.row(scored);
  const size_t parts = parts_of(rows.width);
  const LogitsPart* own = run.logits_parts.data() + scored * parts;
  for (size_t part = 0; part < parts; part++) {
    if (own[part].stray < rows.width) return make_stray(row, own[part].stray);
  }
  row.log_sum = merge_log_sum(own, parts);
  if (request.want == Want::logits) {
    std::memcpy(row.values.data(), logits, rows.width * sizeof(float));
  } else if (row.values.size() <= kShortList) {
    rank_short(run.row_kernels(), logits, rows.width, row);
  } else {
    rank_sorted(logits, row);
  }
}

}  // namespace

void prepare_outputs(StepRun& run) {
  const Program& program = run.program;
  run.results.resize(run.step.outputs.size());
  for (size_t output = 0; output < run.results.size(); output++) {
    const OutputRequest& request = run.step.outputs[output];
    OutputRow& row = run.results[output];
    switch (request.want) {
      case Want::hidden:
        row.kind = OutputRow::Kind::hidden;
        row.values.resize(program.value(program.hidden).width);
        break;
      case Want::logits:
        row.kind = OutputRow::Kind::logits;
        row.values.resize(program.vocabulary_size);
        break;
      case Want::candidates:
        row.kind = OutputRow::Kind::candidates;
        row.values.resize(std::min(request.count, program.vocabulary_size));
        row.ids.resize(row.values.size() <= kShortList ? row.values.size() : program.vocabulary_size);
        break;
    }
  }
  if (program.logits != kNone) run.logits_parts.resize(run.scored_rows.size() * parts_of(program.vocabulary_size));
}

void compute_outputs(StepRun& run, Member& member) {
  if (!run.scored_rows.empty()) {
    const Rows logits = run.rows(run.program.logits);
    const size_t parts = parts_of(logits.width);
    member.phase(logits.count * parts, {1, 1, SIZE_MAX}, [&](size_t first, size_t end) {
      for (size_t unit = first; unit < end; unit++) {
        const size_t row = unit / parts;
        const size_t column = unit % parts * kLogitsPart;
        run.logits_parts[unit] = score_part(run, run.step.outputs[run.scored_rows[row]], logits.row(row), column,
                                            std::min(column + kLogitsPart, logits.width));
      }
    });
  }
  member.phase(run.results.size(), {1, 1, SIZE_MAX}, [&](size_t first, size_t end) {
    for (size_t output = first; output < end; output++) {
      const OutputRequest& request = run.step.outputs[output];
      const auto scored = std::lower_bound(run.scored_rows.begin(), run.scored_rows.end(), output);
      if (request.want == Want::hidden) {
        read_hidden(run, output, run.results[output]);
      } else {
        read_scored(run, static_cast<size_t>(scored - run.scored_rows.begin()), request, run.results[output]);
      }
    }
  });
}

}  // namespace rocmforge
