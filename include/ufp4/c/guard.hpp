// ufp4 - the border between C and C++: no exception leaves, and the message of a failure is kept for its thread.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ufp4/ufp4.h>
#include <cstring>
#include <new>
#include <ufp4/detail/expects.hpp>

namespace ufp4::c::detail::inline UFP4_CODE {

/// The message of a thread's last failure, cut to fit. An array, so that out of memory has a message too.
struct kept_message {
  char text[1024] = "";
  void keep(const char* message) {
    const std::size_t length = std::strlen(message), most = sizeof text - 1;
    std::memcpy(text, message, length < most ? length : most);
    text[length < most ? length : most] = 0;
  }
};
inline thread_local kept_message last_failure;

inline std::int32_t failed(std::int32_t status, const char* message) {
  last_failure.keep(message);
  return status;
}

/// Runs the body of a function of the C interface; what it throws becomes a status and a message.
template <class Body>
std::int32_t guarded(const char* function, const Body& body) noexcept {
#if defined(UFP4_NO_EXCEPTIONS)
  body();
  return UFP4_OK;
#else
  try {
    body();
    return UFP4_OK;
  } catch (const std::invalid_argument& e) {
    return failed(UFP4_INVALID_ARGUMENT, e.what());
  } catch (const std::bad_alloc&) {
    char text[64];
    std::snprintf(text, sizeof text, "%s: out of memory", function);
    return failed(UFP4_OUT_OF_MEMORY, text);
  } catch (const std::exception& e) {
    return failed(UFP4_INTERNAL_ERROR, e.what());
  } catch (...) {
    return failed(UFP4_INTERNAL_ERROR, "an exception that is no std::exception");
  }
#endif
}

}  // namespace ufp4::c::detail::inline UFP4_CODE
