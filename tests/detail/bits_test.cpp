// ufp4 - binary32 taken apart and put together, and the rounding that no compiler may fuse away.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/detail/bits.hpp>

#include "format/scalar_model.hpp"
#include "support/catch.hpp"
#include "support/seed.hpp"

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

namespace detail = ufp4::detail;

namespace {

constexpr float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
static_assert(detail::to_bits(-0.0f) == 0x80000000u && detail::to_float(0x7F7FFFFFu) == detail::max_finite);
static_assert(detail::is_nan(-nan) && !detail::is_nan(inf) && !detail::is_finite(-inf) && detail::is_negative(-0.0f));
static_assert(detail::exp2i(-149) == 0x1p-149f && detail::exp2i(127) == 0x1p127f &&
              detail::floor_log2(-0x1.8p-140f) == -140);
static_assert(detail::compose(3, -1) == 1.5f && detail::rounded(1.5f) == 1.5f);

}  // namespace

TEST_CASE("classes of floats follow from their bits, NaNs and subnormals included", "[detail]") {
  INFO(support::seed_note());
  std::uint64_t wrong = 0;
  const auto check = [&](std::uint32_t x) {
    const float v = scalar::float_of(x);
    const std::uint32_t magnitude = x & 0x7FFFFFFFu;
    wrong += detail::to_bits(v) != x || detail::to_bits(detail::to_float(x)) != x;
    wrong += detail::magnitude_bits(v) != magnitude || detail::to_bits(detail::magnitude(v)) != magnitude;
    wrong += detail::is_nan(v) != std::isnan(v) || detail::is_finite(v) != std::isfinite(v);
    wrong += detail::is_negative(v) != std::signbit(v);
    if (std::isfinite(v) && v != 0) wrong += detail::floor_log2(v) != std::ilogb(v);
  };
  scalar::nans(check);
  scalar::landmarks(check);
  scalar::random_floats(100000, check);
  for (std::uint32_t x = 1; x < 0x00800000u; x += 0x101u) check(x), check(x | 0x80000000u);
  for (int bit = 0; bit < 31; ++bit) check(1u << bit), check((1u << bit) - 1), check((1u << bit) + 1);
  CHECK(wrong == 0);
}

TEST_CASE("exp2i is 2^e over the whole range", "[detail]") {
  for (int e = -149; e <= 127; ++e) {
    INFO("e = " << e);
    CHECK(scalar::bits_of(detail::exp2i(e)) == scalar::bits_of(std::ldexp(1.0f, e)));
  }
}

TEST_CASE("compose gives m * 2^e wherever that is a binary32 number", "[detail]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed()};
  std::uint64_t wrong = 0, tried = 0;
  const auto check = [&](std::uint32_t m, int e) {
    const double want = std::ldexp(static_cast<double>(m), e);
    const auto as_float = static_cast<float>(want);
    if (static_cast<double>(as_float) != want) return;  // not representable: not asked
    ++tried;
    wrong += scalar::bits_of(detail::compose(m, e)) != scalar::bits_of(as_float);
  };
  for (int e = -172; e <= 127; ++e) {
    for (const std::uint32_t m : {0u, 1u, 2u, 3u, 0x400000u, 0x7FFFFFu, 0x800000u, 0xC00000u, 0xFFFFFFu}) check(m, e);
    for (int k = 0; k < 20; ++k)
      check(static_cast<std::uint32_t>(gen() >> 40) >> (gen() % 24) << (gen() % 4) & 0xFFFFFFu, e);
  }
  CHECK(wrong == 0);
  CHECK(tried > 3000);
}

TEST_CASE("a rounded product is rounded before it is added", "[detail]") {
  // (1 + 2^-12)^2 = 1 + 2^-11 + 2^-24: binary32 drops the last term, a fused multiply-add would not.
  volatile float a = 1 + 0x1p-12f, b = 1 + 0x1p-12f, c = -(1 + 0x1p-11f);  // not foldable
  const float x = a, y = b, z = c;
  CHECK(detail::rounded(x * y) + z == 0.0f);
  CHECK(detail::fma(x, y, z) == 0x1p-24f);
}

TEST_CASE("a settled array is rounded before it is added", "[detail]") {
  volatile float a = 1 + 0x1p-12f, c = -(1 + 0x1p-11f);
  float product[4], sum[4];
  const float x = a, z = c;
  for (float& p : product) p = x * x;
  detail::settle(product);
  for (int i = 0; i < 4; ++i) sum[i] = product[i] + z;
  for (const float s : sum) CHECK(s == 0.0f);
}
