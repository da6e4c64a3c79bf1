// ufp4 - status: the result of an operation on a GPU.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>
#include <ufp4/detail/expects.hpp>
#include <ufp4/gpu/vendor.hpp>

namespace ufp4::gpu::inline UFP4_GPU {

/// | ok()   | the work is queued on the stream; errors of the running kernel are reported by the runtime          |
/// | code() | the error of the runtime; invalid_argument for a mistake in the arguments: then nothing was queued  |
/// | text() | one message: the host's for a mistake in the arguments, else the call and the text of the runtime   |
class [[nodiscard]] status {
 public:
  status() = default;
  /// An error of the runtime, or of an argument.
  status(error code, std::string text) : code_(code), text_(static_cast<std::string&&>(text)) {}

  bool ok() const { return code_ == success; }     ///< whether the work is queued
  explicit operator bool() const { return ok(); }  ///< the same
  error code() const { return code_; }             ///< of the runtime
  const std::string& text() const { return text_; }

 private:
  error code_ = success;
  std::string text_;
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
/// Returns e and stores the details.
inline error failed(error e, const char* who, const char* why) {
  last_failure() = {who, why};
  return e;
}

/// The error of a runtime call as a status that names the operation.
inline status status_of(const char* operation, error e) {
  const failure_reason reason = last_failure();
  last_failure() = {};
  if (e == success) return {};
  if (reason.who != nullptr) return {e, ufp4::detail::concat(operation, ": ", reason.who, ": ", reason.why)};
  return {e, ufp4::detail::concat(operation, ": ", error_text(e))};
}

/// The status that body() returns, or a status with the message of a failed check. Without exceptions a failed check
/// aborts, as on the host.
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

}  // namespace ufp4::gpu::detail::inline UFP4_GPU
