// ufp4 - WMMA of gfx11 and gfx12 in 4-bit integers: 16 x 16 x 16 and 16 x 16 x 32, sums of 32 bits, waves of 32.
// SPDX-License-Identifier: Apache-2.0
//
// d += a b, both signed, two's complement, element 0 of a register in its lowest four bits; no saturation. Rows and
// sums lie as those of the fp16 instructions do (wmma_gfx11.hpp, wmma_gfx12.hpp), for lane l of 32:
//
// |      | gfx11, K = 16                                  | gfx12                                    |
// |------|------------------------------------------------|------------------------------------------|
// | a, b | row l % 16, all columns: l and l + 16 the same | row l % 16, half l / 16 of the columns   |
// | d    | d[i]: row 2 i + l / 16, right row l % 16       | d[i]: row 8 (l / 16) + i, right row l % 16 |
//
// Which column along K an element is must only be the same for a and b, as it is by symmetry: no kernel rests on more
// of it.
#pragma once

#include <cstdint>
#include <ufp4/gpu/vendor.hpp>
#include <ufp4/hip/wmma_gfx11.hpp>
#include <ufp4/hip/wmma_gfx12.hpp>

#if !defined(UFP4_SIMT_HEADER)
#include <ufp4/hip/matrix_core.hpp>
#endif

namespace ufp4::gpu::mma::inline UFP4_GPU {

/// Members: see mfma_gfx90a.
///
/// | depth | K                                                           |
/// | words | registers of a row's columns; `groups` of lanes have others |
struct wmma_iu4_gfx11 : wmma_gfx11_waves {
  static constexpr const char* instruction = "v_wmma_i32_16x16x16_iu4";
  static constexpr unsigned depth = 16, words = 2;

  template <bool here = compiled>
  UFP4_DEVICE static void multiply(std::int32_t (&d)[sums], const std::uint32_t (&a)[words],
                                   const std::uint32_t (&b)[words]) {
#if defined(UFP4_SIMT_HEADER)
    simt::wmma_iu4<simt::iu4_gfx11_layout>("wmma_i32_16x16x16_iu4_w32", d, a, b);
#elif defined(__GFX11__)
    multiply_registers<int>(d, a, b, [](auto x, auto y, auto sum) {
      return __builtin_amdgcn_wmma_i32_16x16x16_iu4_w32(true, x, true, y, sum, false);
    });
#else
    static_assert(here || in_host_pass,
                  "wmma_iu4_gfx11: v_wmma_i32_16x16x16_iu4 as gfx11 has it is an instruction of gfx11 alone; "
                  "call it under if constexpr (compiled)");
    (void)d, (void)a, (void)b;
#endif
  }
};

template <unsigned depth_>
struct wmma_iu4_gfx12 : wmma_gfx12_waves {
  static_assert(depth_ == 16 || depth_ == 32,
                "wmma_iu4_gfx12: gfx12 multiplies 16 or 32 columns of 4-bit integers at once");
  static constexpr const char* instruction = depth_ == 16 ? "v_wmma_i32_16x16x16_iu4" : "v_wmma_i32_16x16x32_iu4";
  static constexpr unsigned depth = depth_, words = depth / 16;

  template <bool here = compiled>
  UFP4_DEVICE static void multiply(std::int32_t (&d)[sums], const std::uint32_t (&a)[words],
                                   const std::uint32_t (&b)[words]) {
#if defined(UFP4_SIMT_HEADER)
    simt::wmma_iu4<simt::iu4_gfx12_layout<depth>>("wmma_i32_16x16_iu4_w32_gfx12", d, a, b);
#elif defined(__gfx1200__) || defined(__gfx1201__)
    multiply_registers<int>(d, a, b, [](auto x, auto y, auto sum) {
      if constexpr (depth == 16)  // takes its one register as no vector
        return __builtin_amdgcn_wmma_i32_16x16x16_iu4_w32_gfx12(true, x[0], true, y[0], sum, false);
      else
        return __builtin_amdgcn_wmma_i32_16x16x32_iu4_w32_gfx12(true, x, true, y, sum, false);
    });
#else
    static_assert(
        here || in_host_pass,
        "wmma_iu4_gfx12: v_wmma_i32 in 4-bit integers as gfx12 has it is an instruction of gfx1200 and gfx1201 alone; "
        "call it under if constexpr (compiled)");
    (void)d, (void)a, (void)b;
#endif
  }
};

}  // namespace ufp4::gpu::mma::inline UFP4_GPU
