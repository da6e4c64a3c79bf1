// ufp4 - one clear message for a bad argument, before anything is written.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <ufp4/detail/compiler.hpp>

namespace ufp4::detail::inline UFP4_CODE {

/// Text or a number of a message. One type for all, so that a message costs a compiler next to nothing.
class word {
 public:
  word(const char* text) : text_(text), is_text_(true) {}
  word(std::string_view text) : text_(text), is_text_(true) {}
  word(const std::string& text) : text_(text), is_text_(true) {}
  template <class T>
    requires std::is_arithmetic_v<T>
  word(T number) : is_float_(std::is_floating_point_v<T>) {
    if constexpr (std::is_signed_v<T>) is_negative_ = number < T(0);
    if constexpr (std::is_floating_point_v<T>)
      real_ = static_cast<double>(number);
    else
      magnitude_ = is_negative_ ? 0 - static_cast<std::uint64_t>(number) : static_cast<std::uint64_t>(number);
  }

  void append_to(std::string& message) const {
    char digits[32];
    if (is_text_)
      message += text_;
    else if (is_float_)  // nine digits tell every binary32 number from its neighbours
      message.append(digits, static_cast<std::size_t>(std::snprintf(digits, sizeof digits, "%.9g", real_)));
    else
      message.append(is_negative_ ? "-" : "").append(std::to_string(magnitude_));
  }

 private:
  std::string_view text_;
  bool is_text_ = false, is_float_ = false, is_negative_ = false;
  double real_ = 0;
  std::uint64_t magnitude_ = 0;
};

inline std::string joined(std::initializer_list<word> words) {
  std::string text;
  for (const word& w : words) w.append_to(text);
  return text;
}

/// A message of words and numbers. By value: a literal of any length is one type.
template <class... Words>
std::string concat(Words... words) {
  return joined({word(words)...});
}

/// Throws Error; without exceptions prints the message and aborts.
template <class Error = std::invalid_argument>
[[noreturn]] void reject(const std::string& text) {
#if defined(UFP4_NO_EXCEPTIONS)
  std::fprintf(stderr, "%s\n", text.c_str());
  std::abort();
#else
  throw Error(text);
#endif
}

/// Rejects with a message unless the condition holds. The message is put together only then.
template <class... Words>
void expects(bool condition, Words... words) {
  if (!condition) [[unlikely]]
    reject(joined({word(words)...}));
}

}  // namespace ufp4::detail::inline UFP4_CODE
