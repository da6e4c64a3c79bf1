// ufp4 - which kernel a product runs on which device: no fallback hides behind another's name.
// SPDX-License-Identifier: Apache-2.0
// ctest: alone
#define UFP4_EXPERIMENTAL  // so that the kernels which no device has run yet are in the table's reach
#include "gpu/device.hpp"

#include "support/catch.hpp"

#include <cstddef>
#include <string>

using namespace ufp4;

#if defined(UFP4_SIMT_HEADER)

namespace {

/// The kernel of an M x 512 x 256 product of two formats on the device that is played.
template <class Left, class Right>
std::string chosen(int architecture, std::size_t m, accumulate mode) {
  const support::played device(architecture);
  simt::device().processors = 100;
  simt::device().shared_bytes = 220 * 1024;
  const std::size_t n = 512, k = 256;
  const gpu::quantized_matrix<Left> a(m, k);
  const gpu::quantized_matrix<Right> b(n, k);
  const gpu::buffer<float> c(m * n);
  const auto e = gpu::explain(gpu::context{}, a, b, matrix_view<float>{c.data(), m, n}, {.accumulate = mode});
  return e.kernel;
}

using nf4_f32 = block_format<nf4, float, 16>;

constexpr auto fast = accumulate::fast, exact = accumulate::exact_blocks, folded = accumulate::folded_bf16;

}  // namespace

TEST_CASE("compute capability 8: bf16 or s8 tensor cores, few rows apart, and the plain kernel for what they cannot",
          "[gpu]") {
  CHECK(chosen<nvfp4, nvfp4>(80, 256, fast) == "gemm_bf16_sm80");
  CHECK(chosen<mx_e1m2, mxfp4>(86, 256, fast) == "gemm_bf16_sm80");
  CHECK(chosen<nvfp4, nvfp4>(80, 4096, exact) == "gemm_blocks_sm80");
  CHECK(chosen<nvfp4, nvfp4>(80, 64, exact) == "gemm_blocks_small_sm80");
  CHECK(chosen<e1m2_f32, int4_f32>(89, 4096, fast) == "gemm_blocks_sm80");
  CHECK(chosen<e1m2_f32, e1m2_f32>(80, 256, folded) == "gemm_bf16_sm80");
  CHECK(chosen<nvfp4, nvfp4>(80, 8, fast) == "gemv_blocks_sm80");
  CHECK(chosen<e1m2_f32, e1m2_f32>(80, 1, exact) == "gemv_blocks_sm80");
  CHECK(chosen<nf4_f32, nf4_f32>(80, 256, exact) == "gemm_simt");
  CHECK(chosen<nvfp4, nvfp4>(75, 256, fast) == "gemm_simt");
}

TEST_CASE("compute capability 9: wgmma where the program asks for what no device has run", "[gpu]") {
  CHECK(chosen<nvfp4, nvfp4>(90, 256, fast) == "gemm_wgmma_sm90");
  CHECK(chosen<e1m2_f32, e1m2_f32>(90, 256, folded) == "gemm_wgmma_sm90");
  CHECK(chosen<nvfp4, nvfp4>(90, 4096, exact) == "gemm_blocks_sm80");
  CHECK(chosen<nvfp4, nvfp4>(90, 8, fast) == "gemv_blocks_sm80");
}

TEST_CASE("compute capability 10: tcgen05 for E2M1, bf16 for the uniform grids", "[gpu]") {
  CHECK(chosen<nvfp4, nvfp4>(100, 256, fast) == "gemm_nvfp4_tcgen05");
  CHECK(chosen<mxfp4, mxfp4>(103, 256, fast) == "gemm_mxfp4_tcgen05");
  CHECK(chosen<nv_e1m2, nv_e1m2>(100, 256, fast) == "gemm_bf16_sm80");
  CHECK(chosen<nvfp4, nvfp4>(100, 4096, exact) == "gemm_blocks_sm80");
}

TEST_CASE("compute capability 12: block-scaled mma for E2M1, containers for mx formats of uniform grids", "[gpu]") {
  CHECK(chosen<nvfp4, nvfp4>(120, 256, fast) == "gemm_nvfp4_sm120");
  CHECK(chosen<mxfp4, mxfp4>(121, 256, fast) == "gemm_mxfp4_sm120");
  CHECK(chosen<mx_e1m2, mxint4>(120, 256, fast) == "gemm_mx_containers_sm120");
  CHECK(chosen<mxfp4, mxint4>(120, 256, fast) == "gemm_mx_containers_sm120");
  CHECK(chosen<nv_e1m2, nvint4>(120, 256, fast) == "gemm_bf16_sm80");
  CHECK(chosen<nvfp4, nvfp4>(120, 4096, exact) == "gemm_blocks_sm80");
}

#else

TEST_CASE("which kernel runs where is asked of the executor, which plays every device", "[gpu]") { SUCCEED(); }

#endif
