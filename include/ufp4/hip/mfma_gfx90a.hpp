// ufp4 - MFMA of AMD's data center GPUs (gfx90a, gfx942, gfx950): 16 x 16 x 16 of fp16 or bf16 with binary32 sums.
// SPDX-License-Identifier: Apache-2.0
//
// From the ISA documents of CDNA 2, 3 and 4, for lane l of 64:
//
// | a, b | row l % 16 of either operand, columns 4 (l / 16) .. + 3 along K, two a register; |
// |      | 8 (l / 16) .. + 7 where K is 32                                                  |
// | d    | d[i]: row 4 (l / 16) + i of the left operand, row l % 16 of the right one        |
//
// How sums are rounded: docs/gpu.md, the bound of `fast`. Integers and their sums below 2^24 are exact in any case.
#pragma once

#include <ufp4/hip/matrix_core.hpp>

namespace ufp4::gpu::mma::inline UFP4_GPU {

/// Members: see matrix_core.hpp.
struct mfma_gfx90a {
  static constexpr const char *f16_name = "v_mfma_f32_16x16x16_f16", *bf16_name = "v_mfma_f32_16x16x16_bf16";
  static constexpr unsigned wave = 64, groups = 4, sums = 4, f16_words = 2, bf16_words = 2;
  using bf16_element = short;
  static constexpr bool runs_on(int architecture) {
    return architecture == 0x90a || (architecture >= 0x940 && architecture <= 0x950);
  }
  UFP4_DEVICE static unsigned row_of_sum(unsigned l, unsigned i) { return l / 16 * 4 + i; }
#if defined(UFP4_SIMT_HEADER)
  static constexpr bool compiled = true;
  using f16_layout = simt::mfma_layout;
  using bf16_layout = simt::mfma_layout;
#elif defined(__gfx90a__) || defined(__gfx940__) || defined(__gfx941__) || defined(__gfx942__) || defined(__gfx950__)
  static constexpr bool compiled = true;
  UFP4_DEVICE static auto f16(auto a, auto b, auto d) {
    return __builtin_amdgcn_mfma_f32_16x16x16f16(a, b, d, 0, 0, 0);
  }
  UFP4_DEVICE static auto bf16(auto a, auto b, auto d) {
    return __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(a, b, d, 0, 0, 0);
  }
#else
  static constexpr bool compiled = false;
#endif
};

/// With gfx950's bf16 instruction of K = 32, which does twice the work in a cycle.
struct mfma_gfx950 : mfma_gfx90a {
  static constexpr const char* bf16_name = "v_mfma_f32_16x16x32_bf16";
  static constexpr unsigned bf16_words = 4;
  static constexpr bool runs_on(int architecture) { return architecture == 0x950; }
#if defined(UFP4_SIMT_HEADER)
  using bf16_layout = simt::mfma_k32_layout;
#elif defined(__gfx950__)
  using bf16_element = __bf16;
  UFP4_DEVICE static auto bf16(auto a, auto b, auto d) {
    return __builtin_amdgcn_mfma_f32_16x16x32_bf16(a, b, d, 0, 0, 0);
  }
#else
  static constexpr bool compiled = false;
#endif
};

}  // namespace ufp4::gpu::mma::inline UFP4_GPU
