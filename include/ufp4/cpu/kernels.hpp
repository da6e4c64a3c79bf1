// ufp4 - every CPU kernel, as the rows of the tables. Adding a kernel is one row.
// SPDX-License-Identifier: Apache-2.0
//
// Instruction sets that UFP4_ISAS (config.hpp) leaves out are not compiled; the portable kernels always are.
#pragma once

#include <ufp4/cpu/kernel_tables.hpp>
#if defined(UFP4_CANNOT_COMPILE_CPU_KERNELS)
#error "ufp4: this compiler cannot compile the CPU kernels: define UFP4_EXTERNAL_KERNELS (docs/gpu.md)"
#endif
#include <ufp4/cpu/kernels/gemm/gemm_scalar.hpp>
#include <ufp4/cpu/kernels/kernels_scalar.hpp>
#include <ufp4/cpu/simd/target.hpp>

#if defined(__x86_64__)
#define UFP4_X86(isa) UFP4_HAS_ISA(isa)
#else
#define UFP4_X86(isa) 0
#endif
#if defined(__aarch64__)
#define UFP4_ARM(isa) UFP4_HAS_ISA(isa)
#else
#define UFP4_ARM(isa) 0
#endif

#if UFP4_X86(avx2)
#include <ufp4/cpu/kernels/kernels_avx2.hpp>
#endif
#if UFP4_X86(avx2) || UFP4_X86(avx_vnni)
#include <ufp4/cpu/kernels/gemm/gemm_int8_avx2.hpp>
#endif
#if UFP4_X86(avx512)
#include <ufp4/cpu/kernels/gemm/gemm_extended_avx512.hpp>
#include <ufp4/cpu/kernels/gemm/gemm_f32_avx512.hpp>
#include <ufp4/cpu/kernels/gemm/gemm_int8_avx512.hpp>
#include <ufp4/cpu/kernels/gemm/gemv_extended_avx512.hpp>
#endif
#if UFP4_X86(avx512) || UFP4_X86(avx512_bf16)
#include <ufp4/cpu/kernels/kernels_avx512.hpp>
#endif
#if UFP4_X86(avx512_bf16)
#include <ufp4/cpu/kernels/gemm/gemm_bf16_avx512.hpp>
#include <ufp4/cpu/kernels/gemm/gemm_mixed_avx512.hpp>
#endif
#if UFP4_X86(amx)
#include <ufp4/cpu/kernels/gemm/gemm_amx.hpp>
#endif
#if UFP4_ARM(neon)
#include <ufp4/cpu/kernels/kernels_neon.hpp>
#endif
#if UFP4_ARM(neon) || UFP4_ARM(neon_dotprod) || UFP4_ARM(neon_i8mm)
#include <ufp4/cpu/kernels/gemm/gemm_int8_neon.hpp>
#endif
#if UFP4_ARM(neon_bf16)
#include <ufp4/cpu/kernels/gemm/gemm_bf16_neon.hpp>
#endif

