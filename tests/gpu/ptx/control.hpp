// ufp4 - the PTX interpreter: branches, calls, returns and exits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gpu/ptx/state.hpp"

namespace ptx {

void branch(warp& w, const instruction& i, mask m);
/// out: for each parameter target, source, bytes, in the threads' memory; b numbers of them. After them the same of the
/// results, for the return.
void call_function(warp& w, const instruction& i, mask m);
void return_from(warp& w, const instruction& i, mask m);
void exit_lanes(warp& w, const instruction& i, mask m);
void trap(warp& w, const instruction& i, mask m);

}  // namespace ptx
