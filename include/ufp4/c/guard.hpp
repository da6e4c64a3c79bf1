// ufp4 - the border between C and C++: no exception leaves, and the message of a failure is kept for its thread.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ufp4/ufp4.h>
#include <cstring>
#include <new>
#include <ufp4/detail/expects.hpp>
#include <utility>

namespace ufp4::c::detail::inline UFP4_CODE {

/// The function of the C interface that this thread is in, for messages.
inline thread_local const char* function = "";
/// While it lives, that function has another name.
struct called {
  const char* before;
  explicit called(const char* name) : before(std::exchange(function, name)) {}
  called(const called&) = delete;
  ~called() { function = before; }
};
/// As ufp4::detail::expects; the message begins with the function.
template <class... Words>
[[gnu::always_inline]] inline void expects(bool condition, Words... words) {
  ufp4::detail::expects(condition, function, ": ", words...);
}

/// The message of a thread's last failure, cut to fit. An array, so that out of memory has a message too.
struct kept_message {
  char text[1024] = "";
  /// Keeps `name: problem`. What failed may be a C++ operation, whose name the caller does not know.
  void keep(const char* name, const char* message) {
    const std::size_t own = std::strlen(name);
    if (std::strncmp(message, name, own) == 0 && (message[own] == ':' || message[own] == ',')) {
      std::snprintf(text, sizeof text, "%s", message);
      return;
    }
    const std::size_t operation = std::strspn(message, "abcdefghijklmnopqrstuvwxyz_0123456789");
    const bool names_one = message[operation] == ':' && message[operation + 1] == ' ';
    std::snprintf(text, sizeof text, "%s: %s", name, message + (operation != 0 && names_one ? operation + 2 : 0));
  }
};
inline thread_local kept_message last_failure;

inline std::int32_t failed(std::int32_t status, const char* message) {
  last_failure.keep(function, message);
  return status;
}

/// Runs the body of a function of the C interface; what it throws becomes a status and a message.
template <class Body>
std::int32_t guarded(const char* name, const Body& body) noexcept {
  const called as(name);
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
    return failed(UFP4_OUT_OF_MEMORY, "out of memory");
  } catch (const std::exception& e) {
    return failed(UFP4_INTERNAL_ERROR, e.what());
  } catch (...) {
    return failed(UFP4_INTERNAL_ERROR, "an exception that is no std::exception");
  }
#endif
}

}  // namespace ufp4::c::detail::inline UFP4_CODE
