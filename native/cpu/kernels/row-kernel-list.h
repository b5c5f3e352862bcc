// Every row kernel: ROW_KERNEL(result, name, (parameters)). kernel-table.h makes a function pointer of each, and
// row-table.h sets it to the function of that name, which row-kernels.h or a file beside it defines for all
// instruction sets. No #pragma once: it is included for each use, with its own ROW_KERNEL.

/// One group: out = input / sqrt(mean of squares + epsilon) × weight, which is null for none.
ROW_KERNEL(void, rms_norm, (const float* input, const float* weight, size_t width, float epsilon, float* out))
/// out = (input - mean) / sqrt(variance + epsilon) × weight + bias, which is null for none.
ROW_KERNEL(void, layer_norm,
           (const float* input, const float* weight, const float* bias, size_t width, float epsilon, float* out))
/// To 8 bits in blocks of 32 and back; the last block may be shorter.
ROW_KERNEL(void, quantize_activations, (const float* input, size_t width, float* out))
/// One head. Pair i is (2i, 2i + 1) when `adjacent`, else (i, i + pairs); columns past 2 × pairs are copied.
/// out may be input.
ROW_KERNEL(void, rope,
           (const float* input, const float* cosines, const float* sines, size_t pairs, size_t width, bool adjacent,
            float* out))
/// out = activation(gate) × up; out may be gate. If `one_gate`, the first gate is that of all columns.
ROW_KERNEL(void, glu,
           (Activation activation, const float* gate, bool one_gate, const float* up, size_t width, float* out))
ROW_KERNEL(void, add, (const float* left, const float* right, size_t width, float* out))
ROW_KERNEL(void, epilogue, (float* out, size_t width, const Epilogue& epilogue))
/// out may be input.
ROW_KERNEL(void, scale, (const float* input, size_t width, float factor, float* out))
/// out = the sum of `count` runs of `width` columns, one after the other.
ROW_KERNEL(void, sum_runs, (const float* input, size_t count, size_t width, float* out))
/// Probabilities of experts from their logits; `softmax_selected` and `sigmoid_selected` leave the logits as they are.
ROW_KERNEL(void, expert_probabilities, (ExpertGating gating, const float* logits, size_t count, float* out))
/// `count` plain floats of `type` as f32.
ROW_KERNEL(void, convert, (TensorType type, const uint8_t* input, size_t count, float* out))

ROW_KERNEL(void, store_kv, (const KvStore& store))
/// Writes the partials of `task` and nothing else of it. `scratch` has attention_scratch_bytes() bytes, 64-byte
/// aligned.
ROW_KERNEL(void, attend, (AttentionTask & task, uint8_t* scratch))
ROW_KERNEL(size_t, attention_scratch_bytes, ())
/// out[0 .. width) = the spans of one row, merged in order. `sink` is a logit that joins the softmax without a value;
/// null for none.
ROW_KERNEL(void, merge_attention,
           (const AttentionPartial* spans, size_t count, size_t width, const float* sink, float* out))

/// One token of a depthwise convolution, for some of its columns.
ROW_KERNEL(void, causal_conv, (const CausalConvRow& row))
/// Tokens of one head of one sequence. `scratch` has delta_net_scratch_bytes(width) bytes, 64-byte aligned.
ROW_KERNEL(void, delta_net, (const DeltaNetRun& run, uint8_t* scratch))
ROW_KERNEL(size_t, delta_net_scratch_bytes, (size_t width))
/// Tokens of one head of one sequence. `scratch` has ssm_scan_scratch_bytes(state_width) bytes, 64-byte aligned.
ROW_KERNEL(void, ssm_scan, (const SsmScanRun& run, uint8_t* scratch))
ROW_KERNEL(size_t, ssm_scan_scratch_bytes, (size_t state_width))

/// The first index whose value is NaN or infinite, or `count`.
ROW_KERNEL(size_t, find_not_finite, (const float* values, size_t count))
ROW_KERNEL(float, max, (const float* values, size_t count))
/// Sum of exp(values[i] - max_value), in double precision between short runs.
ROW_KERNEL(double, sum_exp, (const float* values, size_t count, float max_value))
/// The first index at or after `from` whose value is greater than `threshold`, or `count`.
ROW_KERNEL(size_t, find_above, (const float* values, size_t count, size_t from, float threshold))
