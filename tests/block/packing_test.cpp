// ufp4 - packing: two codes a byte, the even element in the low nibble.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/block/packing.hpp>

#include <vector>

#include "support/catch.hpp"
#include "support/poison.hpp"

using namespace ufp4;

TEST_CASE("every pair of codes packs to low + 16 * high and comes back") {
  for (std::uint8_t low = 0; low < 16; ++low)
    for (std::uint8_t high = 0; high < 16; ++high) {
      const std::uint8_t codes[2] = {low, high};
      std::uint8_t byte = 0xA5, back[2] = {0xA5, 0xA5};
      ufp4::detail::pack_codes(codes, 2, &byte);
      REQUIRE(byte == low + 16 * high);
      ufp4::detail::unpack_codes(&byte, 2, back);
      REQUIRE((back[0] == low && back[1] == high));
      REQUIRE((ufp4::detail::code_at(&byte, 0) == low && ufp4::detail::code_at(&byte, 1) == high));
    }
}

TEST_CASE("count elements take count / 2 bytes, no more") {
  for (std::size_t count = 0; count <= 70; count += 2) {
    std::vector<std::uint8_t> codes(count);
    for (std::size_t k = 0; k < count; ++k) codes[k] = static_cast<std::uint8_t>(k * 7 % 16);
    support::guarded<std::uint8_t> packed(count / 2), back(count);
    ufp4::detail::pack_codes(codes.data(), count, packed.data());
    ufp4::detail::unpack_codes(packed.data(), count, back.data());
    REQUIRE((packed.guards_intact() && back.guards_intact() && back.same_bytes(codes)));
    for (std::size_t k = 0; k < count; ++k) REQUIRE(ufp4::detail::code_at(packed.data(), k) == codes[k]);
  }
}

static_assert([] {
  const std::uint8_t codes[4] = {1, 2, 3, 4};
  std::uint8_t packed[2] = {};
  ufp4::detail::pack_codes(codes, 4, packed);
  return packed[0] == 0x21 && packed[1] == 0x43 && ufp4::detail::code_at(packed, 3) == 4;
}());
