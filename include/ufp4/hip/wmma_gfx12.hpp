// ufp4 - WMMA of AMD's gfx120x GPUs: 16 x 16 x 16 of fp16, bf16 or 4-bit integers, 16 x 16 x 32 of 4-bit integers.
// SPDX-License-Identifier: Apache-2.0
//
// From the RDNA 4 ISA document, for lane l of 32:
//
// | a, b | row l % 16 of either operand, columns K / 2 * (l / 16) .. K / 2 * (l / 16 + 1) - 1 along K |
// | d    | d[i]: row 8 (l / 16) + i of the left operand, row l % 16 of the right one                  |
//
// How binary32 sums are rounded is neither documented nor, to our knowledge, reported.
#pragma once

#include <ufp4/hip/matrix_core.hpp>

namespace ufp4::gpu::mma::inline UFP4_GPU {

/// Members: see matrix_core.hpp.
struct wmma_gfx12 {
  static constexpr const char *f16_name = "v_wmma_f32_16x16x16_f16", *bf16_name = "v_wmma_f32_16x16x16_bf16";
  static constexpr unsigned wave = 32, groups = 2, sums = 8, f16_words = 4, bf16_words = 4;
  static constexpr bool runs_on(int architecture) { return architecture == 0x1200 || architecture == 0x1201; }
  UFP4_DEVICE static unsigned row_of_sum(unsigned l, unsigned i) { return l / 16 * 8 + i; }
#if defined(UFP4_SIMT_HEADER)
  static constexpr bool compiled = true;
  using f16_layout = simt::wmma_gfx12_layout;
  using bf16_layout = simt::wmma_gfx12_layout;
#elif defined(__gfx1200__) || defined(__gfx1201__)
  static constexpr bool compiled = true;
  using f16_element = _Float16;
  using bf16_element = short;
  UFP4_DEVICE static auto f16(auto a, auto b, auto d) {
    return __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(a, b, d);
  }
  UFP4_DEVICE static auto bf16(auto a, auto b, auto d) {
    return __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(a, b, d);
  }
  UFP4_DEVICE static auto iu4(auto a, auto b, auto d) {
    if constexpr (sizeof a == 4)  // 16 columns: the builtin takes its one register as an integer
      return __builtin_amdgcn_wmma_i32_16x16x16_iu4_w32_gfx12(true, a[0], true, b[0], d, false);
    else
      return __builtin_amdgcn_wmma_i32_16x16x32_iu4_w32_gfx12(true, a, true, b, d, false);
  }
#else
  static constexpr bool compiled = false;
#endif
};

template <unsigned depth_>
struct wmma_iu4_gfx12 : wmma_gfx12 {
  static_assert(depth_ == 16 || depth_ == 32,
                "wmma_iu4_gfx12: gfx12 multiplies 16 or 32 columns of 4-bit integers at once");
  static constexpr const char* instruction = depth_ == 16 ? "v_wmma_i32_16x16x16_iu4" : "v_wmma_i32_16x16x32_iu4";
  static constexpr unsigned depth = depth_, words = depth / 16;
#if defined(UFP4_SIMT_HEADER)
  using iu4_layout = simt::iu4_gfx12_layout<depth>;
#endif
};

}  // namespace ufp4::gpu::mma::inline UFP4_GPU
