// ufp4 - block scales are decoded and encoded in the lanes of every instruction set as by the reference.
// SPDX-License-Identifier: Apache-2.0
// ctest: bits separate
#include <ufp4/cpu/detect.hpp>

#include <cstddef>
#include <cstdint>

#include <ufp4/cpu/elements.hpp>
#if defined(__x86_64__)
#include <ufp4/cpu/simd/avx2.hpp>
#include <ufp4/cpu/simd/avx512.hpp>
#elif defined(__aarch64__)
#include <ufp4/cpu/simd/neon.hpp>
#endif

#include "support/catch.hpp"
#include "support/skip.hpp"

#if defined(__x86_64__)
UFP4_BEGIN_TARGET(UFP4_AVX2)
namespace ufp4::cpu::detail::inline UFP4_CODE::avx2 {
#include "cpu/scale_lanes_check.inl"
}
UFP4_END_TARGET
UFP4_BEGIN_TARGET(UFP4_AVX512)
namespace ufp4::cpu::detail::inline UFP4_CODE::avx512 {
#include "cpu/scale_lanes_check.inl"
}
UFP4_END_TARGET
#elif defined(__aarch64__)
namespace ufp4::cpu::detail::inline UFP4_CODE::neon {
#include "cpu/scale_lanes_check.inl"
}
#endif

namespace {

using namespace ufp4;

using check = std::uint32_t(scale_kind, std::uint32_t, std::uint32_t);

struct checked_lanes {
  cpu::isa tier;
  check *decode, *encode;
};
constexpr checked_lanes all_lanes[] = {
#if defined(__x86_64__)
    {cpu::isa::avx2, &cpu::detail::avx2::wrong_decode, &cpu::detail::avx2::wrong_encode},
    {cpu::isa::avx512, &cpu::detail::avx512::wrong_decode, &cpu::detail::avx512::wrong_encode},
#elif defined(__aarch64__)
    {cpu::isa::neon, &cpu::detail::neon::wrong_decode, &cpu::detail::neon::wrong_encode},
#endif
};

/// Calls `body` for every instruction set of this machine that has lanes.
template <class Body>
void for_each_lanes(const Body& body) {
  for (const checked_lanes& one : all_lanes) {
    CAPTURE(cpu::name(one.tier));
    if (cpu::available().has(one.tier))
      body(one);
    else
      support::skip("this machine lacks " + std::string(cpu::name(one.tier)));
  }
}

constexpr std::uint32_t step = 0x00010000;

TEST_CASE("lanes decode every scale code to the reference's bits") {
  for_each_lanes([](const checked_lanes& on) {
    for (const scale_kind kind : {scale_kind::e4m3, scale_kind::ue5m3, scale_kind::e8m0})
      CHECK(on.decode(kind, 0, 256) == 256);
    CHECK(on.decode(scale_kind::bf16, 0, 65536) == 65536);
    for (std::uint32_t bits = 0x3F000000; bits < 0x3F800000; bits += step)
      REQUIRE(on.decode(scale_kind::f32, bits, bits + 16) == bits + 16);
  });
}

TEST_CASE("lanes encode positive normal numbers to the reference's scale codes, ties included") {
  for_each_lanes([](const checked_lanes& on) {
    for (const scale_kind kind : {scale_kind::f32, scale_kind::bf16, scale_kind::e4m3, scale_kind::ue5m3})
      for (std::uint32_t bits = 0x00800000; bits < 0x7F800000; bits += step / 2) {
        if (bits != 0x00800000) REQUIRE(on.encode(kind, bits - 16, bits) == bits);
        REQUIRE(on.encode(kind, bits, bits + 16) == bits + 16);
      }
  });
}

}  // namespace
