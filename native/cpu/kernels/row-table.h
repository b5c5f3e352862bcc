// The row kernels of one instruction set as a table. Included by the isa-*-rows.cpp, each of which names its simd
// layer.

#pragma once

#include "attention.h"
#include "kernel-table.h"
#include "kv-cells.h"
#include "logits.h"
#include "row-kernels.h"

namespace rocmforge {
namespace {

constexpr RowKernels kRowKernels = {
    rms_norm,
    quantize_activations,
    rope,
    glu,
    add_rows,
    epilogue_row,
    scale_row,
    convert_row,
    store_kv,
    attend,
    attention_scratch_bytes,
    merge_attention,
    find_not_finite,
    find_max,
    sum_exp,
    find_above,
};

}  // namespace
}  // namespace rocmforge
