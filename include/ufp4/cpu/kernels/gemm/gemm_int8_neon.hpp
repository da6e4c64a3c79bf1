// ufp4 - quantized_gemm in integers with NEON: exact block dot products, rescaled in binary32.
// SPDX-License-Identifier: Apache-2.0
//
// The dot product of a block:
// | neon         | MLA by element in 16 bits, eight columns a register: takes() admits grids that cannot overflow |
// | neon_dotprod | SDOT by element in 32 bits, four columns x 4 k a register                                      |
// | neon_i8mm    | SMMLA in 32 bits, two rows by two columns x 8 k                                                |
//
// It starts at magic_bits (gemm_integers.hpp) and so ends as a binary32, exactly, without a conversion. Then acc =
// fma(d, fl(sA * sB), acc) in block order: the bits of exact_blocks, also in fast. Either operand may be wide (int8)
// where the sums of its products fit. Body: int8_unit_lanes.hpp.
#pragma once

#if defined(__aarch64__)

#include <ufp4/cpu/kernels/gemm/int8_panels_neon.hpp>

#undef UFP4_LANES
#define UFP4_LANES neon
#include <ufp4/cpu/kernels/gemm/int8_unit_lanes.hpp>

UFP4_BEGIN_LANES()

/// sum += right * left[element]
template <int element>
UFP4_LANE void add_products(s16& sum, s16 right, s16 left) {
  asm("mla %0.8h, %1.8h, %2.h[%3]" : "+w"(sum) : "w"(right), "x"(left), "i"(element));
}
UFP4_BINARY("w", u32, add_low, u32, s16, "saddw %0.4s, %1.4s, %2.4h")
UFP4_BINARY("w", u32, add_high, u32, s16, "saddw2 %0.4s, %1.4s, %2.8h")

struct mla : mla_layout {
  static constexpr isa tier = isa::neon;
  static constexpr const char* name = "gemm_int8_neon";
  static constexpr std::size_t tile_depth = 1;
  using sum = s16;

  static bool fits(const gemm_job& job) { return blocks_fit_16_bits(job); }

  UFP4_LANE static sum begin(u32) { return sum{}; }
  UFP4_LANE static u32 end(sum s, u32 start, std::size_t c) { return c == 0 ? add_low(start, s) : add_high(start, s); }
  template <int k, std::size_t height>
  UFP4_LANE static void add_two(sum (&s)[height], const s16 (&a)[height][2], const std::byte* right) {
    const s16 even = load_as<s16>(right + 32 * k), odd = load_as<s16>(right + 32 * k + 16);
#pragma GCC unroll 4
    for (std::size_t r = 0; r < height; ++r) {
      add_products<k>(s[r], even, a[r][0]);
      add_products<k>(s[r], odd, a[r][1]);
    }
  }
  template <std::size_t height>
  UFP4_LANE static void add(sum (&s)[height], const std::byte* left, const std::byte* right) {
    s16 a[height][2];
#pragma GCC unroll 4
    for (std::size_t r = 0; r < height; ++r) {
      a[r][0] = load_as<s16>(left + 32 * r);
      a[r][1] = load_as<s16>(left + 32 * r + 16);
    }
    add_two<0>(s, a, right), add_two<1>(s, a, right), add_two<2>(s, a, right), add_two<3>(s, a, right);
    add_two<4>(s, a, right), add_two<5>(s, a, right), add_two<6>(s, a, right), add_two<7>(s, a, right);
  }
};
UFP4_END_LANES

#undef UFP4_LANES
#define UFP4_LANES neon_dotprod
#include <ufp4/cpu/kernels/gemm/int8_unit_lanes.hpp>

UFP4_BEGIN_LANES()

/// sum += right . left's quad, four signed bytes a lane.
template <int quad>
UFP4_LANE void add_dots(u32& sum, u8 right, u8 left) {
  asm("sdot %0.4s, %1.16b, %2.4b[%3]" : "+w"(sum) : "w"(right), "w"(left), "i"(quad));
}

struct sdot : sdot_layout, sums_of_32_bits<2> {
  static constexpr isa tier = isa::neon_dotprod;
  static constexpr const char* name = "gemm_int8_dotprod";
  static constexpr std::size_t tile_depth = 4;

  template <int quad, std::size_t height>
  UFP4_LANE static void add_quad(sum (&s)[height], const u8 (&a)[height], const std::byte* right) {
    const u8 b0 = load_as<u8>(right + 32 * quad), b1 = load_as<u8>(right + 32 * quad + 16);
#pragma GCC unroll 4
    for (std::size_t r = 0; r < height; ++r) {
      add_dots<quad>(s[r].v[0], b0, a[r]);
      add_dots<quad>(s[r].v[1], b1, a[r]);
    }
  }
  template <std::size_t height>
  UFP4_LANE static void add(sum (&s)[height], const std::byte* left, const std::byte* right) {
    u8 a[height];
#pragma GCC unroll 4
    for (std::size_t r = 0; r < height; ++r) a[r] = load_as<u8>(left + 16 * r);
    add_quad<0>(s, a, right), add_quad<1>(s, a, right), add_quad<2>(s, a, right), add_quad<3>(s, a, right);
  }
};
UFP4_END_LANES

#undef UFP4_LANES
#define UFP4_LANES neon_i8mm
#include <ufp4/cpu/kernels/gemm/int8_unit_lanes.hpp>

UFP4_BEGIN_LANES()

struct smmla : smmla_layout, sums_of_32_bits<4> {
  static constexpr isa tier = isa::neon_i8mm;
  static constexpr const char* name = "gemm_int8_i8mm";
  static constexpr std::size_t tile_depth = 8;

  template <std::size_t pairs>
  UFP4_LANE static void add(sum (&s)[pairs], const std::byte* left, const std::byte* right) {
    const auto one = [](u32& c, u8 a, u8 b) __attribute__((always_inline)) {
      asm("smmla %0.4s, %1.16b, %2.16b" : "+w"(c) : "w"(a), "w"(b));
    };
    add_matrices(s, left, right, one);
    add_matrices(s, left + 32, right + 64, one);
  }
};
UFP4_END_LANES

#endif
