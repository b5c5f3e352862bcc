// Results are copied into JavaScript's own arrays when the step settles: at most a few rows of logits.

#include "step-job.h"

#include <cstring>

#include "../engine/bandwidth.h"
#include "../engine/dot-product-peak.h"

namespace rocmforge {

namespace {

Napi::Float32Array floats(Napi::Env env, const std::vector<float>& values) {
  Napi::Float32Array array = Napi::Float32Array::New(env, values.size());
  if (!values.empty()) std::memcpy(array.Data(), values.data(), values.size() * sizeof(float));
  return array;
}

Napi::Int32Array int32s(Napi::Env env, const std::vector<int32_t>& values) {
  Napi::Int32Array array = Napi::Int32Array::New(env, values.size());
  if (!values.empty()) std::memcpy(array.Data(), values.data(), values.size() * sizeof(int32_t));
  return array;
}

Napi::Object output_row(Napi::Env env, const OutputRow& row) {
  Napi::Object object = Napi::Object::New(env);
  switch (row.kind) {
    case OutputRow::Kind::candidates:
      object.Set("kind", "candidates");
      object.Set("ids", int32s(env, row.ids));
      object.Set("logits", floats(env, row.values));
      object.Set("logSum", row.log_sum);
      break;
    case OutputRow::Kind::logits:
      object.Set("kind", "logits");
      object.Set("logits", floats(env, row.values));
      object.Set("logSum", row.log_sum);
      break;
    case OutputRow::Kind::hidden:
      object.Set("kind", "hidden");
      object.Set("values", floats(env, row.values));
      break;
    case OutputRow::Kind::not_finite:
      object.Set("kind", "not-finite");
      object.Set("column", static_cast<double>(row.column));
      break;
  }
  return object;
}

}  // namespace

void StepJob::compute() { rows_ = executor_->run(step_, *weights_, cache_.get(), cancelled()); }

Napi::Value StepJob::result(Napi::Env env) {
  Napi::Array rows = Napi::Array::New(env, rows_.size());
  for (size_t index = 0; index < rows_.size(); index++)
    rows.Set(static_cast<uint32_t>(index), output_row(env, rows_[index]));
  return rows;
}

void DotProductPeakJob::compute() { per_second_ = measure_dot_product_peak(kernels_, threads_, cancelled()); }

void BandwidthJob::compute() { bytes_per_second_ = measure_read_bandwidth(size_bytes_, threads_, cancelled()); }

}  // namespace rocmforge
