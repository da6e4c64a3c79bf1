// ufp4 - text of files: UTF-8, text that is safe to print, JSON strings.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <ufp4/detail/compiler.hpp>

namespace ufp4::interop::inline UFP4_CODE {

/// Length of the well-formed UTF-8 sequence at the start of `text`; 0 if there is none.
inline std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const auto tail = [&](std::size_t i) { return (byte(i) & 0xC0u) == 0x80u; };
  const unsigned lead = byte(0);
  if (lead < 0x80) return text.empty() ? 0 : 1;
  if (lead >= 0xC2 && lead < 0xE0) return tail(1) ? 2 : 0;
  if (lead >= 0xE0 && lead < 0xF0) {
    const bool overlong = lead == 0xE0 && byte(1) < 0xA0;
    const bool surrogate = lead == 0xED && byte(1) >= 0xA0;
    return tail(1) && tail(2) && !overlong && !surrogate ? 3 : 0;
  }
  if (lead >= 0xF0 && lead < 0xF5) {
    const bool overlong = lead == 0xF0 && byte(1) < 0x90;
    const bool too_large = lead == 0xF4 && byte(1) >= 0x90;
    return tail(1) && tail(2) && tail(3) && !overlong && !too_large ? 4 : 0;
  }
  return 0;
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

/// Whether the well-formed sequence `text` is a control character, a line separator, or a character that changes the
/// direction of writing or hides text: U+0000 .. 001F, 007F .. 009F, 061C, 200B .. 200F, 2028 .. 202E, 2060 .. 206F,
/// FEFF and E0000 .. E007F.
inline bool is_control(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  if (text.size() == 1) return byte(0) < 0x20 || byte(0) == 0x7F;
  if (text.size() == 2) return (byte(0) == 0xC2 && byte(1) < 0xA0) || text == "\xD8\x9C";  // U+061C
  if (text.size() == 4) return byte(0) == 0xF3 && byte(1) == 0xA0 && byte(2) <= 0x81;      // U+E0000 .. E007F
  if (text.size() != 3) return false;
  if (text == "\xEF\xBB\xBF") return true;  // U+FEFF
  if (byte(0) != 0xE2) return false;
  return (byte(1) == 0x80 && ((byte(2) >= 0x8B && byte(2) <= 0x8F) || (byte(2) >= 0xA8 && byte(2) <= 0xAE))) ||
         (byte(1) == 0x81 && byte(2) >= 0xA0 && byte(2) <= 0xAF);  // U+200B .. 200F, 2028 .. 202E, 2060 .. 206F
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
      out += "\\u00";
      out += digits[byte >> 4];
      out += digits[byte & 15];
      continue;
    }
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

}  // namespace ufp4::interop::inline UFP4_CODE
