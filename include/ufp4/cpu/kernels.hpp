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
#include <ufp4/cpu/kernels/gemm/gemm_plain_avx512.hpp>
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

template <quantize_needs needs>
inline constexpr quantize_row quantize_kernels[] = {
    {isa::scalar, "quantize_scalar", [](const quantize_job&, const block_coder<rounding_spec>&) { return true; },
     &quantize_scalar},
#if UFP4_X86(avx2)
    {isa::avx2, "quantize_avx2", &avx2::quantize_kernel::takes_quantize, &avx2::quantize_kernel::quantize_lanes<needs>},
#endif
#if UFP4_X86(avx512)
    {isa::avx512, "quantize_avx512", &avx512::quantize_kernel::takes_quantize,
     &avx512::quantize_kernel::quantize_lanes<needs>},
#endif
#if UFP4_ARM(neon)
    {isa::neon, "quantize_neon", &neon::quantize_kernel::takes_quantize, &neon::quantize_kernel::quantize_lanes<needs>},
#endif
};
template <quantize_needs needs>
inline constexpr kernel_row<amax_function> amax_kernels[] = {
    {isa::scalar, "amax_scalar", &amax_strips},
#if UFP4_X86(avx2)
    {isa::avx2, "amax_avx2", &avx2::quantize_kernel::amax_lanes<needs>},
#endif
#if UFP4_X86(avx512)
    {isa::avx512, "amax_avx512", &avx512::quantize_kernel::amax_lanes<needs>},
#endif
#if UFP4_ARM(neon)
    {isa::neon, "amax_neon", &neon::quantize_kernel::amax_lanes<needs>},
#endif
};
template <dequantize_needs needs>
inline constexpr kernel_row<dequantize_function> dequantize_kernels[] = {
    {isa::scalar, "dequantize_scalar", &dequantize_scalar},
#if UFP4_X86(avx2)
    {isa::avx2, "dequantize_avx2", &avx2::dequantize_kernel::dequantize_rows<false, needs>},
#endif
#if UFP4_X86(avx512)
    {isa::avx512, "dequantize_avx512", &avx512::dequantize_kernel::dequantize_rows<false, needs>},
#endif
#if UFP4_X86(avx512_bf16)
    {isa::avx512_bf16, "dequantize_avx512_bf16",
     &avx512::dequantize_kernel::dequantize_rows<needs == dequantize_needs::all, needs>},
#endif
#if UFP4_ARM(neon)
    {isa::neon, "dequantize_neon", &neon::dequantize_kernel::dequantize_rows<false, needs>},
#endif
};
template <class = void>
inline constexpr kernel_row<hadamard_function> hadamard_kernels[] = {
    {isa::scalar, "hadamard_scalar", &hadamard_scalar},
#if UFP4_X86(avx2)
    {isa::avx2, "hadamard_avx2", &avx2::transform_kernel::hadamard_rows},
#endif
#if UFP4_X86(avx512)
    {isa::avx512, "hadamard_avx512", &avx512::transform_kernel::hadamard_rows},
#endif
#if UFP4_ARM(neon)
    {isa::neon, "hadamard_neon", &neon::transform_kernel::hadamard_rows},
#endif
};
/// Within a tier the first that takes a job runs it. Those behind the portable one run only what no other takes.
template <class Use = void>
inline constexpr const gemm_kernel* gemm_kernels[] = {
#if UFP4_X86(avx2)
    &avx2::int8_kernel<avx2::pairs_in_16_bits>,
#endif
#if UFP4_X86(avx_vnni)
    &avx2::int8_kernel<avx2::dots_in_32_bits<true>>,
#endif
#if UFP4_X86(avx512)
    &avx512::gemv_int8_kernel<Use>,
    &avx512::gemm_int8_kernel<Use>,
#endif
#if UFP4_X86(amx)
    &amx::gemm_bf16_kernel<Use>,
    &amx::gemm_blocks_kernel<Use>,
#endif
#if UFP4_ARM(neon)
    &neon::int8_kernel<neon::mla>,
#endif
#if UFP4_ARM(neon_dotprod)
    &neon_dotprod::int8_kernel<neon_dotprod::sdot>,
#endif
#if UFP4_ARM(neon_i8mm)
    &neon_i8mm::int8_kernel<neon_i8mm::smmla>,
#endif
    &gemm_scalar_kernel,
#if UFP4_X86(avx2)
    &avx2::int8_kernel<avx2::pairs_in_steps>,
    &avx2::gemm_f32_kernel<Use>,
#endif
#if UFP4_X86(avx512)
    &avx512::gemv_extended_kernel<Use>,
    &avx512::gemm_extended_kernel<Use>,
    &avx512::gemm_f32_kernel<Use>,
#endif
#if UFP4_X86(avx512_bf16)
    &avx512::gemv_plain_kernel<Use>,
    &avx512::gemm_plain_kernel<Use>,
    &avx512::gemm_bf16_kernel<Use>,
#endif
#if UFP4_ARM(neon)
    &neon::gemm_f32_kernel<Use>,
#endif
#if UFP4_ARM(neon_bf16)
    &neon_bf16::gemm_bf16_kernel<Use>,
#endif
};
template <std::size_t count>
struct gemm_rows {
  const gemm_kernel* row[count];
};
template <std::size_t n>
constexpr std::size_t rows_to_portable(const gemm_kernel* const (&rows)[n]) {
  std::size_t count = 0;
  while (rows[count++]->tier != isa::scalar) {
  }
  return count;
}
template <std::size_t count, std::size_t n>
constexpr gemm_rows<count> first_rows(const gemm_kernel* const (&rows)[n]) {
  gemm_rows<count> first{};
  for (std::size_t i = 0; i < count; ++i) first.row[i] = rows[i];
  return first;
}
/// The rows up to the portable one: all that a product with integers_suffice (gemm_integers.hpp) can use. An array of
/// its own, so that a program with no other products does not compile the rest.
template <class Use = void>
inline constexpr auto integer_gemm_kernels = first_rows<rows_to_portable(gemm_kernels<Use>)>(gemm_kernels<Use>);

