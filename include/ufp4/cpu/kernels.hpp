// ufp4 - every CPU kernel, as the rows of the tables. Adding a kernel is one row.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ufp4/cpu/kernel_tables.hpp>
#include <ufp4/cpu/kernels/dequantize/dequantize_avx2.hpp>
#include <ufp4/cpu/kernels/dequantize/dequantize_avx512.hpp>
#include <ufp4/cpu/kernels/dequantize/dequantize_neon.hpp>
#include <ufp4/cpu/kernels/dequantize/dequantize_scalar.hpp>
#include <ufp4/cpu/kernels/gemm/gemm_bf16_amx.hpp>
#include <ufp4/cpu/kernels/gemm/gemm_bf16_avx512.hpp>
#include <ufp4/cpu/kernels/gemm/gemm_bf16_neon.hpp>
#include <ufp4/cpu/kernels/gemm/gemm_blocks_amx.hpp>
#include <ufp4/cpu/kernels/gemm/gemm_f32_avx2.hpp>
#include <ufp4/cpu/kernels/gemm/gemm_f32_avx512.hpp>
#include <ufp4/cpu/kernels/gemm/gemm_f32_neon.hpp>
#include <ufp4/cpu/kernels/gemm/gemm_int8_avx2.hpp>
#include <ufp4/cpu/kernels/gemm/gemm_int8_avx512.hpp>
#include <ufp4/cpu/kernels/gemm/gemm_int8_avx_vnni.hpp>
#include <ufp4/cpu/kernels/gemm/gemm_int8_i8mm.hpp>
#include <ufp4/cpu/kernels/gemm/gemm_int8_neon.hpp>
#include <ufp4/cpu/kernels/gemm/gemm_scalar.hpp>
#include <ufp4/cpu/kernels/gemm/gemv_int8_avx512.hpp>
#include <ufp4/cpu/kernels/hadamard/hadamard_avx2.hpp>
#include <ufp4/cpu/kernels/hadamard/hadamard_avx512.hpp>
#include <ufp4/cpu/kernels/hadamard/hadamard_neon.hpp>
#include <ufp4/cpu/kernels/hadamard/hadamard_scalar.hpp>
#include <ufp4/cpu/kernels/quantize/quantize_avx2.hpp>
#include <ufp4/cpu/kernels/quantize/quantize_avx512.hpp>
#include <ufp4/cpu/kernels/quantize/quantize_neon.hpp>
#include <ufp4/cpu/kernels/quantize/quantize_scalar.hpp>

namespace ufp4::cpu::detail::inline UFP4_CODE {

inline constexpr quantize_row quantize_kernels[] = {
    {isa::scalar, "quantize_scalar", [](const quantize_job&, const block_coder<rounding_spec>&) { return true; },
     &quantize_scalar},
#if defined(__x86_64__)
    {isa::avx2, "quantize_avx2", &avx2::quantize_kernel::takes_quantize, &avx2::quantize_kernel::quantize_lanes},
    {isa::avx512, "quantize_avx512", &avx512::quantize_kernel::takes_quantize,
     &avx512::quantize_kernel::quantize_lanes},
#elif defined(__aarch64__)
    {isa::neon, "quantize_neon", &neon::quantize_kernel::takes_quantize, &neon::quantize_kernel::quantize_lanes},
#endif
};
inline constexpr kernel_row<amax_function> amax_kernels[] = {
    {isa::scalar, "amax_scalar", &amax_strips},
#if defined(__x86_64__)
    {isa::avx2, "amax_avx2", &avx2::quantize_kernel::amax_lanes},
    {isa::avx512, "amax_avx512", &avx512::quantize_kernel::amax_lanes},
#elif defined(__aarch64__)
    {isa::neon, "amax_neon", &neon::quantize_kernel::amax_lanes},
#endif
};
inline constexpr kernel_row<dequantize_function> dequantize_kernels[] = {
    {isa::scalar, "dequantize_scalar", &dequantize_scalar},
#if defined(__x86_64__)
    {isa::avx2, "dequantize_avx2", &avx2::dequantize_kernel::dequantize_rows<false>},
    {isa::avx512, "dequantize_avx512", &avx512::dequantize_kernel::dequantize_rows<false>},
    {isa::avx512_bf16, "dequantize_avx512_bf16", &avx512::dequantize_kernel::dequantize_rows<true>},
#elif defined(__aarch64__)
    {isa::neon, "dequantize_neon", &neon::dequantize_kernel::dequantize_rows<false>},
#endif
};
inline constexpr kernel_row<hadamard_function> hadamard_kernels[] = {
    {isa::scalar, "hadamard_scalar", &hadamard_scalar},
#if defined(__x86_64__)
    {isa::avx2, "hadamard_avx2", &avx2::transform_kernel::hadamard_rows},
    {isa::avx512, "hadamard_avx512", &avx512::transform_kernel::hadamard_rows},
#elif defined(__aarch64__)
    {isa::neon, "hadamard_neon", &neon::transform_kernel::hadamard_rows},
#endif
};
/// Within a tier the first that takes a job runs it.
inline constexpr const gemm_kernel* gemm_kernels[] = {
#if defined(__x86_64__)
    &avx2::gemm_int8_kernel,  &avx2::gemm_f32_kernel,   &avx_vnni::gemm_int8_kernel,
#elif defined(__aarch64__)
    &neon_bf16::gemm_bf16_kernel, &neon_i8mm::gemm_int8_kernel, &neon_dotprod::gemm_int8_kernel,
    &neon::gemm_int8_kernel,      &neon::gemm_f32_kernel,
#endif
    &gemm_scalar_kernel,
#if defined(__x86_64__)
    &gemm_bf16_amx_kernel,    &gemm_blocks_amx_kernel,  &gemm_bf16_avx512_kernel,
    &gemv_int8_avx512_kernel, &gemm_int8_avx512_kernel, &gemm_f32_avx512_kernel,
#endif
};

#if !defined(UFP4_EXTERNAL_KERNELS)  // else another file holds these, and this one came for a kernel by name
#if defined(UFP4_COMPILE_KERNELS)
#define UFP4_TABLE extern const
#else
#define UFP4_TABLE inline constexpr
#endif
/// A table a operation, each a variable of its own: a program compiles the kernels of the operations that it calls.
namespace kernels {
UFP4_TABLE kernel_table<quantize_row> quantize = quantize_kernels;
UFP4_TABLE kernel_table<kernel_row<amax_function>> amax = amax_kernels;
UFP4_TABLE kernel_table<kernel_row<dequantize_function>> dequantize = dequantize_kernels;
UFP4_TABLE kernel_table<kernel_row<hadamard_function>> hadamard = hadamard_kernels;
UFP4_TABLE kernel_table<const gemm_kernel*> gemm = gemm_kernels;  ///< within a tier the first that takes a job runs it
}  // namespace kernels
#undef UFP4_TABLE
#endif

}  // namespace ufp4::cpu::detail::inline UFP4_CODE
