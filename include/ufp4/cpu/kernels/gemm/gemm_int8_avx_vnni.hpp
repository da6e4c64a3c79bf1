// ufp4 - quantized_gemm in 8-bit integers with AVX-VNNI: the AVX2 kernel's panels, multiplied by vpdpbusd.
// SPDX-License-Identifier: Apache-2.0
//
// For processors with AVX-VNNI and no AVX-512. One instruction replaces a multiplication, an addition and the final
// addition of pairs. Sums have 32 bits from the start, so grids too large for the AVX2 kernel's 16 bits are taken too.
// Panels: gemm_int8_avx2.hpp.
//
// A template over the instruction's encoding: processors with AVX-512 have another one, with which tests run the same
// kernel.
#pragma once

#if defined(__x86_64__)

#include <cstddef>
#include <cstdint>
#include <ufp4/cpu/kernels/gemm/gemm_int8_avx2.hpp>

UFP4_BEGIN_TARGET(UFP4_AVX2)
namespace ufp4::cpu::detail::inline UFP4_CODE {
namespace avx_vnni {

using namespace avx2;

/// sum += products of four unsigned bytes of `right` and four signed ones of `left`, in 32 bits.
struct vex {
  static UFP4_LANE void add_dots(u32& sum, u8 right, u32 left) {
    asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum) : "x"(right), "x"(left));
  }
};
struct evex {
  static UFP4_LANE void add_dots(u32& sum, u8 right, u32 left) {
    asm("%{evex%} vpdpbusd %2, %1, %0" : "+x"(sum) : "x"(right), "x"(left));
  }
};

template <class Encoding>
struct int8_gemm : avx2::int8_gemm {
  static bool takes(const gemm_job& job) { return int8_fits(job); }

  static void multiply(const gemm_job& job, const std::byte* left, const std::byte* right, std::size_t live,
                       std::size_t length, float* acc, std::size_t stride) {
    multiply_live<int8_gemm>(job, left, right, live, length / job.block, acc, stride);
  }

  /// Sixteen k of every row.
  template <std::size_t height>
  UFP4_LANE static void add_products(const std::byte* left, const std::byte* right, u32 (&sum)[height][2]) {
#pragma GCC unroll 4
    for (std::size_t quad = 0; quad < 4; ++quad) {
      const u8 b0 = load_as<u8>(right + 64 * quad), b1 = load_as<u8>(right + 64 * quad + 32);
#pragma GCC unroll 4
      for (std::size_t r = 0; r < height; ++r) {
        const u32 a = as_bits(load_broadcast(left + 16 * r + 4 * quad));
        Encoding::add_dots(sum[r][0], b0, a);
        Encoding::add_dots(sum[r][1], b1, a);
      }
    }
  }

  template <std::size_t height>
  static void multiply_rows(const gemm_job& job, const std::byte* left, const std::byte* right, std::size_t count,
                            float* acc, std::size_t stride) {
    const std::size_t block = job.block;
    const f32 magic = as_float(broadcast(magic_bits(job)));
    for (std::size_t b = 0; b < count; ++b) {
      const std::byte *row = left + rows * block, *column = right + cols * block;
      u32 sum[height][2];
      for (std::size_t r = 0; r < height; ++r) sum[r][0] = sum[r][1] = as_bits(load_broadcast(row + 4 * r));
      for (std::size_t k = 0; k < block; k += 16) add_products(left + rows * k, right + 16 * k, sum);
      const f32 scale[2] = {load_as<f32>(column), load_as<f32>(column + 32)};
#pragma GCC unroll 4
      for (std::size_t r = 0; r < height; ++r) {
        const f32 by = load_broadcast(row + 4 * rows + 4 * r);
#pragma GCC unroll 2
        for (std::size_t c = 0; c < 2; ++c) {
          float* at = acc + r * stride + c * lanes;
          store(at, fma(as_float(sum[r][c]) - magic, rounded(scale[c] * by), load(at)));
        }
      }
      left += rows * (block + 8);
      right += cols * (block + 4);
    }
  }
};

inline constexpr gemm_kernel gemm_int8_kernel =
    blocked_gemm<int8_gemm<vex>>::row(isa::avx_vnni, "gemm_int8_avx_vnni", 4, 512, 128);

}  // namespace avx_vnni
}  // namespace ufp4::cpu::detail::inline UFP4_CODE
UFP4_END_TARGET

#endif
