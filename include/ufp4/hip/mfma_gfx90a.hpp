// ufp4 - MFMA of AMD's data center GPUs (gfx90a, gfx942, gfx950): 16 x 16 x 16 products of fp16 with binary32 sums.
// SPDX-License-Identifier: Apache-2.0
//
// One instruction's K is a block of 16, so that its sum, of integers below 2^24, is the block's dot product, exactly and in any
// order. From the ISA documents of CDNA 2, 3 and 4, for lane l of 64:
//
// | a, b | row l % 16 of either operand, columns 4 (l / 16) .. + 3 along K, two a register           |
// | d    | d[i]: row 4 (l / 16) + i of the left operand, row l % 16 of the right one                 |
//
// CDNA 2 takes subnormal fp16 operands for zero; those given here are integers.
#pragma once

#include <cstdint>
#include <ufp4/gpu/vendor.hpp>

#if !defined(UFP4_SIMT_HEADER)
#include <ufp4/hip/matrix_core.hpp>
#endif

namespace ufp4::gpu::mma::inline UFP4_GPU {

struct mfma_gfx90a {
  static constexpr const char* instruction = "v_mfma_f32_16x16x16_f16";
  static constexpr unsigned wave = 64;
  static constexpr unsigned words = 2;  ///< registers of a row's columns
  static constexpr unsigned sums = 4;

  static constexpr bool runs_on(int architecture) {
    return architecture == 0x90a || (architecture >= 0x940 && architecture <= 0x950);
  }
  /// The first of the 2 * words columns that a lane holds.
  UFP4_DEVICE static unsigned first_column(unsigned l) { return l / 16 * 4; }
  UFP4_DEVICE static unsigned row_of_sum(unsigned l, unsigned i) { return l / 16 * 4 + i; }

  UFP4_DEVICE static void multiply_f16(float (&d)[sums], const std::uint32_t (&a)[words],
                                       const std::uint32_t (&b)[words]) {
#if defined(UFP4_SIMT_HEADER)
    simt::matrix_f16<simt::mfma_layout>("mfma_f32_16x16x16f16", d, a, b);
#elif defined(__gfx90a__) || defined(__gfx940__) || defined(__gfx941__) || defined(__gfx942__) || defined(__gfx950__)
    multiply_vectors(
        d, a, b, [](auto x, auto y, auto sum) { return __builtin_amdgcn_mfma_f32_16x16x16f16(x, y, sum, 0, 0, 0); });
#else
    (void)d, (void)a, (void)b;
    __builtin_trap();
#endif
  }
};

}  // namespace ufp4::gpu::mma::inline UFP4_GPU
