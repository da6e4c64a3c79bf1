// ufp4 - the kernels of compute capability 10 on compiled code: the PTX runs in the interpreter, launched by the
// library's host code, and gives the host's bits where sums are exact, and keeps the bound of fast elsewhere.
// SPDX-License-Identifier: Apache-2.0
//
// Compiled and run by tests/gpu/compiled.sh. The table of kernels has those of tcgen05 and gemm_simt alone, so that
// nothing else is compiled for this target.
#define UFP4_EXPERIMENTAL
#include <ufp4/cuda/gemm_tcgen05_sm100.hpp>

#include "gpu/ptx/one_kernel.hpp"

using namespace ufp4;

namespace {

constexpr const gpu::gemm_kernel &nv = gpu::kernels::gemm_nvfp4_tcgen05<>, &mx = gpu::kernels::gemm_mxfp4_tcgen05<>;
constexpr const gpu::gemm_kernel* kernels_here[] = {&nv, &mx, &gpu::kernels::gemm_simt<>};

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

// Tiles of 128 x 64 where those of 128 x 128 are at most half of the processors, of 256 x 256 where they are more.

TEST_CASE("the products of tcgen05 in one thread block have the host's bits where sums are exact") {
  check_exact<nvfp4, nvfp4>(nv, 131, 71, 416);
  check_exact<mxfp4, mxfp4>(mx, 131, 71, 416, 5);
  check_exact<nvfp4, nvfp4>(nv, 100, 300, 2016, 3);
  check_exact<mxfp4, mxfp4>(mx, 260, 130, 1472, 6);
  check_exact<nvfp4, nvfp4>(nv, 5, 400, 1504, 2);
  check_exact<mxfp4, mxfp4>(mx, 100, 700, 1472, 1);
}

TEST_CASE("the products of tcgen05 in pairs of thread blocks have the host's bits where sums are exact") {
  check_exact<nvfp4, nvfp4>(nv, 131, 300, 416, 4);
  check_exact<mxfp4, mxfp4>(mx, 260, 200, 1504, 2);
  check_exact<square_blocks, square_blocks>(nv, 270, 150, 512, 2);
}

TEST_CASE("the products of tcgen05 keep the bound of fast with ordinary scales") {
  check_bound<nvfp4, nvfp4>(nv, 131, 71, 416);
  check_bound<mxfp4, mxfp4>(mx, 21, 150, 96);
  check_bound<nvfp4, nvfp4>(nv, 200, 271, 416, 2);
  check_bound<mxfp4, mxfp4>(mx, 300, 150, 448, 2);
}

TEST_CASE("instructions of the products of tcgen05") {
  count_product<nvfp4>(nv, "quantized_gemm/nvfp4/fast/64", 64, 256, 4);
  count_product<nvfp4>(nv, "quantized_gemm/nvfp4/fast/128", 128, 256, 2);
  count_product<nvfp4>(nv, "quantized_gemm/nvfp4/fast/512", 512, 256, 2);
}
