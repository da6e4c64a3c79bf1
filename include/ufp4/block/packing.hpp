// ufp4 - packs two codes of 4 bits into a byte: the even element in the low nibble.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <ufp4/detail/compiler.hpp>

namespace ufp4::detail::inline UFP4_CODE {

/// Packs `count` codes, one in a byte, into count / 2 bytes. count is even.
UFP4_HD constexpr void pack_codes(const std::uint8_t* codes, std::size_t count, std::uint8_t* packed) {
  for (std::size_t i = 0; i < count / 2; ++i)
    packed[i] = static_cast<std::uint8_t>(codes[2 * i] | codes[2 * i + 1] << 4);
}

/// Unpacks count / 2 bytes into `count` codes, one in a byte. count is even.
UFP4_HD constexpr void unpack_codes(const std::uint8_t* packed, std::size_t count, std::uint8_t* codes) {
  for (std::size_t i = 0; i < count / 2; ++i) {
    codes[2 * i] = packed[i] & 15u;
    codes[2 * i + 1] = packed[i] >> 4;
  }
}

/// The code of element k of a packed row.
UFP4_HD constexpr std::uint8_t code_at(const std::uint8_t* packed, std::size_t k) {
  return packed[k / 2] >> (4 * (k & 1)) & 15u;
}

}  // namespace ufp4::detail::inline UFP4_CODE
