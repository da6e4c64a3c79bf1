// ufp4 - numbers and untrusted strings as text for a terminal, JSON and HTML.
// SPDX-License-Identifier: Apache-2.0
/// Numbers are written by std::to_chars: no locale affects them. Strings from files and command lines are passed
/// through printable() once: they are then valid UTF-8 without control characters, and only need escaping.
#pragma once

#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <ufp4/interop/text.hpp>

namespace compare {

/// `digits` places after the point; "inf", or "-" for NaN.
inline std::string fixed(double value, int digits) {
  if (!std::isfinite(value)) return std::isnan(value) ? "-" : value > 0 ? "inf" : "-inf";
  char buffer[400];  // the largest double has 309 digits before the point
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed, digits).ptr;
  std::string text(buffer, end);
  if (text.front() == '-' && text.find_first_of("123456789") == std::string::npos) text.erase(0, 1);  // "-0.00"
  return text;
}

/// At most `digits` significant digits, with an exponent where that is shorter: "0.03125", "1.5e+30".
inline std::string significant(double value, int digits) {
  if (!std::isfinite(value)) return "-";
  char buffer[64];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::general, digits).ptr};
}

/// The shortest text of the same double, for JSON and CSV; `absent` for NaN and infinities.
inline std::string shortest(double value, std::string_view absent) {
  if (!std::isfinite(value)) return std::string(absent);
  char buffer[32];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr};
}

/// An SQNR in JSON: "inf" without any error, null for NaN.
inline std::string decibels_json(double value) {
  return value == std::numeric_limits<double>::infinity() ? "\"inf\"" : shortest(value, "null");
}

/// 786432 as "786,432".
inline std::string grouped(std::uint64_t value) {
  const std::string digits = std::to_string(value);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

/// A byte count for people: "412.5 KiB".
inline std::string byte_size(double bytes) {
  if (bytes < 1024) return fixed(bytes, 0) + " B";
  if (bytes < 1024 * 1024) return fixed(bytes / 1024, 1) + " KiB";
  if (bytes < 1024.0 * 1024 * 1024) return fixed(bytes / (1024 * 1024), 1) + " MiB";
  return fixed(bytes / (1024.0 * 1024 * 1024), 1) + " GiB";
}

using ufp4::interop::json_text;
using ufp4::interop::printable;

/// Printable text as HTML content or attribute value.
inline std::string html_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: out += c;
    }
  }
  return out;
}

}  // namespace compare
