// ufp4 - Philox4x32-10 agrees with published vectors and with a second implementation.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/round/philox.hpp>

#include "support/catch.hpp"
#include "support/philox.hpp"
#include "support/seed.hpp"

#include <array>
#include <cstdint>
#include <random>

namespace {

struct vector {
  ufp4::detail::philox_counter counter;
  std::uint64_t key;
  std::uint32_t want[4];
};

// Random123's kat_vectors. Their key words are (low, high): a4093822 299f31d0 is the third.
constexpr vector published[] = {
    {{{0, 0, 0, 0}}, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    {{{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}},
     0xffffffffffffffff,
     {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    {{{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}},
     0x299f31d0a4093822,
     {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
};

constexpr bool gives(const vector& v) {
  const ufp4::detail::philox_counter got = ufp4::philox4x32(v.counter, v.key);
  for (int w = 0; w < 4; ++w) {
    if (got.word[w] != v.want[w]) return false;
  }
  return true;
}
static_assert(gives(published[0]) && gives(published[1]) && gives(published[2]));

}  // namespace

TEST_CASE("Philox4x32-10 returns the published vectors at run time too", "[round][philox]") {
  for (vector v : published) {
    const volatile std::uint64_t key = v.key;  // not foldable
    const ufp4::detail::philox_counter got = ufp4::philox4x32(v.counter, key);
    for (int w = 0; w < 4; ++w) CHECK(got.word[w] == v.want[w]);
  }
}

TEST_CASE("Philox4x32-10 agrees with a second implementation", "[round][philox]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed()};
  const auto word = [&] {  // extremes as often as anything else
    const auto r = gen();
    return r >> 62 == 0 ? 0u : r >> 62 == 1 ? 0xFFFFFFFFu : static_cast<std::uint32_t>(r);
  };
  int wrong = 0;
  for (int k = 0; k < 20000; ++k) {
    const std::array<std::uint32_t, 4> c{word(), word(), word(), word()};
    const std::uint64_t key = static_cast<std::uint64_t>(word()) << 32 | word();
    const std::array<std::uint32_t, 4> want = model::philox(c, key);
    const ufp4::detail::philox_counter got = ufp4::philox4x32({{c[0], c[1], c[2], c[3]}}, key);
    for (std::size_t w = 0; w < 4; ++w) wrong += got.word[w] != want[w];
  }
  CHECK(wrong == 0);
}
