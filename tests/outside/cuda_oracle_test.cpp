// ufp4 - fp4<E2M1>, e4m3 and e8m0 against NVIDIA's own conversions, which cuda_fp4.h and cuda_fp8.h emulate on a host.
// SPDX-License-Identifier: Apache-2.0
#if __has_include(<cuda_fp4.h>) && __has_include(<cuda_fp8.h>)
#include <cuda_fp4.h>
#include <cuda_fp8.h>
#define UFP4_TEST_HAS_CUDA_HEADERS 1
#endif

#include <ufp4/format/fp4.hpp>
#include <ufp4/format/int4.hpp>  // next to CUDA's global int4
#include <ufp4/format/scales.hpp>

#include "format/scalar_model.hpp"
#include "support/catch.hpp"
#include "support/seed.hpp"
#include "support/skip.hpp"

#include <cstdint>

#if !defined(UFP4_TEST_HAS_CUDA_HEADERS)

TEST_CASE("conversions agree with the CUDA headers", "[outside][cuda]") {
  support::skip(
      "there is no cuda_fp4.h here (CUDA toolkit 12.8 or newer), so nothing was compared with NVIDIA's conversions");
}

#else

namespace {

using ufp4::e4m3;
using ufp4::e8m0;
using e2m1 = ufp4::fp4<ufp4::E2M1>;

/// All floats near a boundary, all 16-bit numbers, NaNs, and every 521st float of all: 8 million.
template <class Ours, class Theirs>
std::string compare(const scalar::ladder& rungs, Ours ours, Theirs theirs) {
  scalar::comparison seen;
  const auto check = [&](std::uint32_t x) {
    const float value = scalar::float_of(x);
    seen.check(x, ours(value), theirs(value));
  };
  scalar::for_each_input(rungs, check);
  for (std::uint64_t x = 0; x < 0x100000000u; x += 521) check(static_cast<std::uint32_t>(x));
  return seen.verdict();
}

/// binary16 bits of a code's value, which both grids fit.
std::uint32_t half_bits(float value) { return ufp4::fp16{value}.bits(); }

}  // namespace

TEST_CASE("fp4<E2M1>{float} is __nv_cvt_float_to_fp4", "[outside][cuda]") {
  INFO(support::seed_note());
  CHECK(compare(
            scalar::e2m1().rungs, [](float x) { return e2m1{x}.bits(); },
            [](float x) { return __nv_cvt_float_to_fp4(x, __NV_E2M1, cudaRoundNearest); }) == "agrees");
}

TEST_CASE("e4m3{float} is __nv_cvt_float_to_fp8 with SATFINITE", "[outside][cuda]") {
  INFO(support::seed_note());
  CHECK(compare(
            scalar::e4m3().rungs, [](float x) { return e4m3{x}.bits(); },
            [](float x) { return __nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E4M3); }) == "agrees");
}

TEST_CASE("e8m0{float} is __nv_cvt_float_to_e8m0 with SATFINITE and rounding toward zero", "[outside][cuda]") {
  INFO(support::seed_note());
  CHECK(compare(
            scalar::e8m0().rungs, [](float x) { return e8m0{x}.bits(); },
            [](float x) { return __nv_cvt_float_to_e8m0(x, __NV_SATFINITE, cudaRoundZero); }) == "agrees");
}

TEST_CASE("codes have the values that NVIDIA gives them", "[outside][cuda]") {
  scalar::comparison fp4, fp8, exponent;
  for (std::uint32_t code = 0; code < 256; ++code) {
    const auto byte = static_cast<std::uint8_t>(code);
    if (code < 16) {
      fp4.check(code, half_bits(static_cast<float>(e2m1::from_bits(byte))), __nv_cvt_fp4_to_halfraw(byte, __NV_E2M1).x);
    }
    const std::uint32_t ours = half_bits(static_cast<float>(e4m3::from_bits(byte)));
    const std::uint32_t theirs = __nv_cvt_fp8_to_halfraw(byte, __NV_E4M3).x;
    const bool both_nan = (ours & 0x7FFFu) > 0x7C00u && (theirs & 0x7FFFu) > 0x7C00u;
    fp8.check(code, both_nan ? 0 : ours, both_nan ? 0 : theirs);
    const std::uint32_t power = scalar::bits_of(static_cast<float>(e8m0::from_bits(byte)));
    const std::uint32_t bf16 = static_cast<std::uint32_t>(__nv_cvt_e8m0_to_bf16raw(byte).x) << 16;
    if (scalar::is_nan(power)) {
      exponent.check(code, scalar::is_nan(bf16), true);
    } else {
      exponent.check(code, power, bf16);
    }
  }
  CHECK(fp4.verdict() == "agrees");
  CHECK(fp8.verdict() == "agrees");
  CHECK(exponent.verdict() == "agrees");
}

#endif
