// Products: norm and pack the input once, then stream weight rows of all products past it. Few tokens (and every token in
// deterministic mode) meet each weight row as it lies in the file; many tokens meet tiles of unpacked rows.

#include <algorithm>

#include "step-run.h"

namespace rocmforge {

namespace {

/// One instruction on one thread.
class Projection {
 public:
  Projection(const StepRun& run, Member& member, const Project& project, const ProjectPlan& plan)
      : run_(run),
        member_(member),
        project_(project),
        plan_(plan),
        input_(run.rows(project.input)),
        part_(run.thread_part(member)) {
    for (size_t kind = 0; kind < kPackKinds; kind++) {
      uint8_t* const data = plan.own_pack ? part_ + plan.own_packed[kind] : run.arena + run.layout.packed[kind];
      packed_[kind] = {data,        format_of(plan.panels, kind), input_.width, plan.tokens,
                       plan.groups, plan.group_bytes[kind]};
    }
    group_tokens_ = plan.panels ? run.product_kernels().panel_tokens : 1;
  }

  void execute() {
    if (!plan_.own_pack) {
      member_.phase(plan_.groups, {1, 1, SIZE_MAX}, [this](size_t first, size_t end) {
        for (size_t group = first; group < end; group++) pack(group);
      });
    }
    bool prepared = !plan_.own_pack;
    member_.phase(plan_.rows, plan_.pieces, [&](size_t first, size_t end) {
      if (!prepared) pack(0);
      prepared = true;
      if (project_.gated) {
        multiply_gated(first, end - first);
      } else {
        multiply_each(first, end);
      }
    });
  }

 private:
  void pack(size_t group) {
    const size_t first = group * group_tokens_;
    const size_t tokens = std::min(group_tokens_, plan_.tokens - first);
    const float* rows = input_.row(first);
    size_t stride = input_.stride;
    if (project_.norm != kNone) {
      float* const normed = reinterpret_cast<float*>(part_ + plan_.normed);
      const float* weight = run_.weights.vector(project_.norm);
      for (size_t token = 0; token < tokens; token++) {
        run_.row_kernels().rms_norm(input_.row(first + token), weight, input_.width, project_.epsilon,
                                    normed + token * input_.width);
      }
      rows = normed;
      stride = input_.width;
    }
    for (size_t kind = 0; kind < kPackKinds; kind++) {
      if (!plan_.uses[kind]) continue;
      Packed only = packed_[kind];
      only.data += group * only.group_bytes;
      only.tokens = tokens;
      only.groups = 1;
      run_.product_kernels().pack(rows, stride, 0, 1, only);
    }
  }

  /// Tokens [first_token, first_token + tokens) of a range of weight rows; first_token begins a group.
  void multiply(const Product& product, size_t first_row, size_t rows, size_t first_token, size_t tokens, float* out,
                size_t out_stride) {
    const Matrix& weight = run_.weights.matrix(product.weight);
    const Packed& packed = packed_[is_plain_float(weight.type) ? kPackF32 : kPackQ8];
    if (!plan_.panels) {
      run_.product_kernels().multiply_rows(weight, first_row, rows, packed, first_token, tokens, out, out_stride);
      return;
    }
    Packed tile = packed;
    tile.data += first_token / group_tokens_ * tile.group_bytes;
    tile.tokens = tokens;
    tile.groups = (tokens + group_tokens_ - 1) / group_tokens_;
    for (size_t row = 0; row < rows; row += kPanelRows) {
      run_.product_kernels().multiply_panels(weight, first_row + row, std::min(kPanelRows, rows - row), tile, out + row,
                                             out_stride, part_ + plan_.product_scratch);
    }
  }

  float scale_of(const Product& product) const {
    const float* scale = run_.weights.vector(product.scale);
    return scale == nullptr ? 1.0f : *scale;
  }

  void finish(const Product& product, size_t first_row, size_t rows, float* out, const float* residual) const {
    const float scale = scale_of(product);
    const float* bias = run_.weights.vector(product.bias);
    if (scale == 1.0f && bias == nullptr && residual == nullptr) return;
    run_.row_kernels().finish(out, rows, scale, bias == nullptr ? nullptr : bias + first_row, residual);
  }

  /// Rows [first, end) of all products one after the other.
  void multiply_each(size_t first, size_t end) {
    size_t start = 0;
    for (const Product& product : project_.products) {
      const size_t rows = run_.weights.matrix(product.weight).rows;
      const size_t from = std::max(first, start);
      const size_t to = std::min(end, start + rows);
      if (from < to) multiply_plain(product, from - start, to - from);
      start += rows;
    }
  }

  void multiply_plain(const Product& product, size_t first_row, size_t rows) {
    const Rows out = run_.rows(product.out);
    const bool adds = project_.residual != kNone;
    const Rows residual = adds ? run_.rows(project_.residual) : Rows{nullptr, 0, 0, 0};
    for_each_tile([&](size_t first_token, size_t tokens) {
      multiply(product, first_row, rows, first_token, tokens, out.row(first_token) + first_row, out.stride);
      for (size_t token = first_token; token < first_token + tokens; token++) {
        finish(product, first_row, rows, out.row(token) + first_row, adds ? residual.row(token) + first_row : nullptr);
      }
    });
  }

  /// The gate goes straight to where the result will be; only `up` needs a place of its own.
  void multiply_gated(size_t first_row, size_t rows) {
    const Product& gate = project_.products[0];
    const Product& up = project_.products[1];
    const Rows out = run_.rows(project_.gated_out);
    float* const ups = reinterpret_cast<float*>(part_ + plan_.up);
    for_each_tile([&](size_t first_token, size_t tokens) {
      multiply(gate, first_row, rows, first_token, tokens, out.row(first_token) + first_row, out.stride);
      multiply(up, first_row, rows, first_token, tokens, ups, rows);
      for (size_t token = 0; token < tokens; token++) {
        float* const gated = out.row(first_token + token) + first_row;
        finish(gate, first_row, rows, gated, nullptr);
        finish(up, first_row, rows, ups + token * rows, nullptr);
        run_.row_kernels().swiglu(gated, ups + token * rows, rows, gated);
      }
    });
  }

  template <typename Work>
  void for_each_tile(Work&& work) const {
    for (size_t first = 0; first < plan_.tokens; first += plan_.tile_tokens) {
      work(first, std::min(plan_.tile_tokens, plan_.tokens - first));
    }
  }

  const StepRun& run_;
  Member& member_;
  const Project& project_;
  const ProjectPlan& plan_;
  const Rows input_;
  uint8_t* const part_;
  Packed packed_[kPackKinds];
  size_t group_tokens_ = 1;
};

}  // namespace

void run_project(const StepRun& run, Member& member, const Project& project, const ProjectPlan& plan) {
  if (plan.tokens == 0) return;
  Projection(run, member, project, plan).execute();
}

}  // namespace rocmforge
