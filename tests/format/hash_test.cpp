// ufp4 - std::hash: equal values hash alike, other values differ.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/format/hash.hpp>

#include "support/catch.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <unordered_map>
#include <unordered_set>

using ufp4::bf16;
using ufp4::E1M2;
using ufp4::E2M1;
using ufp4::E3M0;
using ufp4::e4m3;
using ufp4::e8m0;
using ufp4::fp16;
using ufp4::fp4;
using ufp4::nf4;
using ufp4::ue5m3;

TEMPLATE_TEST_CASE("equal values have equal hashes, and there are as many hashes as values", "[format][hash]",
                   fp4<E2M1>, fp4<E1M2>, fp4<E3M0>, ufp4::int4, nf4, e4m3, ue5m3, e8m0) {
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

TEMPLATE_TEST_CASE("16-bit values: both zeros hash alike, all else by its code", "[format][hash]", bf16, fp16) {
  const std::hash<TestType> hash;
  CHECK(hash(TestType::from_bits(0x8000)) == hash(TestType::from_bits(0)));
  std::set<std::size_t> hashes;
  for (std::uint32_t c = 0; c < 0x10000; ++c) hashes.insert(hash(TestType::from_bits(static_cast<std::uint16_t>(c))));
  CHECK(hashes.size() == 0xFFFF);
}

TEST_CASE("numbers are keys of unordered containers", "[format][hash]") {
  std::unordered_map<fp4<E2M1>, int> count;
  for (const float x : {0.0f, -0.0f, 0.1f, 6.0f, 100.0f, -6.0f}) ++count[fp4<E2M1>{x}];
  CHECK(count.size() == 3);
  CHECK(count[fp4<E2M1>{0.0f}] == 3);
  CHECK(count[fp4<E2M1>{6.0f}] == 2);
  CHECK(std::unordered_set<e4m3>{e4m3{1.0f}, e4m3{1.0f}, e4m3{-1.0f}}.size() == 2);
}
