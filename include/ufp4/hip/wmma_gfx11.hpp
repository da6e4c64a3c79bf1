// ufp4 - WMMA of AMD's gfx11 GPUs: 16 x 16 x 16 of fp16, bf16 or 4-bit integers.
// SPDX-License-Identifier: Apache-2.0
//
// From the RDNA 3 ISA document, for lane l of 32:
//
// | a, b | row l % 16 of either operand, all 16 columns along K: lanes l and l + 16 hold the same |
// | d    | d[i]: row 2 i + l / 16 of the left operand, row l % 16 of the right one                |
//
// How binary32 sums are rounded is neither documented nor, to our knowledge, reported.
#pragma once

#include <ufp4/hip/matrix_core.hpp>

namespace ufp4::gpu::mma::inline UFP4_GPU {

/// Members: see matrix_core.hpp.
struct wmma_gfx11 {
  static constexpr const char *f16_name = "v_wmma_f32_16x16x16_f16", *bf16_name = "v_wmma_f32_16x16x16_bf16";
  static constexpr unsigned wave = 32, groups = 1, sums = 8, f16_words = 8, bf16_words = 8;
  static constexpr bool runs_on(int architecture) { return architecture >= 0x1100 && architecture < 0x1200; }
  UFP4_DEVICE static unsigned row_of_sum(unsigned l, unsigned i) { return 2 * i + l / 16; }
#if defined(UFP4_SIMT_HEADER)
  static constexpr bool compiled = true;
  using f16_layout = simt::wmma_gfx11_layout;
  using bf16_layout = simt::wmma_gfx11_layout;
  using iu4_layout = simt::iu4_gfx11_layout;
#elif defined(__GFX11__)
  static constexpr bool compiled = true;
  using f16_element = _Float16;
  using bf16_element = short;
  UFP4_DEVICE static auto f16(auto a, auto b, auto d) { return __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(a, b, d); }
  UFP4_DEVICE static auto bf16(auto a, auto b, auto d) { return __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(a, b, d); }
  UFP4_DEVICE static auto iu4(auto a, auto b, auto d) {
    return __builtin_amdgcn_wmma_i32_16x16x16_iu4_w32(true, a, true, b, d, false);
  }
#else
  static constexpr bool compiled = false;
#endif
};

struct wmma_iu4_gfx11 : wmma_gfx11 {
  static constexpr const char* instruction = "v_wmma_i32_16x16x16_iu4";
  static constexpr unsigned depth = 16, words = 2;
};

}  // namespace ufp4::gpu::mma::inline UFP4_GPU
