// ufp4 - one clear message for a bad argument, before anything is written.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <ufp4/detail/compiler.hpp>

namespace ufp4::detail::inline UFP4_CODE {

/// A word of a message as vjoined takes it: its kind, and its value or its address. A check that passes costs a branch.
template <class T>
constexpr char kind_of_word() {
  if (std::is_arithmetic_v<T>) return std::is_floating_point_v<T> ? 'g' : std::is_signed_v<T> ? 'i' : 'u';
  return std::is_same_v<T, std::string> ? 't' : std::is_same_v<T, std::string_view> ? 'v' : 's';
}
template <class T>
constexpr auto passed_word(const T& word) {
  if constexpr (std::is_floating_point_v<T>)
    return static_cast<double>(word);
  else if constexpr (std::is_arithmetic_v<T>)
    return static_cast<std::conditional_t<std::is_signed_v<T>, long long, unsigned long long>>(word);
  else if constexpr (kind_of_word<T>() == 's')
    return static_cast<const char*>(word);
  else
    return &word;
}

template <class... Words>
inline constexpr char kinds_of_words[] = {kind_of_word<Words>()..., 0};

[[gnu::noinline]] inline std::string vjoined(const char* kinds, std::va_list words) {
  std::string text;
  for (char digits[32]; *kinds != 0; ++kinds) {
    const char* next = digits;
    switch (*kinds) {
      case 't': text += *va_arg(words, const std::string*); continue;
      case 'v': text += *va_arg(words, const std::string_view*); continue;
      case 's': next = va_arg(words, const char*); break;
      case 'u': std::snprintf(digits, sizeof digits, "%llu", va_arg(words, unsigned long long)); break;
      case 'i': std::snprintf(digits, sizeof digits, "%lld", va_arg(words, long long)); break;
      default: std::snprintf(digits, sizeof digits, "%.9g", va_arg(words, double));  // tells any two floats apart
    }
    text += next;
  }
  return text;
}
inline std::string joined(const char* kinds, ...) {
  std::va_list words;
  va_start(words, kinds);
  std::string text = vjoined(kinds, words);
  va_end(words);
  return text;
}

/// A message of words and numbers. By value: a literal of any length is one type.
template <class... Words>
std::string concat(Words... words) {
  return joined(kinds_of_words<Words...>, passed_word(words)...);
}

/// Throws Error; without exceptions prints the message and aborts.
template <class Error = std::invalid_argument>
[[noreturn, gnu::cold]] void reject(const std::string& text) {
#if defined(UFP4_NO_EXCEPTIONS)
  std::fprintf(stderr, "%s\n", text.c_str());
  std::abort();
#else
  throw Error(text);
#endif
}

[[noreturn, gnu::cold]] inline void reject_words(const char* kinds, ...) {
  std::va_list words;
  va_start(words, kinds);
  const std::string text = vjoined(kinds, words);
  va_end(words);
  reject(text);
}

/// Rejects with a message unless the condition holds. The message is put together only then.
template <class... Words>
[[gnu::always_inline]] inline void expects(bool condition, Words... words) {
  if (!condition) [[unlikely]]
    reject_words(kinds_of_words<Words...>, passed_word(words)...);
}

}  // namespace ufp4::detail::inline UFP4_CODE
