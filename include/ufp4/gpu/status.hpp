// ufp4 - context and status: the first argument of every operation on a GPU, and its result.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <ufp4/detail/expects.hpp>
#include <ufp4/gpu/listed_kernel.hpp>

namespace ufp4::gpu::inline UFP4_GPU {

/// The result of an operation. Errors of a running kernel are reported by the runtime.
class [[nodiscard]] status {
 public:
  status() = default;
  /// An error of the runtime, or of an argument.
  status(error code, std::string text) : code_(code), text_(static_cast<std::string&&>(text)) {}

  bool ok() const { return code_ == success; }     ///< is the work queued on the stream?
  explicit operator bool() const { return ok(); }  ///< the same
  /// The error of the runtime; invalid_argument for a mistake in the arguments: then nothing was queued.
  error code() const { return code_; }
  /// The host's message for a mistake in the arguments, else the call and the text of the runtime.
  const std::string& text() const { return text_; }

 private:
  error code_ = success;
  std::string text_;
};

/// The first argument of every operation. Operations queue work; none waits or allocates, and graphs can capture all.
struct context {
  stream where{};  ///< work is queued on it
  /// Device memory, aligned to 256 bytes, for calls with workspace_bytes() != 0. Only calls on one stream may share it.
  std::span<std::byte> workspace{};
};

}  // namespace ufp4::gpu::inline UFP4_GPU

namespace ufp4::gpu::detail::inline UFP4_GPU {

/// Details of a failure beside the runtime's error: which function failed, and why. String literals.
struct failure_reason {
  const char* who = nullptr;
  const char* why = nullptr;
};
/// The details of this thread's last failure; status_of takes them.
inline failure_reason& last_failure() {
  thread_local failure_reason reason;
  return reason;
}
inline error failed(error e, const char* who, const char* why) {
  last_failure() = {who, why};
  return e;
}

/// The error of a runtime call as a status that names the operation.
inline status status_of(const char* operation, error e) {
  const failure_reason reason = last_failure();
  last_failure() = {};
  if (e == success) return {};
  if (reason.who != nullptr) return {e, concat(operation, ": ", reason.who, ": ", reason.why)};
  return {e, concat(operation, ": ", error_text(e))};
}

/// The status of body(), or one with the message of a failed check, which without exceptions aborts as on the host.
template <class Body>
status checked(const Body& body) {
#if defined(UFP4_NO_EXCEPTIONS)
  return body();
#else
  try {
    return body();
  } catch (const std::invalid_argument& rejection) {
    return {invalid_argument, rejection.what()};
  }
#endif
}

inline void check_memory(const char* operation, const char* name, std::span<std::byte> memory, std::size_t needed) {
  const auto first = reinterpret_cast<std::uintptr_t>(memory.data());
  expects(needed == 0 || first % 256 == 0, operation, ": ", name, " is not aligned to 256 bytes: address ", first);
  expects(memory.size() >= needed, operation, ": ", name, " is too small: ", memory.size(), " bytes, needs ", needed);
}

/// Kernels count rows, groups of columns and tiles of 4096 elements in 32 bits.
inline void check_places(const char* operation, const char* name, std::size_t rows, std::size_t cols) {
  constexpr std::size_t most = 0xFFFFF000u, elements = std::size_t{1} << 42;
  expects(rows <= most && cols <= most && (rows == 0 || cols <= elements / rows), operation, ": ", name, " is ", rows,
          " x ", cols, "; on a GPU a matrix has at most 2^32 - 4096 rows and columns, and 2^42 elements");
}

/// Queues one thread for each of `items`; nothing for none.
template <class Job>
error launch_each(const listed_kernel<Job>& kernel, std::size_t items, unsigned threads, std::size_t shared_bytes,
                  stream where, const Job& job) {
  if (items == 0) return success;
  return launch(kernel, {static_cast<unsigned>((items + threads - 1) / threads)}, {threads}, shared_bytes, where, job);
}

}  // namespace ufp4::gpu::detail::inline UFP4_GPU
