// ufp4 - WMMA of AMD's gfx120x GPUs: 16 x 16 x 16 of fp16 or bf16 with binary32 sums, in waves of 32.
// SPDX-License-Identifier: Apache-2.0
//
// From the RDNA 4 ISA document, for lane l of 32:
//
// | a, b | row l % 16 of either operand, columns 8 (l / 16) .. + 7 along K, two a register |
// | d    | d[i]: row 8 (l / 16) + i of the left operand, row l % 16 of the right one       |
//
// How sums are rounded is neither documented nor, to our knowledge, reported.
#pragma once

#include <cstdint>
#include <ufp4/gpu/vendor.hpp>

#if !defined(UFP4_SIMT_HEADER)
#include <ufp4/hip/matrix_core.hpp>
#endif

namespace ufp4::gpu::mma::inline UFP4_GPU {

/// What all its instructions share, those of wmma_iu4.hpp too. Members: see mfma_gfx90a.
struct wmma_gfx12_waves {
  static constexpr unsigned wave = 32, groups = 2, sums = 8;
#if defined(UFP4_SIMT_HEADER) || defined(__gfx1200__) || defined(__gfx1201__)
  static constexpr bool compiled = true;
#else
  static constexpr bool compiled = false;
#endif

  static constexpr bool runs_on(int architecture) { return architecture == 0x1200 || architecture == 0x1201; }
  UFP4_DEVICE static unsigned row_of_sum(unsigned l, unsigned i) { return l / 16 * 8 + i; }
};

struct wmma_gfx12 : wmma_gfx12_waves {
  static constexpr const char *f16_name = "v_wmma_f32_16x16x16_f16", *bf16_name = "v_wmma_f32_16x16x16_bf16";
  static constexpr unsigned f16_words = 4, bf16_words = 4;

  template <bool here = compiled>
  UFP4_DEVICE static void multiply_f16(float (&d)[sums], const std::uint32_t (&a)[f16_words],
                                       const std::uint32_t (&b)[f16_words]) {
#if defined(UFP4_SIMT_HEADER)
    simt::matrix_f16<simt::wmma_gfx12_layout>("wmma_f32_16x16x16_f16_w32_gfx12", d, a, b);
#elif defined(__gfx1200__) || defined(__gfx1201__)
    multiply_registers<_Float16>(
        d, a, b, [](auto x, auto y, auto sum) { return __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(x, y, sum); });
#else
    static_assert(here || in_host_pass,
                  "wmma_gfx12: v_wmma_f32_16x16x16_f16 as gfx12 has it is an instruction of gfx1200 and gfx1201 alone; "
                  "call it under if constexpr (compiled)");
    (void)d, (void)a, (void)b;
#endif
  }
  template <bool here = compiled>
  UFP4_DEVICE static void multiply_bf16(float (&d)[sums], const std::uint32_t (&a)[bf16_words],
                                        const std::uint32_t (&b)[bf16_words]) {
#if defined(UFP4_SIMT_HEADER)
    simt::matrix_bf16<simt::wmma_gfx12_layout>("wmma_f32_16x16x16_bf16_w32_gfx12", d, a, b);
#elif defined(__gfx1200__) || defined(__gfx1201__)
    multiply_registers<short>(
        d, a, b, [](auto x, auto y, auto sum) { return __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(x, y, sum); });
#else
    static_assert(
        here || in_host_pass,
        "wmma_gfx12: v_wmma_f32_16x16x16_bf16 as gfx12 has it is an instruction of gfx1200 and gfx1201 alone; "
        "call it under if constexpr (compiled)");
    (void)d, (void)a, (void)b;
#endif
  }
};

}  // namespace ufp4::gpu::mma::inline UFP4_GPU
