// ufp4 - the PTX interpreter: arrivals at mbarrier objects, which copies make too.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gpu/ptx/state.hpp"

namespace ptx {

void arrive(memory_barrier& b, std::uint32_t count);
/// Begins the next phase if neither arrivals nor bytes are missing.
void complete_if_ready(memory_barrier& b);

}  // namespace ptx
