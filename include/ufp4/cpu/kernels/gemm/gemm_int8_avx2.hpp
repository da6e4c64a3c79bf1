// ufp4 - quantized_gemm in 8-bit integers with AVX2 and AVX-VNNI: the dot products of int8_lanes.hpp.
// SPDX-License-Identifier: Apache-2.0
//
// vpmaddubsw multiplies unsigned bytes (the right operand plus an offset that makes it so) by signed ones (the left)
// and adds neighbours in 16 bits, where a whole block is added up: takes() admits grids for which no lane can overflow.
// vpdpbusd, for processors with AVX-VNNI and no AVX-512, adds in 32 bits from the start, so any grid is taken.
//
// A left operand of byte elements (int8) has products that do not fit 16 bits in so long a block: pairs_in_steps adds
// them up to 32 bits after every 16 k. A right operand of byte elements, for which no sum of two products fits, is only
// taken by vpdpbusd.
//
// The offset is corrected by -offset * sum(left), one number a row and block, to which the left panel adds magic_bits.
#pragma once

#include <ufp4/cpu/kernels/kernels_avx2.hpp>

#undef UFP4_LANES
#define UFP4_LANES avx2
#include <ufp4/cpu/kernels/gemm/int8_lanes.hpp>

UFP4_BEGIN_LANES()

using s16 = std::int16_t __attribute__((vector_size(32)));

UFP4_BINARY("x", half_u64, sum_differences, half_u8, half_u8, "vpsadbw %2, %1, %0")
UFP4_BINARY("x", u32, add_pairs, s16, s16, "vpmaddwd %2, %1, %0")

/// After the scales of four rows of a block four int32: where its dot products start.
struct offset_layout : quad_layout {
  static constexpr std::size_t left_ends = 32;

  class corrected_start {
   public:
    explicit corrected_start(const gemm_job& job)
        : amax_(static_cast<std::uint8_t>(integers_of(job.left.q.format).amax())),
          amaxes_(amax_ * static_cast<std::uint32_t>(job.block)),
          offset_(static_cast<std::uint32_t>(offset(job))),
          magic_(magic_bits(job)) {}
    void add(half_u8 integers) { sum_ += sum_differences(integers + amax_, half_u8{}); }  // unsigned, to be added up
    void put(std::byte* ends, std::size_t r) {
      const auto total = static_cast<std::uint32_t>(sum_[0] + sum_[1]) - amaxes_;
      store(ends + 16 + 4 * r, magic_ - offset_ * total);
      sum_ = half_u64{};
    }

   private:
    std::uint8_t amax_;
    std::uint32_t amaxes_, offset_, magic_;
    half_u64 sum_{};
  };
  static int offset(const gemm_job& job) { return -integers_of(job.right.q.format).low; }
  UFP4_LANE static u32 start(const std::byte* ends, std::size_t r, u32) {
    return as_bits(load_broadcast(ends + 16 + 4 * r));
  }
};

/// A class of dot products over an `add_quad` of a quad of a row and two vectors of columns, and `end_part`.
template <class Dots>
struct offset_dots : offset_layout {
  using layout = offset_layout;
  static constexpr std::size_t tile_depth = 4;

  template <bool first, class Sum, std::size_t height>
  UFP4_LANE static void add(Sum (&sum)[height], const std::byte* left, const std::byte* right) {
#pragma GCC unroll 4
    for (std::size_t quad = 0; quad < 4; ++quad) {
      const u8 b0 = load_as<u8>(right + 64 * quad), b1 = load_as<u8>(right + 64 * quad + 32);
#pragma GCC unroll 4
      for (std::size_t r = 0; r < height; ++r) {
        const std::byte* a = left + 16 * r + 4 * quad;
        if ((first || Dots::in_steps) && quad == 0)
          Dots::template add_quad<true>(b0, b1, a, sum[r]);
        else
          Dots::template add_quad<false>(b0, b1, a, sum[r]);
      }
    }
#pragma GCC unroll 4
    for (std::size_t r = 0; r < height; ++r) Dots::end_part(sum[r]);
  }
};

