// ufp4 - every operation on a GPU, for any vendor: included by cuda.hpp and hip.hpp, which define gemm_kernels() before.
// SPDX-License-Identifier: Apache-2.0
//
// An operation that is called instantiates its kernels, those that the types of its arguments do not exclude. Programs
// that call many can compile all of them once (docs/gpu.md, "Faster builds"): a file with UFP4_COMPILE_GPU_KERNELS has
// every kernel but those of coders of the program's own and of compat presets, and files with UFP4_EXTERNAL_GPU_KERNELS
// use them.
#pragma once

#include <ufp4/device.hpp>
#include <ufp4/gpu/buffer.hpp>
#include <ufp4/gpu/dequantize.hpp>
#include <ufp4/gpu/gemm.hpp>
#include <ufp4/gpu/gemm_grouped.hpp>
#include <ufp4/gpu/hadamard.hpp>
#include <ufp4/gpu/linear.hpp>
#include <ufp4/gpu/matrix.hpp>
#include <ufp4/gpu/quantize.hpp>
#include <ufp4/gpu/status.hpp>

#if defined(UFP4_COMPILE_GPU_KERNELS)
#define UFP4_GPU_FUNCTION template
#elif defined(UFP4_EXTERNAL_GPU_KERNELS)
#define UFP4_GPU_FUNCTION extern template
#endif

#if defined(UFP4_GPU_FUNCTION)
namespace ufp4::gpu::detail::inline UFP4_GPU {
UFP4_GPU_FUNCTION error queue_quantize<quantize_parts{}>(const quantize_task&, stream);
UFP4_GPU_FUNCTION error queue_both<quantize_parts{}>(const quantize_task&, const quantize_task&, stream);
UFP4_GPU_FUNCTION error queue_amax<quantize_parts{}>(const quantize_job&, std::uint32_t*, stream, std::uint32_t*);
UFP4_GPU_FUNCTION error queue_amax_both<quantize_parts{}>(const quantize_job&, std::uint32_t*, const quantize_job&,
                                                          std::uint32_t*, stream);
UFP4_GPU_FUNCTION error queue_dequantize<true, true>(const coded_matrix&, const sink&, stream);
UFP4_GPU_FUNCTION const gemm_kernel* choose_kernel<any_product>(const gemm_job&, const device_facts&);
UFP4_GPU_FUNCTION std::string why_not_better<any_product>(const gemm_job&, const device_facts&, const gemm_kernel*);
}  // namespace ufp4::gpu::detail::inline UFP4_GPU
namespace ufp4::gpu::kernels::inline UFP4_GPU {
UFP4_GPU_FUNCTION error queue_hadamard<void>(const source&, const sink&, const transform_spec&, bool, std::size_t,
                                             stream);
}  // namespace ufp4::gpu::kernels::inline UFP4_GPU
namespace ufp4::gpu::inline UFP4_GPU {
UFP4_GPU_FUNCTION std::span<const gemm_kernel* const> gemm_kernels<any_product>();
}  // namespace ufp4::gpu::inline UFP4_GPU
#undef UFP4_GPU_FUNCTION
#endif
