// ufp4 - WMMA of AMD's gfx11 and gfx120x GPUs: 16 x 16 x 16 of fp16, bf16 or 4-bit integers; gfx12: x 32 of those too.
// SPDX-License-Identifier: Apache-2.0
//
// From the ISA documents of RDNA 3 and 4, for lane l of 32, with row l % 16 of either operand:
//
// |                                | gfx11                                         | gfx12                            |
// |--------------------------------|-----------------------------------------------|----------------------------------|
// | a, b: columns along K          | all 16; lanes l and l + 16 hold the same      | K / 2, from K / 2 * (l / 16) on  |
// | d[i]: row of the left operand  | 2 i + l / 16                                  | 8 (l / 16) + i                   |
#pragma once

#include <ufp4/hip/matrix_core.hpp>

namespace ufp4::gpu::mma::inline UFP4_GPU {

/// What the generations share. Members: see matrix_core.hpp.
struct wmma {
  static constexpr const char *f16_name = "v_wmma_f32_16x16x16_f16", *bf16_name = "v_wmma_f32_16x16x16_bf16";
  static constexpr unsigned wave = 32, sums = 8;
  using bf16_element = short;
};

struct wmma_gfx11 : wmma {
  static constexpr unsigned groups = 1, f16_words = 8, bf16_words = 8;
  static constexpr bool runs_on(int architecture) { return architecture >= 0x1100 && architecture < 0x1200; }
  UFP4_DEVICE static unsigned row_of_sum(unsigned l, unsigned i) { return 2 * i + l / 16; }
#if defined(UFP4_SIMT_HEADER)
  static constexpr bool compiled = true;
  using f16_layout = simt::wmma_gfx11_layout;
  using bf16_layout = simt::wmma_gfx11_layout;
  using iu4_layout = simt::iu4_gfx11_layout;
#elif defined(__GFX11__)
  static constexpr bool compiled = true;
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

struct wmma_gfx12 : wmma {
  static constexpr unsigned groups = 2, f16_words = 4, bf16_words = 4;
  static constexpr bool runs_on(int architecture) { return architecture == 0x1200 || architecture == 0x1201; }
  UFP4_DEVICE static unsigned row_of_sum(unsigned l, unsigned i) { return l / 16 * 8 + i; }
#if defined(UFP4_SIMT_HEADER)
  static constexpr bool compiled = true;
  using f16_layout = simt::wmma_gfx12_layout;
  using bf16_layout = simt::wmma_gfx12_layout;
#elif defined(__gfx1200__) || defined(__gfx1201__)
  static constexpr bool compiled = true;
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
