// ufp4 - quantized_gemm in integers with NEON: the dot products of int8_lanes.hpp.
// SPDX-License-Identifier: Apache-2.0
//
// | neon         | MLA by element in 16 bits, eight columns a register: takes() admits grids that cannot overflow |
// | neon_dotprod | SDOT by element in 32 bits, four columns x 4 k a register                                      |
// | neon_i8mm    | SMMLA in 32 bits, two rows by two columns x 8 k                                                |
#pragma once

#include <ufp4/cpu/kernels/kernels_neon.hpp>

#undef UFP4_LANES
#define UFP4_LANES neon
#include <ufp4/cpu/kernels/gemm/int8_lanes.hpp>

UFP4_BEGIN_LANES()

using s16 = std::int16_t __attribute__((vector_size(16)));
using half_s8 = std::int8_t __attribute__((vector_size(8)));

/// sum += right * left[element]
template <int element>
UFP4_LANE void add_products(s16& sum, s16 right, s16 left) {
  asm("mla %0.8h, %1.8h, %2.h[%3]" : "+w"(sum) : "w"(right), "x"(left), "i"(element));
}
UFP4_BINARY("w", u32, add_low, u32, s16, "saddw %0.4s, %1.4s, %2.4h")
UFP4_BINARY("w", u32, add_high, u32, s16, "saddw2 %0.4s, %1.4s, %2.8h")

/// 16-bit integers. Left: a row's k in their order. Right: for each k eight columns, even and odd ones in turn.
struct mla : row_units {
  using layout = mla;
  static constexpr std::size_t left_part = 4 * 32, right_part = 16 * 16, column_bytes = 2, tile_depth = 1;
  static constexpr isa tier = isa::neon;
  static constexpr const char* name = "gemm_int8_neon";
  static constexpr bool first_begins = false;
  using sum = s16;

  UFP4_LANE static void put_left(std::byte* at, std::size_t r, u8 v) {
    store(at + 32 * r, widened(v, 0));
    store(at + 32 * r + 16, widened(v, 1));
  }
  UFP4_LANE static void put_right(std::byte* at, std::size_t i, u32 even, u32 odd) {
    std::int8_t bytes[2][16];
    store(bytes[0], even);
    store(bytes[1], odd);
    for (std::size_t k = 0; k < 8; ++k)
      for (std::size_t j = 0; j < 4; ++j)
        store(at + 16 * (8 * i + k) + 2 * j, std::int16_t{bytes[k % 2][4 * j + k / 2]});
  }
  /// Half of sixteen signed bytes in 16 bits.
  UFP4_LANE static s16 widened(u8 v, std::size_t half) {
    half_s8 part;
    __builtin_memcpy(&part, reinterpret_cast<const char*>(&v) + 8 * half, 8);
    return __builtin_convertvector(part, s16);
  }

  static bool fits(const gemm_job& job) { return blocks_fit_16_bits(job); }
  UFP4_LANE static void begin(sum& s, u32) { s = s16{}; }
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
  template <bool, std::size_t height>
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

/// Units of two rows; a register holds (row, column) {(2p, 2c), (2p, 2c + 1), (2p + 1, 2c), (2p + 1, 2c + 1)}. Bytes:
/// quads 0 and 2 of two rows or columns are a register, then quads 1 and 3.
struct pair_layout : row_units {
  static constexpr std::size_t left_part = 4 * 16, right_part = 8 * 16, column_bytes = 8, left_ends = 32,
                               right_ends = 64, unit_rows = 2, unit_registers = 4;

  UFP4_LANE static void put_left(std::byte* at, std::size_t r, u8 v) {
    const auto quad = reinterpret_cast<u32>(v);
    std::byte* to = at + r / 2 * 16 + r % 2 * 8;
    store(to, std::uint32_t{quad[0]});
    store(to + 4, std::uint32_t{quad[2]});
    store(to + 32, std::uint32_t{quad[1]});
    store(to + 36, std::uint32_t{quad[3]});
  }
  UFP4_LANE static void put_right(std::byte* at, std::size_t i, u32 a, u32 b) {
    store(at + 64 * i, low_pairs(a, b));
    store(at + 64 * i + 16, high_pairs(a, b));
  }
  UFP4_LANE static void put_left_scale(std::byte* ends, std::size_t r, float s) {
    store(ends + 8 * r, s);
    store(ends + 8 * r + 4, s);
  }
  /// Scales of four columns: those of each pair twice.
  UFP4_LANE static void spread_scales(std::byte* at) {
    const f32 s = load_as<f32>(at);
    store(at, low_quads(s, s));
    store(at + 16, high_quads(s, s));
  }
  UFP4_LANE static f32 by_rows(const std::byte* ends, std::size_t p) { return load_as<f32>(ends + 16 * p); }
  UFP4_LANE static f32 load_c(const float* acc, std::size_t stride, std::size_t p, std::size_t c) {
    const float* at = acc + 2 * p * stride + 2 * c;
    return reinterpret_cast<f32>(u64{load_as<std::uint64_t>(at), load_as<std::uint64_t>(at + stride)});
  }
  UFP4_LANE static void store_c(float* acc, std::size_t stride, std::size_t p, std::size_t c, f32 v) {
    float* at = acc + 2 * p * stride + 2 * c;
    const auto halves = reinterpret_cast<u64>(v);
    store(at, std::uint64_t{halves[0]});
    store(at + stride, std::uint64_t{halves[1]});
  }
};
UFP4_END_LANES

#undef UFP4_LANES
#define UFP4_LANES neon_dotprod
#include <ufp4/cpu/kernels/gemm/int8_lanes.hpp>

UFP4_BEGIN_LANES()

/// sum += right . left's quad, four signed bytes a lane.
template <int quad>
UFP4_LANE void add_dots(u32& sum, u8 right, u8 left) {
  asm("sdot %0.4s, %1.16b, %2.4b[%3]" : "+w"(sum) : "w"(right), "w"(left), "i"(quad));
}

struct sdot : quad_layout, sums_of_32_bits<2> {
  using layout = quad_layout;
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
  template <bool, std::size_t height>
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
#include <ufp4/cpu/kernels/gemm/int8_lanes.hpp>

UFP4_BEGIN_LANES()

struct smmla : pair_layout, sums_of_32_bits<4> {
  using layout = pair_layout;
  static constexpr std::size_t tile_depth = 8;
  static constexpr isa tier = isa::neon_i8mm;
  static constexpr const char* name = "gemm_int8_i8mm";

  template <bool, std::size_t pairs>
  UFP4_LANE static void add(sum (&s)[pairs], const std::byte* left, const std::byte* right) {
    const auto one = [](u32& c, u8 a, u8 b) __attribute__((always_inline)) {
      asm("smmla %0.4s, %1.16b, %2.16b" : "+w"(c) : "w"(a), "w"(b));
    };
    add_matrices(s, left, right, one);
    add_matrices(s, left + 32, right + 64, one);
  }
};
UFP4_END_LANES
