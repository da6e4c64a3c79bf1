// ufp4 - context: the stream on which a operation runs, and the memory that it may use.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <ufp4/gpu/status.hpp>

namespace ufp4::gpu::inline UFP4_GPU {

/// Every operation takes one as its first argument. Operations queue work on the stream and return; none waits, none
/// allocates, and all can be captured into a graph.
///
/// | where     | the stream                                                                                        |
/// | workspace | device memory, on 256 bytes, for the calls whose workspace_bytes() is not 0; calls on one stream may |
/// |           | share it, calls on two may not                                                                      |
struct context {
  stream where{};
  std::span<std::byte> workspace{};
};

}  // namespace ufp4::gpu::inline UFP4_GPU

namespace ufp4::gpu::detail::inline UFP4_GPU {

inline void check_workspace(const char* operation, const context& ctx, std::size_t needed) {
  const auto first = reinterpret_cast<std::uintptr_t>(ctx.workspace.data());
  ufp4::detail::expects(needed == 0 || first % 256 == 0, operation, ": context.workspace begins at address ", first,
                        ", not a multiple of 256");
  ufp4::detail::expects(ctx.workspace.size() >= needed, operation, ": context.workspace has ", ctx.workspace.size(),
                        " bytes, but the call needs ", needed);
}

}  // namespace ufp4::gpu::detail::inline UFP4_GPU
