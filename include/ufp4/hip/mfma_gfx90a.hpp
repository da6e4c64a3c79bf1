// ufp4 - MFMA of AMD's data center GPUs (gfx90a, gfx942, gfx950): 16 x 16 x 16 of fp16 or bf16 with binary32 sums.
// SPDX-License-Identifier: Apache-2.0
//
// From the ISA documents of CDNA 2, 3 and 4, for lane l of 64:
//
// | a, b | row l % 16 of either operand, columns 4 (l / 16) .. + 3 along K, two a register; |
// |      | 8 (l / 16) .. + 7 where K is 32                                                  |
// | d    | d[i]: row 4 (l / 16) + i of the left operand, row l % 16 of the right one        |
//
// AMD does not document how sums are rounded. Reported by measurement (arXiv 2511.10909):
//
// | CDNA 2 | subnormal operands, products and sums become zero (AMD says so too); products are added in fours, by    |
// |        | pairs, and the fours to the running sum, each addition rounded to nearest                               |
// | CDNA 3 | eight products at a time, each cut 24 places below the exponent of the greatest; the running sum is cut |
// |        | likewise where they outweigh it; their sum is rounded to nearest                                        |
// | CDNA 4 | not reported                                                                                            |
//
// Integers and their sums below 2^24 lose nothing in either. 32 x 32 x 8 has the same rate, and operands that wait in
// registers for four rows and four columns of tiles are read from shared memory no oftener.
#pragma once

#include <cstdint>
#include <ufp4/gpu/vendor.hpp>

#if !defined(UFP4_SIMT_HEADER)
#include <ufp4/hip/matrix_core.hpp>
#endif

namespace ufp4::gpu::mma::inline UFP4_GPU {

/// What kernels ask of an instruction family; the others' headers have the same.
///
/// | groups          | of lanes that hold different columns of a row                             |
/// | f16_, bf16_words | registers of a row's columns; that many times 2 * groups is K             |
/// | sums            | registers of d, in row row_of_sum(lane, i) of the left operand            |
/// | compiled        | has the running pass of the compiler the instructions? Where not, a call  |
/// |                 | in device code does not compile                                           |
struct mfma_gfx90a {
  static constexpr const char *f16_name = "v_mfma_f32_16x16x16_f16", *bf16_name = "v_mfma_f32_16x16x16_bf16";
  static constexpr unsigned wave = 64, groups = 4;
  static constexpr unsigned f16_words = 2, bf16_words = 2;
  static constexpr unsigned sums = 4;
#if defined(UFP4_SIMT_HEADER) || defined(__gfx90a__) || defined(__gfx940__) || defined(__gfx941__) || \
    defined(__gfx942__) || defined(__gfx950__)
  static constexpr bool compiled = true;
#else
  static constexpr bool compiled = false;
#endif

  static constexpr bool runs_on(int architecture) {
    return architecture == 0x90a || (architecture >= 0x940 && architecture <= 0x950);
  }
  UFP4_DEVICE static unsigned row_of_sum(unsigned l, unsigned i) { return l / 16 * 4 + i; }

  template <bool here = compiled>
  UFP4_DEVICE static void multiply_f16(float (&d)[sums], const std::uint32_t (&a)[f16_words],
                                       const std::uint32_t (&b)[f16_words]) {
#if defined(UFP4_SIMT_HEADER)
    simt::matrix_f16<simt::mfma_layout>("mfma_f32_16x16x16f16", d, a, b);
#elif defined(__gfx90a__) || defined(__gfx940__) || defined(__gfx941__) || defined(__gfx942__) || defined(__gfx950__)
    multiply_registers<_Float16>(
        d, a, b, [](auto x, auto y, auto sum) { return __builtin_amdgcn_mfma_f32_16x16x16f16(x, y, sum, 0, 0, 0); });
#else
    static_assert(here || in_host_pass,
                  "mfma_gfx90a: v_mfma_f32_16x16x16_f16 is an instruction of gfx90a, gfx94x and gfx950 alone; "
                  "call it under if constexpr (compiled)");
    (void)d, (void)a, (void)b;
#endif
  }
  template <bool here = compiled>
  UFP4_DEVICE static void multiply_bf16(float (&d)[sums], const std::uint32_t (&a)[bf16_words],
                                        const std::uint32_t (&b)[bf16_words]) {
#if defined(UFP4_SIMT_HEADER)
    simt::matrix_bf16<simt::mfma_layout>("mfma_f32_16x16x16bf16_1k", d, a, b);
#elif defined(__gfx90a__) || defined(__gfx940__) || defined(__gfx941__) || defined(__gfx942__) || defined(__gfx950__)
    multiply_registers<short>(d, a, b, [](auto x, auto y, auto sum) {
      return __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(x, y, sum, 0, 0, 0);
    });
#else
    static_assert(here || in_host_pass,
                  "mfma_gfx90a: v_mfma_f32_16x16x16_bf16 is an instruction of gfx90a, gfx94x and gfx950 alone; "
                  "call it under if constexpr (compiled)");
    (void)d, (void)a, (void)b;
#endif
  }
};

/// With gfx950's bf16 instruction of K = 32, in twice the work per cycle.
struct mfma_gfx950 : mfma_gfx90a {
  static constexpr const char* bf16_name = "v_mfma_f32_16x16x32_bf16";
  static constexpr unsigned bf16_words = 4;
#if defined(UFP4_SIMT_HEADER) || defined(__gfx950__)
  static constexpr bool compiled = true;
#else
  static constexpr bool compiled = false;
#endif

  static constexpr bool runs_on(int architecture) { return architecture == 0x950; }

  template <bool here = compiled>
  UFP4_DEVICE static void multiply_bf16(float (&d)[sums], const std::uint32_t (&a)[bf16_words],
                                        const std::uint32_t (&b)[bf16_words]) {
#if defined(UFP4_SIMT_HEADER)
    simt::matrix_bf16<simt::mfma_k32_layout>("mfma_f32_16x16x32_bf16", d, a, b);
#elif defined(__gfx950__)
    multiply_registers<__bf16>(
        d, a, b, [](auto x, auto y, auto sum) { return __builtin_amdgcn_mfma_f32_16x16x32_bf16(x, y, sum, 0, 0, 0); });
#else
    static_assert(here || in_host_pass,
                  "mfma_gfx950: v_mfma_f32_16x16x32_bf16 is an instruction of gfx950 alone; "
                  "call it under if constexpr (compiled)");
    (void)d, (void)a, (void)b;
#endif
  }
};

}  // namespace ufp4::gpu::mma::inline UFP4_GPU
