// ufp4 - context: the stream on which an operation runs, and the memory that it may use.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <ufp4/gpu/status.hpp>

namespace ufp4::gpu::inline UFP4_GPU {

/// The first argument of every operation. Operations queue work on the stream and return; none waits, none allocates,
/// and all can be captured into a graph.
///
/// | where     | the stream                                                                                      |
/// | workspace | device memory, aligned to 256 bytes, for calls whose workspace_bytes() is not 0. Calls on one   |
/// |           | stream may share it, calls on different streams must not                                        |
struct context {
  stream where{};                    ///< work is queued on it
  std::span<std::byte> workspace{};  ///< device memory, aligned to 256 bytes
};

}  // namespace ufp4::gpu::inline UFP4_GPU

namespace ufp4::gpu::detail::inline UFP4_GPU {

inline void check_memory(const char* operation, const char* name, std::span<std::byte> memory, std::size_t needed) {
  const auto first = reinterpret_cast<std::uintptr_t>(memory.data());
  ufp4::detail::expects(needed == 0 || first % 256 == 0, operation, ": ", name,
                        " is not aligned to 256 bytes: address ", first);
  ufp4::detail::expects(memory.size() >= needed, operation, ": ", name, " is too small: ", memory.size(),
                        " bytes, needs ", needed);
}
inline void check_workspace(const char* operation, const context& ctx, std::size_t needed) {
  check_memory(operation, "context.workspace", ctx.workspace, needed);
}

}  // namespace ufp4::gpu::detail::inline UFP4_GPU
