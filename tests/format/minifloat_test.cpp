// ufp4 - the generic codec of small floats, on every combination of field widths.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/format/minifloat.hpp>

#include "format/scalar_model.hpp"
#include "support/catch.hpp"
#include "support/seed.hpp"

#include <cstdint>
#include <string>
#include <vector>

using ufp4::detail::minifloat;

namespace {

/// Every width of exponent and mantissa up to 16 bits in all, with the IEEE bias; the small ones with others too.
std::vector<ufp4::detail::minifloat> all_layouts() {
  std::vector<ufp4::detail::minifloat> layouts;
  for (int e = 1; e <= 8; ++e) {
    for (int m = 0; m <= 10 && e + m <= 15; ++m) {
      if (e + m < 2) continue;
      const bool has_sign = (e + m) % 2 == 0;
      // Room for a NaN at the top; eight exponent bits reach binary32's infinities, which are no finite codes.
      const std::uint32_t codes = 1u << (e + m), last = e == 8 ? codes - (1u << m) - 1 : codes - 2;
      const int ieee = (1 << (e - 1)) - 1;
      layouts.push_back({e, m, ieee, has_sign, last, codes - 1});
      if (e == 8 || m > 4) continue;
      layouts.push_back({e, m, ieee + 1, has_sign, last, codes - 1});
      layouts.push_back({e, m, ieee + 40, has_sign, last, codes - 1});
    }
  }
  return layouts;
}

std::string name(const ufp4::detail::minifloat& layout) {
  return "e" + std::to_string(layout.exponent_bits) + "m" + std::to_string(layout.mantissa_bits) + " bias " +
         std::to_string(layout.bias) + (layout.has_sign ? " signed" : " unsigned");
}

scalar::conversion model(const ufp4::detail::minifloat& layout) {
  const std::uint32_t sign = layout.has_sign ? 1u << (layout.exponent_bits + layout.mantissa_bits) : 0;
  return {scalar::fields(layout.mantissa_bits, layout.bias, layout.max_code),
          layout.has_sign ? scalar::sign_rule::high_bit : scalar::sign_rule::negative_is_zero, layout.nan_code, sign};
}

constexpr ufp4::detail::minifloat e5m2{5, 2, 15, true, 0x7B, 0x7F};
static_assert(ufp4::detail::encode(e5m2, 1.125f) == 0x3C && ufp4::detail::encode(e5m2, 1.375f) == 0x3E);
static_assert(ufp4::detail::encode(e5m2, -57344.0f) == 0xFB && ufp4::detail::encode(e5m2, 1e30f) == 0x7B);
static_assert(ufp4::detail::decode(e5m2, 0x01) == 0.0000152587890625f && ufp4::detail::decode(e5m2, 0xC0) == -2.0f);
static_assert(ufp4::detail::encode_magnitude(e5m2, 65536.0f) == 0x7C);  // the caller decides what lies beyond

}  // namespace

TEST_CASE("every code of every layout decodes to its fields' value and encodes to itself", "[format][minifloat]") {
  for (const ufp4::detail::minifloat& layout : all_layouts()) {
    scalar::comparison decoded, encoded;
    const std::uint32_t sign = model(layout).sign_bit;
    for (std::uint32_t code = 0; code <= layout.max_code; ++code) {
      const auto want = static_cast<float>(scalar::field_value(code, layout.mantissa_bits, layout.bias));
      decoded.check(code, scalar::bits_of(ufp4::detail::decode(layout, code)), scalar::bits_of(want));
      encoded.check(code, ufp4::detail::encode(layout, want), code);
      if (sign == 0) continue;
      decoded.check(code | sign, scalar::bits_of(ufp4::detail::decode(layout, code | sign)), scalar::bits_of(-want));
      encoded.check(code | sign, ufp4::detail::encode(layout, -want), code | sign);
    }
    INFO(name(layout));
    CHECK(layout.sign_bit() == sign);
    CHECK(decoded.verdict() == "agrees");
    CHECK(encoded.verdict() == "agrees");
  }
}

TEST_CASE("a float encodes to the nearest code of every layout, ties to even, saturating", "[format][minifloat]") {
  INFO(support::seed_note());
  for (const ufp4::detail::minifloat& layout : all_layouts()) {
    const scalar::conversion want = model(layout);
    scalar::comparison seen;
    const auto check = [&](std::uint32_t x) {
      seen.check(x, ufp4::detail::encode(layout, scalar::float_of(x)), want(x));
    };
    scalar::near_boundaries(want.rungs, check);
    scalar::nans(check);
    scalar::landmarks(check);
    scalar::random_floats(3000, check);
    INFO(name(layout));
    CHECK(seen.verdict() == "agrees");
  }
}

TEST_CASE("encode_magnitude goes on beyond the largest code", "[format][minifloat]") {
  const ufp4::detail::minifloat layout{4, 3, 7, true, 0x7E, 0x7F};
  const scalar::ladder rungs = scalar::fields(3, 7, 0x200);  // as if the exponent had more bits
  scalar::comparison seen;
  scalar::near_boundaries(rungs, [&](std::uint32_t x) {
    const int want = rungs.find(scalar::value_of(x & 0x7FFFFFFFu));
    seen.check(x, ufp4::detail::encode_magnitude(layout, scalar::float_of(x)), static_cast<std::uint32_t>(want));
  });
  CHECK(seen.verdict() == "agrees");
  CHECK(ufp4::detail::encode_magnitude(layout, scalar::float_of(0x7F7FFFFFu)) > 0x200);
  CHECK(ufp4::detail::encode_magnitude(layout, scalar::float_of(0x7F800000u)) > 0x200);
  CHECK(ufp4::detail::encode_magnitude(layout, scalar::float_of(0xFF800000u)) > 0x200);
}
