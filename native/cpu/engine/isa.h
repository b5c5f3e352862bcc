// The instruction sets that this build has kernels for and this machine can run.

#pragma once

#include <string>
#include <vector>

#include "../kernels/kernel-table.h"

namespace rocmforge {

/// Best first; never empty, because every build has the portable kernels.
const std::vector<KernelTable>& kernel_tables();

/// Null for a name that this build or machine does not have.
const KernelTable* find_kernel_table(const std::string& name);

}  // namespace rocmforge
