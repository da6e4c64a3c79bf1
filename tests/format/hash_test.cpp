// ufp4 - std::hash: equal values have equal hashes, different values have different ones.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/format/hash.hpp>

#include "support/catch.hpp"
#include "support/formats.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <unordered_map>
#include <unordered_set>

using namespace ufp4;

namespace {

struct repeated_levels {
  static constexpr float values[16] = {1, 1, -0.0f, 2, 0, 3, 3, 4, 4, -1, -1, 0, 0, 5, -2, 1};
};

}  // namespace

TEMPLATE_LIST_TEST_CASE("equal values have equal hashes, and there are as many hashes as values", "[format][hash]",
                        support::byte_types) {
  const std::hash<TestType> hash;
  std::set<std::size_t> hashes;
  std::set<float> numbers;
  for (unsigned a = 0; a < 256; ++a) {
    const auto x = TestType::from_bits(static_cast<std::uint8_t>(a));
    if (!(x == x)) continue;  // NaN
    hashes.insert(hash(x));
    numbers.insert(static_cast<float>(x));
    for (unsigned b = 0; b < 256; ++b) {
      const auto y = TestType::from_bits(static_cast<std::uint8_t>(b));
      if (x == y && hash(x) != hash(y)) FAIL("codes " << a << " and " << b);
    }
  }
  CHECK(hashes.size() == numbers.size());
}

TEMPLATE_LIST_TEST_CASE("16-bit values: both zeros have the same hash, other codes have hashes of their own",
                        "[format][hash]", support::half_types) {
  const std::hash<TestType> hash;
  CHECK(hash(TestType::from_bits(0x8000)) == hash(TestType::from_bits(0)));
  std::set<std::size_t> hashes;
  for (std::uint32_t c = 0; c < 0x10000; ++c) hashes.insert(hash(TestType::from_bits(static_cast<std::uint16_t>(c))));
  CHECK(hashes.size() == 0xFFFF);
}

TEST_CASE("the codes of one value in a table hash alike, and other values differ", "[format][hash]") {
  using repeated = table_element<repeated_levels>;
  const std::hash<repeated> hash;
  std::set<std::size_t> hashes;
  for (std::uint8_t a = 0; a < 16; ++a) {
    hashes.insert(hash(repeated::from_bits(a)));
    for (std::uint8_t b = 0; b < 16; ++b)
      if (repeated_levels::values[a] == repeated_levels::values[b])
        CHECK(hash(repeated::from_bits(a)) == hash(repeated::from_bits(b)));
  }
  CHECK(hashes.size() == 8);
}

TEST_CASE("numbers are keys of unordered containers", "[format][hash]") {
  std::unordered_map<fp4<E2M1>, int> count;
  for (const float x : {0.0f, -0.0f, 0.1f, 6.0f, 100.0f, -6.0f}) ++count[fp4<E2M1>{x}];
  CHECK(count.size() == 3);
  CHECK(count[fp4<E2M1>{0.0f}] == 3);
  CHECK(count[fp4<E2M1>{6.0f}] == 2);
  CHECK(std::unordered_set<e4m3>{e4m3{1.0f}, e4m3{1.0f}, e4m3{-1.0f}}.size() == 2);
}
