// ufp4 - reading JSON text once, front to back.
// SPDX-License-Identifier: Apache-2.0
/// For texts of known structure: the caller asks for the value that must follow and skips others. Every member returns
/// false where the text differs from what was asked for, and none reads past the end. Nesting is bounded.
#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <ufp4/detail/compiler.hpp>

namespace ufp4::interop::inline UFP4_CODE {

/// A position in a text, which must outlive it.
class json_cursor {
 public:
  explicit json_cursor(std::string_view text) : rest_(text) {}  ///< `text` must outlive the cursor

  /// Whether the next character, after white space, is c.
  bool at(char c) {
    skip_space();
    return !rest_.empty() && rest_.front() == c;
  }

  /// The same; moves behind it.
  bool take(char c) {
    if (!at(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }

  /// The text that has not been read.
  std::string_view rest() const { return rest_; }

  /// Whether only white space is left.
  bool at_end() {
    skip_space();
    return rest_.empty();
  }

  /// An integer from 0 to 2^64 - 1.
  bool unsigned_number(std::uint64_t& out) {
    skip_space();
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), out);
    if (error != std::errc{}) return false;
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    return rest_.empty() || rest_.find_first_of(".eE") != 0;  // 1.5 is not the integer 1
  }

  /// A string, its escape sequences decoded.
  bool string(std::string& out) {
    out.clear();
    if (!take('"')) return false;
    while (!rest_.empty()) {
      const char c = next();
      if (c == '"') return true;
      if (static_cast<unsigned char>(c) < 0x20) return false;
      if (c != '\\')
        out += c;
      else if (!escape(out))
        return false;
    }
    return false;
  }

  /// Calls `member(name)` at each value of an object; the callee must consume that value.
  template <class Member>
  bool object(Member member) {
    return list('{', '}', [&] {
      std::string name;
      return string(name) && take(':') && member(name);
    });
  }

  /// Calls `element()` at each value of an array; the callee must consume that value.
  template <class Element>
  bool array(Element element) {
    return list('[', ']', element);
  }

  /// That word; moves behind it.
  bool take_word(std::string_view word) {
    skip_space();
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }

  /// The text before the next `end`; moves behind that.
  bool until(char end, std::string& out) {
    const std::size_t length = rest_.find(end);
    if (length == std::string_view::npos) return false;
    out = rest_.substr(0, length);
    rest_.remove_prefix(length + 1);
    return true;
  }

  /// Any value, nested at most `depth` levels deep.
  bool skip_value(int depth = 32) {
    if (depth == 0) return false;
    std::string ignored;
    if (at('{')) return object([&](const std::string&) { return skip_value(depth - 1); });
    if (at('[')) return array([&] { return skip_value(depth - 1); });
    if (at('"')) return string(ignored);
    const std::size_t length = rest_.find_first_not_of("+-.0123456789abcdefghijklmnopqrstuvwxyzEIN");  // numbers, words
    if (length == 0 || rest_.empty()) return false;
    rest_.remove_prefix(length == std::string_view::npos ? rest_.size() : length);
    return true;
  }

 private:
  void skip_space() {
    while (!rest_.empty() && std::string_view(" \t\r\n").find(rest_.front()) != std::string_view::npos) next();
  }

  char next() {
    const char c = rest_.front();
    rest_.remove_prefix(1);
    return c;
  }

  template <class Element>
  bool list(char open, char close, const Element& element) {
    if (!take(open)) return false;
    if (take(close)) return true;
    do {
      if (!element()) return false;
    } while (take(','));
    return take(close);
  }

  bool hex4(std::uint32_t& out) {
    if (rest_.size() < 4) return false;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + 4, out, 16);
    if (error != std::errc{} || end != rest_.data() + 4) return false;
    rest_.remove_prefix(4);
    return true;
  }

  bool escape(std::string& out) {
    if (rest_.empty()) return false;
    const char c = next();
    constexpr std::string_view from = "\"\\/bfnrt", to = "\"\\/\b\f\n\r\t";
    if (const std::size_t which = from.find(c); which != std::string_view::npos) {
      out += to[which];
      return true;
    }
    std::uint32_t code = 0, low = 0;
    if (c != 'u' || !hex4(code)) return false;
    if (code >= 0xD800 && code < 0xDC00) {  // the first half of a surrogate pair
      if (!rest_.starts_with("\\u")) return false;
      rest_.remove_prefix(2);
      if (!hex4(low) || low < 0xDC00 || low > 0xDFFF) return false;
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    } else if (code >= 0xDC00 && code < 0xE000) {
      return false;
    }
    append_utf8(out, code);
    return true;
  }

  static void append_utf8(std::string& out, std::uint32_t code) {
    const auto put = [&](std::uint32_t byte) { out += static_cast<char>(static_cast<unsigned char>(byte)); };
    if (code < 0x80) return put(code);
    if (code < 0x800)
      put(0xC0 | code >> 6);
    else if (code < 0x10000)
      put(0xE0 | code >> 12), put(0x80 | (code >> 6 & 0x3F));
    else
      put(0xF0 | code >> 18), put(0x80 | (code >> 12 & 0x3F)), put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  }

  std::string_view rest_;
};

}  // namespace ufp4::interop::inline UFP4_CODE