/// vpmaddubsw.
struct pairs_in_16_bits : offset_dots<pairs_in_16_bits> {
  static constexpr isa tier = isa::avx2;
  static constexpr const char* name = "gemm_int8_avx2";
  static constexpr bool in_steps = false, first_begins = true;
  struct sum {
    s16 v[2];
  };
  static bool fits(const gemm_job& job) { return !job.right.has_bytes() && half_blocks_fit_16_bits(job); }
  UFP4_LANE static void begin(sum&, u32) {}
  /// `first`: the sums begin with these. One statement, because separate ones are reordered so that registers run out.
  template <bool first>
  UFP4_LANE static void add_quad(u8 right0, u8 right1, const std::byte* left, sum& s) {
    f32 a;
    s16 p;
    if constexpr (first)
      asm volatile("vbroadcastss %5, %2\n\tvpmaddubsw %2, %3, %0\n\tvpmaddubsw %2, %4, %1"
                   : "=&x"(s.v[0]), "=&x"(s.v[1]), "=&x"(a)
                   : "x"(right0), "x"(right1), "m"(*bytes_of<4>(left)));
    else
      asm volatile(
          "vbroadcastss %6, %2\n\tvpmaddubsw %2, %4, %3\n\tvpaddw %3, %0, %0\n\t"
          "vpmaddubsw %2, %5, %2\n\tvpaddw %2, %1, %1"
          : "+x"(s.v[0]), "+x"(s.v[1]), "=&x"(a), "=&x"(p)
          : "x"(right0), "x"(right1), "m"(*bytes_of<4>(left)));
  }
  UFP4_LANE static void end_part(sum&) {}
  UFP4_LANE static u32 end(const sum& s, u32 start, std::size_t c) {
    return add_pairs(s.v[c], s16{} + std::int16_t{1}) + start;
  }
};

/// The same for longer blocks and larger integers: 16 k are added up in 16 bits, and these sums in 32.
struct pairs_in_steps : offset_dots<pairs_in_steps>, sums_of_32_bits<2> {
  static constexpr isa tier = isa::avx2;
  static constexpr const char* name = "gemm_int8_steps_avx2";
  static constexpr bool in_steps = true;
  struct sum : sums_of_32_bits<2>::sum {
    pairs_in_16_bits::sum step;
  };
  static bool fits(const gemm_job& job) { return !job.right.has_bytes() && steps_fit_16_bits(job); }
  template <bool first>
  UFP4_LANE static void add_quad(u8 right0, u8 right1, const std::byte* left, sum& s) {
    pairs_in_16_bits::add_quad<first>(right0, right1, left, s.step);
  }
  UFP4_LANE static void end_part(sum& s) {
    for (int c = 0; c < 2; ++c) s.v[c] += add_pairs(s.step.v[c], s16{} + std::int16_t{1});
  }
};

/// vpdpbusd. Processors with AVX-512 have another encoding, with which tests run the same kernel.
template <bool vex>
struct dots_in_32_bits : offset_dots<dots_in_32_bits<vex>>, sums_of_32_bits<2> {
  static constexpr isa tier = isa::avx_vnni;
  static constexpr const char* name = "gemm_int8_avx_vnni";
  static constexpr bool in_steps = false;
  using sum = sums_of_32_bits<2>::sum;
  template <bool>
  UFP4_LANE static void add_quad(u8 right0, u8 right1, const std::byte* left, sum& s) {
    const u32 a = as_bits(load_broadcast(left));
    add_dots(s.v[0], right0, a);
    add_dots(s.v[1], right1, a);
  }
  UFP4_LANE static void add_dots(u32& s, u8 right, u32 left) {
    if constexpr (vex)
      asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(s) : "x"(right), "x"(left));
    else
      asm("%{evex%} vpdpbusd %2, %1, %0" : "+x"(s) : "x"(right), "x"(left));
  }
  UFP4_LANE static void end_part(sum&) {}
};
UFP4_END_LANES
