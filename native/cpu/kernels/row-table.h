// The row kernels of one instruction set as a table. Included by the isa-*-rows.cpp, each of which names its simd
// layer.

#pragma once

#include "attention.h"
#include "causal-conv.h"
#include "delta-net.h"
#include "expert-router.h"
#include "kernel-table.h"
#include "kv-cells.h"
#include "logits.h"
#include "row-kernels.h"
#include "ssm-scan.h"

namespace rocmforge {
namespace {

// A name that the vectors of the simd layer share (add, max) means the function with the list's parameters.
constexpr RowKernels kRowKernels = {
#define ROW_KERNEL(result, name, parameters) name,
#include "row-kernel-list.h"
#undef ROW_KERNEL
};

}  // namespace
}  // namespace rocmforge
