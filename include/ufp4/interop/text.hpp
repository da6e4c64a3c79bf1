// ufp4 - text of files: UTF-8, text that is safe to print, JSON strings.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <ufp4/detail/compiler.hpp>

namespace ufp4::interop::inline UFP4_CODE {

/// The first entry of a list whose member is `key`, or nullptr.
template <class List, class Member, class Key>
constexpr auto* find_entry(const List& list, Member member, const Key& key) {
  const auto* const found = std::ranges::find(list, key, member);
  return found == std::end(list) ? nullptr : found;
}

/// Length of the well-formed UTF-8 sequence at the start of `text`; 0 if there is none.
inline std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const unsigned lead = byte(0);
  if (lead < 0x80) return text.empty() ? 0 : 1;
  if (lead < 0xC2 || lead > 0xF4) return 0;
  const std::size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  // The second byte excludes overlong forms, surrogates and what exceeds U+10FFFF.
  const unsigned least = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned most = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  bool valid = byte(1) >= least && byte(1) <= most;
  for (std::size_t i = 2; i < length; ++i) valid = valid && (byte(i) & 0xC0u) == 0x80u;
  return valid ? length : 0;
}

/// Whether all of `text` is well-formed UTF-8.
inline bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

/// Whether the well-formed `text` is a control character or a line separator, or hides text or changes its direction.
inline bool is_control(std::string_view text) {
  constexpr std::uint32_t ranges[][2] = {{0, 0x1F},        {0x7F, 0x9F},     {0x61C, 0x61C},   {0x200B, 0x200F},
                                         {0x2028, 0x202E}, {0x2060, 0x206F}, {0xFEFF, 0xFEFF}, {0xE0000, 0xE007F}};
  const std::size_t length = text.size();
  auto code = static_cast<std::uint32_t>(static_cast<unsigned char>(text[0]) & (length == 1 ? 0x7Fu : 0x7Fu >> length));
  for (const char c : text.substr(1)) code = code << 6 | (static_cast<unsigned char>(c) & 0x3Fu);
  return std::ranges::any_of(ranges, [code](const auto& range) { return code >= range[0] && code <= range[1]; });
}

/// `text` for messages: bytes that are not UTF-8 and control characters (is_control) become '?', and the text is cut
/// after about 200 bytes. So text from a file cannot send escape sequences to a terminal or fill the screen.
inline std::string printable(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    if (shown.size() > 200) return shown + "...";
    const std::size_t length = utf8_length(text);
    if (length == 0 || is_control(text.substr(0, length)))
      shown.append(length == 0 ? 1 : length, '?');
    else
      shown += text.substr(0, length);
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return shown;
}

/// A JSON string literal. `text` must be UTF-8.
inline std::string json_text(std::string_view text) {
  constexpr char digits[] = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20) {
      out += std::string("\\u00") + digits[byte >> 4] + digits[byte & 15];
      continue;
    }
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

}  // namespace ufp4::interop::inline UFP4_CODE
