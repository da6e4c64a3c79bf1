// ufp4 - all 2^32 floats through every scalar conversion, against a search in a table of values.
// SPDX-License-Identifier: Apache-2.0
//
// Within one sign the codes of the model are runs of equal ones, so it is asked where each run ends, by bisection, and
// not about every float.
#include <ufp4/format/fp4.hpp>
#include <ufp4/format/grid.hpp>
#include <ufp4/format/int4.hpp>
#include <ufp4/format/scales.hpp>
#include <ufp4/format/table_element.hpp>
#include <ufp4/round/round_to_grid.hpp>

#include "format/scalar_model.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

namespace {

constexpr std::uint32_t chunk = 1u << 24;  // divides the patterns of one sign

/// Compares `convert` with the model over 2^24 patterns from `first`.
template <class Convert>
scalar::comparison sweep_chunk(const scalar::conversion& want, Convert convert, std::uint32_t first) {
  scalar::comparison seen;
  const std::uint64_t end = std::uint64_t{first} + chunk;
  for (std::uint64_t x = first; x < end;) {
    const std::uint32_t code = want(static_cast<std::uint32_t>(x));
    std::uint64_t last = x, beyond = end;  // the run holds `last` and ends before `beyond`
    while (beyond - last > 1) {
      const std::uint64_t middle = last + (beyond - last) / 2;
      (want(static_cast<std::uint32_t>(middle)) == code ? last : beyond) = middle;
    }
    for (; x < beyond; ++x) {
      const auto bits = static_cast<std::uint32_t>(x);
      seen.check(bits, convert(scalar::float_of(bits)), code);
    }
  }
  return seen;
}

template <class Convert>
std::string sweep(const scalar::conversion& want, Convert convert) {
  std::atomic<std::uint32_t> next{0};
  std::vector<scalar::comparison> parts(1ull << 32 >> 24);
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < std::max(1u, std::thread::hardware_concurrency()); ++t) {
    threads.emplace_back([&] {
      for (std::uint32_t i; (i = next++) < parts.size();) parts[i] = sweep_chunk(want, convert, i * chunk);
    });
  }
  for (std::thread& t : threads) t.join();
  scalar::comparison all;
  for (const scalar::comparison& part : parts) all.add(part);
  return all.verdict();
}

template <class T>
std::string sweep(const scalar::conversion& want) {
  return sweep(want, [](float x) { return T{x}.bits(); });
}

}  // namespace

TEST_CASE("fp4<E2M1> converts all floats as numerics 1 says", "[nightly]") {
  CHECK(sweep<ufp4::fp4<ufp4::E2M1>>(scalar::e2m1()) == "agrees");
}
TEST_CASE("fp4<E1M2> converts all floats as numerics 1 says", "[nightly]") {
  CHECK(sweep<ufp4::fp4<ufp4::E1M2>>(scalar::e1m2()) == "agrees");
}
TEST_CASE("fp4<E3M0> converts all floats as numerics 1 says", "[nightly]") {
  CHECK(sweep<ufp4::fp4<ufp4::E3M0>>(scalar::e3m0()) == "agrees");
}
TEST_CASE("int4 converts all floats as numerics 1 says", "[nightly]") {
  CHECK(sweep<ufp4::int4>(scalar::int4()) == "agrees");
}
TEST_CASE("nf4 converts all floats to the nearest level", "[nightly]") {
  CHECK(sweep<ufp4::nf4>(scalar::nf4()) == "agrees");
}
TEST_CASE("e4m3 converts all floats as numerics 2 says", "[nightly]") {
  CHECK(sweep<ufp4::e4m3>(scalar::e4m3()) == "agrees");
}
TEST_CASE("ue5m3 converts all floats as numerics 2 says", "[nightly]") {
  CHECK(sweep<ufp4::ue5m3>(scalar::ue5m3()) == "agrees");
}
TEST_CASE("e8m0 converts all floats as numerics 2 says", "[nightly]") {
  CHECK(sweep<ufp4::e8m0>(scalar::e8m0()) == "agrees");
}
TEST_CASE("bf16 converts all floats as numerics 2 says", "[nightly]") {
  CHECK(sweep<ufp4::bf16>(scalar::bf16()) == "agrees");
}
TEST_CASE("round_to<bf16> converts all floats as IEEE says", "[nightly]") {
  CHECK(sweep(scalar::bf16_ieee(), [](float x) { return ufp4::detail::round_to<ufp4::bf16>(x).bits(); }) == "agrees");
}
TEST_CASE("fp16 converts all floats as IEEE says", "[nightly]") {
  CHECK(sweep<ufp4::fp16>(scalar::fp16()) == "agrees");
}
TEMPLATE_TEST_CASE("on a grid nearest_even rounds all numbers as the type does", "[nightly]", ufp4::fp4<ufp4::E2M1>,
                   ufp4::fp4<ufp4::E1M2>, ufp4::fp4<ufp4::E3M0>, ufp4::int4, ufp4::nf4) {
  constexpr ufp4::grid4 grid = ufp4::grid_of<TestType>();
  scalar::conversion want = std::is_same_v<TestType, ufp4::fp4<ufp4::E2M1>>   ? scalar::e2m1()
                            : std::is_same_v<TestType, ufp4::fp4<ufp4::E1M2>> ? scalar::e1m2()
                            : std::is_same_v<TestType, ufp4::fp4<ufp4::E3M0>> ? scalar::e3m0()
                            : std::is_same_v<TestType, ufp4::int4>            ? scalar::int4()
                                                                              : scalar::nf4();
  CHECK(sweep(want, [&](float x) -> std::uint32_t {
          if (scalar::is_nan(scalar::bits_of(x))) return want.nan_code;  // round_to_grid is never asked
          return ufp4::detail::round_to_grid(grid, ufp4::nearest_even{}, x, 0);
        }) == "agrees");
}