/// The tiers that UFP4_ISAS does not leave out.
inline constexpr isa_set compiled_isas = [] {
  isa_set set;
  set.add(isa::scalar);
  if (UFP4_X86(avx2)) set.add(isa::avx2);
  if (UFP4_X86(avx_vnni)) set.add(isa::avx_vnni);
  if (UFP4_X86(avx512)) set.add(isa::avx512);
  if (UFP4_X86(avx512_bf16)) set.add(isa::avx512_bf16);
  if (UFP4_X86(amx)) set.add(isa::amx);
  if (UFP4_ARM(neon)) set.add(isa::neon);
  if (UFP4_ARM(neon_dotprod)) set.add(isa::neon_dotprod);
  if (UFP4_ARM(neon_i8mm)) set.add(isa::neon_i8mm);
  if (UFP4_ARM(neon_bf16)) set.add(isa::neon_bf16);
  return set;
}();
#undef UFP4_X86
#undef UFP4_ARM

#if !defined(UFP4_EXTERNAL_KERNELS)
/// A table for each operation, each a variable of its own: a program compiles the kernels of the operations that it
/// calls. All are templates (Use has no meaning), and so are the functions between a table and its operations: with g++
/// an include instantiates no kernel. With UFP4_EXTERNAL_KERNELS: cpu/kernel_tables.hpp.
namespace kernels {
template <quantize_needs needs>
inline constexpr kernel_table<quantize_row> quantize = quantize_kernels<needs>;
template <quantize_needs needs>
inline constexpr kernel_table<kernel_row<amax_function>> amax = amax_kernels<needs>;
template <dequantize_needs needs>
inline constexpr kernel_table<kernel_row<dequantize_function>> dequantize = dequantize_kernels<needs>;
template <class Use = void>
inline constexpr kernel_table<kernel_row<hadamard_function>> hadamard = hadamard_kernels<Use>;
template <class Use = void>
inline constexpr gemm_table gemm = gemm_kernels<Use>;
template <class Use = void>
inline constexpr gemm_table integer_gemm = integer_gemm_kernels<Use>.row;
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
const compiled_kernels external_kernels{all_of(quantize_kernels<quantize_needs::all>),
                                        all_of(amax_kernels<quantize_needs::all>),
                                        all_of(dequantize_kernels<dequantize_needs::all>),
                                        all_of(hadamard_kernels<>),
                                        all_of(gemm_kernels<>),
                                        all_of(integer_gemm_kernels<>.row),
                                        compiled_isas};

}  // namespace ufp4::cpu::detail::inline UFP4_TYPES
#endif