namespace ufp4::cpu::detail::inline UFP4_CODE {

// Rows that are compiled where their instruction set is, and those of all that share lane headers (lane_kernels.hpp).
#define UFP4_ROWS_1(...) __VA_ARGS__
#define UFP4_ROWS_0(...)
#define UFP4_X86_ROWS(isa, ...) UFP4_JOIN(UFP4_ROWS_, UFP4_X86(isa))(__VA_ARGS__)
#define UFP4_ARM_ROWS(isa, ...) UFP4_JOIN(UFP4_ROWS_, UFP4_ARM(isa))(__VA_ARGS__)
#define UFP4_LANE_ROWS(row)               \
  UFP4_X86_ROWS(avx2, avx2::row<needs>, ) \
  UFP4_X86_ROWS(avx512, avx512::row<needs>, ) UFP4_ARM_ROWS(neon, neon::row<needs>, )

template <features needs>
inline constexpr quantize_row quantize_kernels[] = {
    {isa::scalar, "quantize_scalar", [](const quantize_job&, const kernel_coder&) { return true; },
     &quantize_scalar<needs & portable_features>},
    UFP4_LANE_ROWS(lane_quantize)};
template <features needs>
inline constexpr kernel_row<amax_function> amax_kernels[] = {{isa::scalar, "amax_scalar", &amax_strips},
                                                             UFP4_LANE_ROWS(lane_amax)};
template <features needs>
inline constexpr kernel_row<dequantize_function> dequantize_kernels[] = {
    {isa::scalar, "dequantize_scalar", &dequantize_scalar<needs & features::further_parts>},
    UFP4_X86_ROWS(
        avx512_bf16,
        {isa::avx512_bf16, "dequantize_avx512_bf16",
         avx512::dequantize_kernel::dequantize_rows<has(needs, features::half_input), needs & decoded_features>}, )
        UFP4_LANE_ROWS(lane_dequantize)};
template <features needs>
inline constexpr kernel_row<hadamard_function> hadamard_kernels[] = {{isa::scalar, "hadamard_scalar", &hadamard_scalar},
                                                                     UFP4_LANE_ROWS(lane_hadamard)};
/// The GEMM kernels that a product can need. Within a tier the first that takes a job runs it. Those behind the
/// portable one run only what no other takes: nothing, where integers_suffice.
struct gemm_rows {
  const gemm_kernel* row[20] = {};
  std::size_t count = 0;
  template <class... Kernel>
  constexpr void add(const Kernel&... kernel) {
    ((row[count++] = &kernel), ...);
  }
};
template <features needs>
constexpr gemm_rows gemm_rows_of() {
  gemm_rows all;
  UFP4_X86_ROWS(avx2, all.add(avx2::int8_kernel<avx2::pairs_in_16_bits, needs>);)
  UFP4_X86_ROWS(avx_vnni, all.add(avx2::int8_kernel<avx2::dots_in_32_bits<true>, needs>);)
  UFP4_X86_ROWS(avx512, all.add(avx512::gemv_int8_kernel<needs>, avx512::gemm_int8_kernel<needs>);)
  UFP4_X86_ROWS(amx, all.add(amx::gemm_bf16_kernel<needs>);
                if constexpr (has(needs, features::other_mode) || !amx::products_always_fit<needs>)
                    all.add(amx::gemm_blocks_kernel<needs>);)
  UFP4_ARM_ROWS(neon, all.add(neon::int8_kernel<neon::mla, needs>);)
  UFP4_ARM_ROWS(neon_dotprod, all.add(neon_dotprod::int8_kernel<neon_dotprod::sdot, needs>);)
  UFP4_ARM_ROWS(neon_i8mm, all.add(neon_i8mm::int8_kernel<neon_i8mm::smmla, needs>);)
  all.add(gemm_scalar_kernel<needs>);
  if constexpr (has(needs, features::any_product)) {
    UFP4_X86_ROWS(avx2, all.add(avx2::int8_kernel<avx2::pairs_in_steps, needs>, avx2::gemm_f32_kernel<needs>);)
    if constexpr (has(needs, features::further_parts)) {
      UFP4_X86_ROWS(avx512, all.add(avx512::gemv_extended_kernel<needs>, avx512::gemm_extended_kernel<needs>);)
    }
    UFP4_X86_ROWS(avx512, all.add(avx512::gemm_f32_kernel<needs>);)
    if constexpr (has(needs, features::mixed_input)) {
      UFP4_X86_ROWS(avx512_bf16, all.add(avx512::gemv_mixed_kernel<needs>, avx512::gemm_mixed_kernel<needs>);)
    }
    UFP4_X86_ROWS(avx512_bf16, all.add(avx512::gemm_bf16_kernel<needs>);)
    UFP4_ARM_ROWS(neon, all.add(neon::gemm_f32_kernel<needs>);)
    UFP4_ARM_ROWS(neon_bf16, all.add(neon_bf16::gemm_bf16_kernel<needs>);)
  }
  return all;
}
template <features needs>
inline constexpr gemm_rows gemm_kernels = gemm_rows_of<needs>();

/// The tiers that UFP4_ISAS does not leave out.
inline constexpr isa_set compiled_isas = [] {
  isa_set set;
  set.add(isa::scalar);
#define UFP4_TIER(name, architecture, parent) \
  if (UFP4_##architecture(name)) set.add(isa::name);
  UFP4_EACH_ISA(UFP4_TIER)
#undef UFP4_TIER
  return set;
}();
#undef UFP4_ROWS_1
#undef UFP4_ROWS_0
#undef UFP4_X86_ROWS
#undef UFP4_ARM_ROWS
#undef UFP4_LANE_ROWS
#undef UFP4_X86
#undef UFP4_ARM

#if !defined(UFP4_EXTERNAL_KERNELS)
/// A table for each operation, each a variable of its own: a program compiles the kernels of the operations that it
/// calls. All are templates, and so are the functions between a table and its operations: an include instantiates no
/// kernel. With UFP4_EXTERNAL_KERNELS: cpu/kernel_tables.hpp.
namespace kernels {
template <features needs>
inline constexpr kernel_table<quantize_row> quantize = quantize_kernels<needs>;
template <features needs>
inline constexpr kernel_table<kernel_row<amax_function>> amax = amax_kernels<needs>;
template <features needs>
inline constexpr kernel_table<kernel_row<dequantize_function>> dequantize = dequantize_kernels<needs>;
template <features needs>
inline constexpr kernel_table<kernel_row<hadamard_function>> hadamard = hadamard_kernels<needs>;
template <features needs>
inline constexpr gemm_table gemm{gemm_kernels<needs>.row, gemm_kernels<needs>.count};
inline constexpr isa_set compiled = compiled_isas;
}  // namespace kernels
#endif

}  // namespace ufp4::cpu::detail::inline UFP4_CODE

#if defined(UFP4_COMPILE_KERNELS)
namespace ufp4::cpu::detail::inline UFP4_TYPES {

template <class Row, std::size_t n>
constexpr row_list<Row> all_of(const Row (&rows)[n]) {
  return {rows, n};
}
const compiled_kernels external_kernels{all_of(quantize_kernels<features::all>),
                                        all_of(amax_kernels<features::all>),
                                        all_of(dequantize_kernels<features::all>),
                                        all_of(hadamard_kernels<features::all>),
                                        {gemm_kernels<features::all>.row, gemm_kernels<features::all>.count},
                                        compiled_isas};

}  // namespace ufp4::cpu::detail::inline UFP4_TYPES
#endif
