// ufp4 - status: what became of a operation that was asked to run on a GPU.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>
#include <ufp4/detail/expects.hpp>
#include <ufp4/gpu/vendor.hpp>

namespace ufp4::gpu::inline UFP4_GPU {

/// | ok()   | the work is queued on the stream; what a kernel does later is reported by the runtime as ever         |
/// | code() | the runtime's error; invalid_argument for a mistake in the arguments, and then nothing was queued     |
/// | text() | one message: the host operations' own for a mistake in the arguments, else the call and the runtime's |
/// |        | text                                                                                                  |
class [[nodiscard]] status {
 public:
  status() = default;
  status(error code, std::string text) : code_(code), text_(static_cast<std::string&&>(text)) {}

  bool ok() const { return code_ == success; }
  explicit operator bool() const { return ok(); }
  error code() const { return code_; }
  const std::string& text() const { return text_; }

 private:
  error code_ = success;
  std::string text_;
};

}  // namespace ufp4::gpu::inline UFP4_GPU

namespace ufp4::gpu::detail::inline UFP4_GPU {

/// What a kernel's launcher knows of a failure beyond the runtime's error: who failed, and how. Strings that stay.
struct failure_reason {
  const char* who = nullptr;
  const char* why = nullptr;
};
/// Of this thread's last failure; status_of takes it.
inline failure_reason& last_failure() {
  thread_local failure_reason reason;
  return reason;
}
/// e, remembering the reason.
inline error failed(error e, const char* who, const char* why) {
  last_failure() = {who, why};
  return e;
}

/// A runtime call's error as a status that names the operation.
inline status status_of(const char* operation, error e) {
  const failure_reason reason = last_failure();
  last_failure() = {};
  if (e == success) return {};
  if (reason.who != nullptr) return {e, ufp4::detail::concat(operation, ": ", reason.who, ": ", reason.why)};
  return {e, ufp4::detail::concat(operation, ": ", error_text(e))};
}

/// body(), a status, with a rejection of its checks as a status too. Without exceptions a rejection aborts, as on the
/// host.
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
