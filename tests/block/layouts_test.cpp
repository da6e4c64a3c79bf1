// ufp4 - layouts: the 128x4 scale swizzle and split-half nibbles, both ways.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/block/layouts.hpp>

#include <ufp4/block/packing.hpp>
#include <ufp4/format/scales.hpp>

#include <vector>

#include "support/catch.hpp"
#include "support/poison.hpp"

using namespace ufp4;

namespace {

/// cuBLAS documentation, "1D block scaling factors layout": a tile is 128 rows x 4 scales, 512 bytes; tiles row-major.
/// Inside, the order of the bytes is spelled out by walking the tile: 32 lines of 16 bytes; a line holds rows l,
/// l + 32, l + 64, l + 96, four scales each.
std::vector<std::size_t> walked(std::size_t rows, std::size_t cols) {
  const std::size_t none = ~std::size_t{0};
  std::vector<std::size_t> where;  // by byte of the layout: row * cols + col, or none in padding
  for (std::size_t top = 0; top < rows; top += 128)
    for (std::size_t left = 0; left < cols; left += 4)
      for (std::size_t line = 0; line < 32; ++line)
        for (std::size_t quarter = 0; quarter < 4; ++quarter)
          for (std::size_t c = left; c < left + 4; ++c) {
            const std::size_t r = top + line + 32 * quarter;
            where.push_back(r < rows && c < cols ? r * cols + c : none);
          }
  return where;
}

}  // namespace

TEST_CASE("the 128x4 swizzle is the walk over its tiles, padding included, and comes back") {
  for (const std::size_t rows : {0u, 1u, 31u, 32u, 33u, 64u, 127u, 128u, 129u, 160u, 255u, 256u, 300u})
    for (const std::size_t cols : {0u, 1u, 2u, 3u, 4u, 5u, 7u, 8u, 9u, 16u, 17u}) {
      CAPTURE(rows, cols);
      const std::vector<std::size_t> where = walked(rows, cols);
      REQUIRE(compat::swizzled_size(rows, cols) == where.size());
      std::vector<std::uint16_t> scales(rows * cols);
      for (std::size_t i = 0; i < scales.size(); ++i) scales[i] = static_cast<std::uint16_t>(i + 1);
      support::guarded<std::uint16_t> out(where.size(), 1), back(scales.size(), 1);
      compat::swizzle_scales(scales.data(), rows, cols, out.data(), std::uint16_t{0xABCD});
      for (std::size_t i = 0; i < where.size(); ++i)
        REQUIRE(out[i] == (where[i] < scales.size() ? where[i] + 1 : 0xABCD));
      for (std::size_t i = 0; i < where.size(); ++i)
        if (where[i] < scales.size()) REQUIRE(compat::swizzled_index(where[i] / cols, where[i] % cols, cols) == i);
      compat::unswizzle_scales(out.data(), rows, cols, back.data());
      REQUIRE((back.same_bytes(scales) && back.guards_intact() && out.guards_intact()));
    }
}

TEST_CASE("places in the swizzle, by the formula of cuBLAS's documentation") {
  // outer = row, inner = column of the scale: (outer % 32) * 16 + (outer / 32) * 4 + inner within a tile.
  CHECK(compat::swizzled_index(0, 0, 4) == 0);
  CHECK(compat::swizzled_index(0, 3, 4) == 3);
  CHECK(compat::swizzled_index(1, 0, 4) == 16);
  CHECK(compat::swizzled_index(32, 0, 4) == 4);
  CHECK(compat::swizzled_index(33, 1, 4) == 21);
  CHECK(compat::swizzled_index(127, 3, 4) == 511);
  CHECK(compat::swizzled_index(128, 0, 4) == 512);
  CHECK(compat::swizzled_index(0, 4, 8) == 512);
  CHECK(compat::swizzled_index(128, 0, 8) == 1024);
  CHECK(compat::swizzled_index(128, 0, 5) == 1024);  // five scales a row take two tiles
}

TEST_CASE("padding is zero bits unless one says otherwise") {
  const e4m3 one{1.0f};
  std::vector<e4m3> out(compat::swizzled_size(1, 1), one);
  compat::swizzle_scales(&one, 1, 1, out.data());
  CHECK(out[0].bits() == 0x38);
  for (std::size_t i = 1; i < out.size(); ++i) REQUIRE(out[i].bits() == 0);
}

TEST_CASE("split halves: byte j of a block is elements j and j + B/2, and joining them undoes it") {
  for (const std::size_t length : {2u, 4u, 16u, 32u, 64u, 256u})
    for (const std::size_t blocks : {0u, 1u, 2u, 5u}) {
      const std::size_t count = blocks * length;
      std::vector<std::uint8_t> codes(count), packed(count / 2);
      for (std::size_t k = 0; k < count; ++k) codes[k] = static_cast<std::uint8_t>((k * 5 + k / 16 * 3) % 16);
      ufp4::detail::pack_codes(codes.data(), count, packed.data());
      support::guarded<std::uint8_t> split(count / 2), joined(count / 2);
      compat::split_halves(packed.data(), blocks, length, split.data());
      for (std::size_t b = 0; b < blocks; ++b)
        for (std::size_t j = 0; j < length / 2; ++j)
          REQUIRE(split[b * length / 2 + j] == codes[b * length + j] + 16 * codes[b * length + j + length / 2]);
      compat::join_halves(split.data(), blocks, length, joined.data());
      REQUIRE((joined.same_bytes(packed) && joined.guards_intact() && split.guards_intact()));
    }
}

static_assert([] {
  const std::uint8_t packed[2] = {0x21, 0x43};  // 1 2 3 4
  std::uint8_t split[2] = {}, joined[2] = {};
  compat::split_halves(packed, 1, 4, split);
  compat::join_halves(split, 1, 4, joined);
  return split[0] == 0x31 && split[1] == 0x42 && joined[0] == 0x21 && joined[1] == 0x43;
}());
