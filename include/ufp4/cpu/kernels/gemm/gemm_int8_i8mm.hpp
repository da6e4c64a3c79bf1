// ufp4 - quantized_gemm in integers with SMMLA: exact block dot products, rescaled in binary32.
// SPDX-License-Identifier: Apache-2.0
//
// SMMLA multiplies two rows by two columns over 8 k. A register of sums, and of C while K passes by, holds rows 2p,
// 2p + 1 and columns 2c, 2c + 1: {(2p, 2c), (2p, 2c + 1), (2p + 1, 2c), (2p + 1, 2c + 1)}.
// The rest is as in gemm_int8_neon.hpp.
#pragma once

#if defined(__aarch64__)

#include <cstddef>
#include <cstdint>
#include <ufp4/cpu/kernels/gemm/gemm_int8_neon.hpp>

namespace ufp4::cpu::detail::inline UFP4_CODE {
namespace neon {

/// Bytes. 8 k of two rows or columns are a register: first k below 8 of every pair, then k from 8 on. Each row's scale
/// stands twice, each pair of columns' too, as C has them.
struct smmla_layout {
  static constexpr std::size_t left_piece = 4 * 16, right_piece = 8 * 16, left_scales = 8, right_scales = 16;

  UFP4_LANE static void put_left(std::byte* at, std::size_t r, u8 v) {
    const auto dword = reinterpret_cast<u32>(v);  // even k below 8, even from 8 on, odd below 8, odd from 8 on
    std::byte* to = at + r / 2 * 16 + r % 2 * 8;
    store(to, std::uint32_t{dword[0]});
    store(to + 4, std::uint32_t{dword[2]});
    store(to + 32, std::uint32_t{dword[1]});
    store(to + 36, std::uint32_t{dword[3]});
  }
  UFP4_LANE static void put_left_scale(std::byte* at, std::size_t r, float s) {
    store(at + 8 * r, s);
    store(at + 8 * r + 4, s);
  }
  UFP4_LANE static void put_right(std::byte* at, std::size_t i, std::size_t c, u8 even, u8 odd) {
    const auto e = reinterpret_cast<u32>(even), o = reinterpret_cast<u32>(odd);
    store(at + 64 * i + 8 * c, low_pairs(e, o));
    store(at + 64 * i + 8 * c + 16, high_pairs(e, o));
  }
  UFP4_LANE static void put_right_scale(std::byte* at, std::size_t c, f32 s) {
    const u32 bits = as_bits(s);
    store(at + 8 * c, low_quads(bits, bits));
    store(at + 8 * c + 16, high_quads(bits, bits));
  }
};

}  // namespace neon
}  // namespace ufp4::cpu::detail::inline UFP4_CODE

UFP4_BEGIN_TARGET("arch=armv8.2-a+dotprod+i8mm")
namespace ufp4::cpu::detail::inline UFP4_CODE {
namespace neon_i8mm {

using namespace neon;

UFP4_LANE void add_products(u32& sum, u8 left, u8 right) {
  asm("smmla %0.4s, %1.16b, %2.16b" : "+w"(sum) : "w"(left), "w"(right));
}

struct smmla_gemm : int8_panels<smmla_layout> {
  static bool takes(const gemm_job& job) { return int8_fits(job); }

  static void multiply(const gemm_job& job, const std::byte* left, const std::byte* right, std::size_t live,
                       std::size_t length, float* acc, std::size_t stride) {
    return live <= 2 ? multiply_pairs<1>(job, left, right, length, acc, stride)
                     : multiply_pairs<2>(job, left, right, length, acc, stride);
  }

  template <std::size_t pairs>
  static void multiply_pairs(const gemm_job& job, const std::byte* left, const std::byte* right, std::size_t length,
                             float* acc, std::size_t stride) {
    const u32 start = broadcast(magic_bits(job));
    const std::size_t block = job.block;
    f32 kept[pairs][4];
#pragma GCC unroll 2
    for (std::size_t p = 0; p < pairs; ++p)
#pragma GCC unroll 4
      for (std::size_t c = 0; c < 4; ++c) kept[p][c] = load_pair(acc + 2 * p * stride + 2 * c, stride);
    for (std::size_t k = 0; k < length; k += block) {
      u32 sum[pairs][4];
#pragma GCC unroll 2
      for (std::size_t p = 0; p < pairs; ++p)
#pragma GCC unroll 4
        for (std::size_t c = 0; c < 4; ++c) sum[p][c] = start;
      for (std::size_t i = 0; i < block; i += 8, left += 32, right += 64) {
        u8 b[4];
#pragma GCC unroll 4
        for (std::size_t c = 0; c < 4; ++c) b[c] = load_as<u8>(right + 16 * c);
#pragma GCC unroll 2
        for (std::size_t p = 0; p < pairs; ++p) {
          const u8 a = load_as<u8>(left + 16 * p);
#pragma GCC unroll 4
          for (std::size_t c = 0; c < 4; ++c) add_products(sum[p][c], a, b[c]);
        }
      }
#pragma GCC unroll 2
      for (std::size_t p = 0; p < pairs; ++p) {
        const f32 by = load_as<f32>(left + 16 * p);
#pragma GCC unroll 4
        for (std::size_t c = 0; c < 4; ++c)
          kept[p][c] = rescaled(sum[p][c], as_float(start), rounded(load_as<f32>(right + 16 * c) * by), kept[p][c]);
      }
      left += 4 * smmla_layout::left_scales;
      right += 4 * smmla_layout::right_scales;
    }
#pragma GCC unroll 2
    for (std::size_t p = 0; p < pairs; ++p)
#pragma GCC unroll 4
      for (std::size_t c = 0; c < 4; ++c) store_pair(acc + 2 * p * stride + 2 * c, stride, kept[p][c]);
  }
};

inline constexpr gemm_kernel gemm_int8_kernel =
    blocked_gemm<smmla_gemm>::row(isa::neon_i8mm, "gemm_int8_i8mm", 8, 512, 128);

}  // namespace neon_i8mm
}  // namespace ufp4::cpu::detail::inline UFP4_CODE
UFP4_END_TARGET

#endif
