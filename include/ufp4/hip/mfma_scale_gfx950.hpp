// ufp4 - the block-scaled MFMA of CDNA 4 (gfx950): 16 x 16 x 128 products of floats of 8, 6 and 4 bits, scales of 32.
// SPDX-License-Identifier: Apache-2.0
//
// d += (scale_a a) (scale_b b), in waves of 64. Lane l, r = l % 16, g = l / 16; element 0 has a register's lowest bits:
//
// | a, b of 4 or 6 bits | row r of either operand, columns 32 g .. + 31 along K: 4 or 6 registers   |
// | a, b of 8 bits      | row r, columns 16 g .. + 15, then 64 + 16 g .. + 15: 8 registers          |
// | scale_a, scale_b    | the lowest byte: row r, columns 32 g .. + 31, in whichever lanes they are |
// | d                   | d[i]: row 4 g + i of the left operand, row r of the right one             |
//
// Sources, which agree: AMD's "Matrix Core Programming on AMD CDNA3 and CDNA4" (operands, formats, results, one scale a
// lane); Composable Kernel's tests of the instruction, which list for every column the lane observed to scale it;
// Triton's layouts of scales. AMD gives the 8-bit columns for pairs of 8-bit operands only, so pairs with one 8-bit
// side are rejected here. No kernel uses elements of 6 bits.
//
// A scale is 2^(byte - 127), or NaN if the byte is 0xFF. According to AMD it multiplies a block's dot product before
// the accumulation. How many bits of the sum are kept is not published; docs/gpu.md lists assumptions.
#pragma once

#include <ufp4/gpu/vendor.hpp>

namespace ufp4::gpu::mma::inline UFP4_GPU {

/// Element types, by the number that the instruction has for them.
enum class f8f6f4 : unsigned { e4m3 = 0, e5m2 = 1, e2m3 = 2, e3m2 = 3, e2m1 = 4 };

constexpr unsigned bits_of(f8f6f4 element) { return element <= f8f6f4::e5m2 ? 8 : element <= f8f6f4::e3m2 ? 6 : 4; }

template <f8f6f4 A, f8f6f4 B>
struct mfma_scale_gfx950 {
  static_assert(
      (bits_of(A) == 8) == (bits_of(B) == 8),
      "mfma_scale_gfx950: 8-bit elements have another order along K than those of 6 and 4 bits: both operands must "
      "have 8 bits, or neither");
  static constexpr const char* instruction = "v_mfma_scale_f32_16x16x128_f8f6f4";
  static constexpr unsigned wave = 64, depth = 128, block = 32, sums = 4;
  static constexpr unsigned words_a = bits_of(A), words_b = bits_of(B);  ///< 32 elements in registers of 32 bits

#if defined(UFP4_SIMT_HEADER) || defined(__gfx950__)
  static constexpr bool compiled = true;  ///< see matrix_core.hpp
#else
  static constexpr bool compiled = false;
#endif

  static constexpr bool runs_on(int architecture) { return architecture == 0x950; }
  UFP4_DEVICE static unsigned row_of_sum(unsigned l, unsigned i) { return l / 16 * 4 + i; }
  /// Where along K half `half` of a lane's elements begins: 16 columns.
  UFP4_DEVICE static unsigned first_column(unsigned l, unsigned half) {
    return words_a == 8 ? 64 * half + l / 16 * 16 : l / 16 * 32 + 16 * half;
  }
  /// Of its row's blocks of 32, the one whose scale a lane gives.
  UFP4_DEVICE static unsigned block_of_scale(unsigned l) { return l / 16; }

  /// The scales are the lowest bytes; what stands above is not looked at.
  template <bool here = compiled>
  UFP4_DEVICE static void multiply(float (&d)[sums], const std::uint32_t (&a)[words_a],
                                   const std::uint32_t (&b)[words_b], std::uint32_t scale_a, std::uint32_t scale_b) {
#if defined(UFP4_SIMT_HEADER)
    simt::mfma_scale_16x16x128<static_cast<unsigned>(A), static_cast<unsigned>(B)>(d, a, b, scale_a, scale_b);
#elif defined(__gfx950__)
    using eight_words = int __attribute__((ext_vector_type(8)));
    using floats = float __attribute__((ext_vector_type(sums)));
    eight_words left = {}, right = {};  // smaller elements fill the first registers, and the compiler drops the others
    floats sum;
    __builtin_memcpy(&left, a, sizeof a);
    __builtin_memcpy(&right, b, sizeof b);
    __builtin_memcpy(&sum, d, sizeof sum);
    sum = __builtin_amdgcn_mfma_scale_f32_16x16x128_f8f6f4(left, right, sum, static_cast<int>(A), static_cast<int>(B),
                                                           0, static_cast<int>(scale_a), 0, static_cast<int>(scale_b));
    __builtin_memcpy(d, &sum, sizeof sum);
#else
    static_assert(here || in_host_pass,
                  "mfma_scale_gfx950: the target of this compilation lacks the instruction; call it under if constexpr "
                  "(compiled)");
    (void)d, (void)a, (void)b, (void)scale_a, (void)scale_b;
#endif
  }
};

}  // namespace ufp4::gpu::mma::inline UFP4_GPU
