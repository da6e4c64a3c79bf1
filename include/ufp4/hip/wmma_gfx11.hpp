// ufp4 - WMMA of AMD's gfx11 GPUs: 16 x 16 x 16 products of fp16 with binary32 sums, in waves of 32.
// SPDX-License-Identifier: Apache-2.0
//
// From the RDNA 3 ISA document, for lane l of 32:
//
// | a, b | row l % 16 of either operand, all 16 columns along K, two a register: lanes l and l + 16 hold the same |
// | d    | d[i]: row 2 i + l / 16 of the left operand, row l % 16 of the right one                                 |
#pragma once

#include <cstdint>
#include <ufp4/gpu/vendor.hpp>

#if !defined(UFP4_SIMT_HEADER)
#include <ufp4/hip/matrix_core.hpp>
#endif

namespace ufp4::gpu::mma::inline UFP4_GPU {

struct wmma_gfx11 {
  static constexpr const char* instruction = "v_wmma_f32_16x16x16_f16";
  static constexpr unsigned wave = 32;
  static constexpr unsigned words = 8;
  static constexpr unsigned sums = 8;

  static constexpr bool runs_on(int architecture) { return architecture >= 0x1100 && architecture < 0x1200; }
  UFP4_DEVICE static unsigned first_column(unsigned) { return 0; }
  UFP4_DEVICE static unsigned row_of_sum(unsigned l, unsigned i) { return 2 * i + l / 16; }

  UFP4_DEVICE static void multiply_f16(float (&d)[sums], const std::uint32_t (&a)[words],
                                       const std::uint32_t (&b)[words]) {
#if defined(UFP4_SIMT_HEADER)
    simt::matrix_f16<simt::wmma_gfx11_layout>("wmma_f32_16x16x16_f16_w32", d, a, b);
#elif defined(__GFX11__)
    multiply_vectors(d, a, b,
                     [](auto x, auto y, auto sum) { return __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(x, y, sum); });
#else
    (void)d, (void)a, (void)b;
    __builtin_trap();
#endif
  }
};

}  // namespace ufp4::gpu::mma::inline UFP4_GPU
