// ufp4 - fingerprint: a 64-bit hash that detects damaged or exchanged data. Not cryptographic.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace train_lm {

/// FNV-1a (draft-eastlake-fnv), 64 bits.
class fingerprint {
 public:
  fingerprint& add(const void* data, std::size_t bytes) {
    const auto* at = static_cast<const unsigned char*>(data);
    for (std::size_t i = 0; i < bytes; ++i) value_ = (value_ ^ at[i]) * 0x100000001B3u;
    return *this;
  }
  fingerprint& add(std::string_view text) { return add(text.data(), text.size()); }

  std::uint64_t value() const { return value_; }
  /// Sixteen hexadecimal digits.
  std::string text() const {
    std::string digits(16, '0');
    for (std::size_t i = 0; i < 16; ++i) digits[15 - i] = "0123456789abcdef"[value_ >> (4 * i) & 15];
    return digits;
  }

 private:
  std::uint64_t value_ = 0xCBF29CE484222325u;
};

}  // namespace train_lm
