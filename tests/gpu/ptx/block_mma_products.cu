// ufp4 - the block-scaled kernels of compute capability 12 on compiled code: the PTX runs in the interpreter, launched
// by the library's host code, and gives the host's bits where sums are exact, and keeps the bound of fast elsewhere.
// SPDX-License-Identifier: Apache-2.0
//
// Compiled and run by tests/gpu/compiled.sh. The table of kernels has these kernels and gemm_simt alone, so that no
// other product is compiled for this target.
#include <ufp4/cuda/gemm_block_mma_sm120.hpp>
#include <ufp4/gpu/kernels/gemm_simt.hpp>

#include "gpu/ptx/one_kernel.hpp"

using namespace ufp4;

namespace {

constexpr const gpu::gemm_kernel &nv = gpu::kernels::gemm_nvfp4_sm120<>, &mx = gpu::kernels::gemm_mxfp4_sm120<>,
                                 &bytes = gpu::kernels::gemm_mx_containers_sm120<>;
constexpr const gpu::gemm_kernel* kernels_here[] = {&nv, &mx, &bytes, &gpu::kernels::gemm_simt<>};

using support::check_bound, support::check_exact, support::count_product;

/// 16 rows share a scale.
using square_blocks = block_format<fp4<E2M1>, e4m3, ufp4::square(16), float>;

}  // namespace

namespace ufp4::gpu::inline UFP4_GPU {
template <class>
std::span<const gemm_kernel* const> gemm_kernels() {
  return kernels_here;
}
}  // namespace ufp4::gpu::inline UFP4_GPU

TEST_CASE("block-scaled products of codes that TMA copies have the host's bits where sums are exact") {
  check_exact<nvfp4, nvfp4>(nv, 131, 71, 416);
  check_exact<mxfp4, mxfp4>(mx, 260, 130, 1472);
  check_exact<mxint4, mx_e1m2>(bytes, 131, 150, 992);
  check_exact<square_blocks, square_blocks>(nv, 150, 140, 1024);
  check_exact<nvfp4, nvfp4>(nv, 5, 40, 32);
}

TEST_CASE("block-scaled products of codes that TMA cannot copy have the host's bits where sums are exact") {
  check_exact<nvfp4, nvfp4>(nv, 131, 71, 1008);  // rows of no multiple of 16 bytes
  check_exact<mxfp4, mxfp4>(mx, 20, 130, 416, 0, 4);
  check_exact<mxint4, mxint4>(bytes, 131, 9, 352, 0, 8);
}

TEST_CASE("block-scaled products keep the bound of fast with ordinary scales") {
  check_bound<nvfp4, nvfp4>(nv, 131, 71, 416);
  check_bound<mxfp4, mxfp4>(mx, 21, 150, 96);
  check_bound<mxint4, mxfp4>(bytes, 140, 30, 448);
}

TEST_CASE("instructions of block-scaled products") {
  count_product<nvfp4>(nv, "quantized_gemm/nvfp4/fast/128", 128, 256, 0);
  count_product<mxfp4>(mx, "quantized_gemm/mxfp4/fast/128", 128, 256, 0);
  count_product<mxint4>(bytes, "quantized_gemm/mxint4/fast/128", 128, 256, 0);
}
