// ufp4 - one clear sentence for a bad argument, before anything is written.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <ufp4/detail/compiler.hpp>

namespace ufp4::detail::inline UFP4_TYPES {

template <class T>
std::string word(const T& value) {
  if constexpr (std::is_floating_point_v<T>) {
    char text[32];  // nine digits tell every binary32 number from its neighbours
    std::snprintf(text, sizeof text, "%.9g", static_cast<double>(value));
    return text;
  } else if constexpr (std::is_arithmetic_v<T>)
    return std::to_string(value);
  else
    return std::string(value);
}

/// A sentence of words and numbers.
template <class... Words>
std::string sentence(const Words&... words) {
  std::string text;
  ((text += word(words)), ...);
  return text;
}

/// Throws std::invalid_argument; without exceptions prints the sentence and aborts.
[[noreturn]] inline void refuse(const std::string& text) {
#if defined(UFP4_NO_EXCEPTIONS)
  std::fprintf(stderr, "%s\n", text.c_str());
  std::abort();
#else
  throw std::invalid_argument(text);
#endif
}

/// Refuses with a sentence unless the condition holds. The sentence is put together only then.
template <class... Words>
void expects(bool condition, const Words&... words) {
  if (!condition) [[unlikely]]
    refuse(sentence(words...));
}

}  // namespace ufp4::detail::inline UFP4_TYPES
