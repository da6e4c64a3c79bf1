// ufp4 - which kernel a product runs on each NVIDIA device, experimental kernels included.
// SPDX-License-Identifier: Apache-2.0
// ctest: alone simulator
#define UFP4_TEST_OWN_KERNELS
#define UFP4_EXPERIMENTAL  // so that the table also chooses kernels that have not yet run on a device
#include "gpu/device.hpp"

#include "support/catch.hpp"

#include <cstddef>
#include <string>
#include <vector>

using namespace ufp4;

namespace {

/// The kernel of an M x 512 x 256 product of two formats on the simulated device.
template <class Left, class Right>
std::string chosen(int architecture, std::size_t m, accumulate mode) {
  const support::simulated_device device(architecture);
  simt::device().processors = 100;
  simt::device().shared_bytes = 227 * 1024;
  const std::size_t n = 512, k = 256;
  const gpu::quantized_matrix<Left> a(m, k);
  const gpu::quantized_matrix<Right> b(n, k);
  const gpu::buffer<float> c(m * n);
  const auto e = gpu::explain(gpu::context{}, a, b, matrix_view<float>{c.data(), m, n}, {.accumulate = mode});
  return e.kernel;
}

constexpr auto fast = accumulate::fast, exact = accumulate::exact_blocks, folded = accumulate::folded_bf16;
using names = std::vector<std::string>;

/// The kernels of products in `fast` with 256 rows: nvfp4, mxfp4, mx_e1m2 x mxint4, mxfp4 x mxint4, nv_e1m2 x nvint4.
names fast_kernels(int architecture) {
  return {chosen<nvfp4, nvfp4>(architecture, 256, fast), chosen<mxfp4, mxfp4>(architecture, 256, fast),
          chosen<mx_e1m2, mxint4>(architecture, 256, fast), chosen<mxfp4, mxint4>(architecture, 256, fast),
          chosen<nv_e1m2, nvint4>(architecture, 256, fast)};
}
/// Of nvfp4 in exact_blocks with 4096, 64 and 1 rows, of e1m2_f32 x int4_f32 in fast with 4096 and in folded_bf16 with
/// 256 rows, of nvfp4 in fast with 8 rows, and of nf4 in exact_blocks with 256 rows.
names other_kernels(int architecture) {
  using nf4_f32 = block_format<nf4, float, 16>;
  return {chosen<nvfp4, nvfp4>(architecture, 4096, exact),       chosen<nvfp4, nvfp4>(architecture, 64, exact),
          chosen<nvfp4, nvfp4>(architecture, 1, exact),          chosen<e1m2_f32, int4_f32>(architecture, 4096, fast),
          chosen<e1m2_f32, e1m2_f32>(architecture, 256, folded), chosen<nvfp4, nvfp4>(architecture, 8, fast),
          chosen<nf4_f32, nf4_f32>(architecture, 256, exact)};
}
names others_with(const char* folded_kernel, const char* blocks_kernel = "gemm_blocks_sm80") {
  return {blocks_kernel, "gemm_blocks_small_sm80", "gemv_blocks_sm80", blocks_kernel,
          folded_kernel, "gemv_f16_sm80",          "gemm_simt"};
}

void check_names(const names& got, const names& want) {
  REQUIRE(got.size() == want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    CAPTURE(i);
    CHECK(got[i] == want[i]);
  }
}

}  // namespace

TEST_CASE("before compute capability 8 every product runs the kernel for any architecture", "[gpu]") {
  check_names(fast_kernels(75), names(5, "gemm_simt"));
  check_names(other_kernels(75), names(7, "gemm_simt"));
}

TEST_CASE("compute capability 8 uses bf16 or s8 tensor cores, and a kernel of its own for few rows", "[gpu]") {
  for (const int architecture : {80, 86, 89}) {
    CAPTURE(architecture);
    check_names(fast_kernels(architecture), names(5, "gemm_bf16_sm80"));
    check_names(other_kernels(architecture), others_with("gemm_bf16_sm80"));
    CHECK(chosen<nvfp4, nvfp4>(architecture, 64, fast) == "gemm_few_f16_sm80");
    CHECK(chosen<nvfp4, nvfp4>(architecture, 65, fast) == "gemm_bf16_sm80");
    CHECK(chosen<mxfp4, mxfp4>(architecture, 64, fast) == "gemm_bf16_sm80");
  }
}

TEST_CASE("compute capability 9 uses wgmma in programs that allow experimental kernels", "[gpu]") {
  check_names(fast_kernels(90), names(5, "gemm_wgmma_sm90"));
  check_names(other_kernels(90), others_with("gemm_wgmma_rounded_sm90", "gemm_blocks_sm90"));
}

TEST_CASE("from 1024 rows on, compute capability 9 decodes operands once that need two tables of bytes", "[gpu]") {
  using ue5m3_e1m2 = block_format<fp4<E1M2>, ue5m3, 16, float>;
  for (const std::size_t m : {1023u, 1024u}) {
    CAPTURE(m);
    const std::string of_large = m < 1024 ? "gemm_wgmma_sm90" : "gemm_blocks_sm90";
    CHECK(chosen<mx_e1m2, mxint4>(90, m, fast) == of_large);
    CHECK(chosen<ue5m3_e1m2, ue5m3_e1m2>(90, m, fast) == of_large);
    CHECK(chosen<nvfp4, nvfp4>(90, m, fast) == "gemm_wgmma_sm90");
    CHECK(chosen<mxfp4, mxfp4>(90, m, fast) == "gemm_wgmma_sm90");
  }
  using powers = block_format<fp4<E3M0>, ue5m3, 16, float>;  // its blocks have no exact sums
  CHECK(chosen<powers, powers>(90, 1024, fast) == "gemm_wgmma_sm90");
}

TEST_CASE("where wgmma cannot run, compute capability 9 multiplies sums of blocks if scales fold, else bf16", "[gpu]") {
  const auto with_depth = []<class Left, class Right>(const Left&, const Right&) {
    const support::simulated_device device(90);
    simt::device().shared_bytes = 227 * 1024;
    const gpu::quantized_matrix<Left> a(256, 272);  // no multiple of 32
    const gpu::quantized_matrix<Right> b(512, 272);
    const gpu::buffer<float> c(256 * 512);
    return std::string(gpu::explain(gpu::context{}, a, b, matrix_view<float>{c.data(), 256, 512}).kernel);
  };
  using powers = block_format<fp4<E3M0>, ue5m3, 16, float>;  // sums of its blocks with scales exceed 2^24
  CHECK(with_depth(nvfp4{}, nvfp4{}) == "gemm_blocks_sm90");
  CHECK(with_depth(powers{}, powers{}) == "gemm_bf16_sm80");
}

TEST_CASE("gemm_blocks_sm90 reports tiles of 128 x 256 where they fill the device, else of 128 x 128", "[gpu]") {
  const support::simulated_device device(90);
  simt::device().shared_bytes = 227 * 1024;
  simt::device().processors = 4;
  const gpu::quantized_matrix<e1m2_f32> a(256, 64), b(512, 64), few(128, 64);
  const gpu::buffer<float> c(256 * 512);
  const auto wide = gpu::explain(gpu::context{}, a, b, matrix_view<float>{c.data(), 256, 512});
  const auto narrow = gpu::explain(gpu::context{}, few, b, matrix_view<float>{c.data(), 128, 512});
  CHECK((std::string(wide.kernel) == "gemm_blocks_sm90" && std::string(narrow.kernel) == "gemm_blocks_sm90"));
  CHECK((wide.tile_rows == 128 && wide.tile_cols == 256 && narrow.tile_rows == 128 && narrow.tile_cols == 128));
  // A group's products run one by one, each on the whole device.
  const std::vector<gpu::quantized_view<e1m2_f32>> lefts(4, a.view()), rights(4, b.view());
  const std::vector<matrix_view<float>> outs(4, matrix_view<float>{c.data(), 256, 512});
  for (const auto& e : gpu::explain_grouped(gpu::context{}, lefts, rights, outs)) CHECK(e.tile_cols == 256);
}

TEST_CASE("tiles of wgmma have as many rows as C needs, up to 128, and explain reports them", "[gpu]") {
  const support::simulated_device device(90);
  simt::device().shared_bytes = 227 * 1024;
  struct row {
    std::size_t m, tile;
  };
  for (const row& r : {row{17, 32}, row{32, 32}, row{33, 64}, row{65, 128}, row{1000, 128}}) {
    CAPTURE(r.m);
    const gpu::quantized_matrix<nvfp4> a(r.m, 64), b(300, 64);
    const gpu::buffer<float> c(r.m * 300);
    const auto e = gpu::explain(gpu::context{}, a, b, matrix_view<float>{c.data(), r.m, 300});
    CHECK(std::string(e.kernel) == "gemm_wgmma_sm90");
    CHECK(e.tile_rows == r.tile);
    CHECK(e.tile_cols == 256);
  }
}

TEST_CASE("compute capability 10 uses tcgen05 for E2M1, and bf16 for the uniform grids", "[gpu]") {
  for (const int architecture : {100, 103}) {
    CAPTURE(architecture);
    check_names(fast_kernels(architecture), names{"gemm_nvfp4_tcgen05", "gemm_mxfp4_tcgen05", "gemm_bf16_sm80",
                                                  "gemm_bf16_sm80", "gemm_bf16_sm80"});
    check_names(other_kernels(architecture), others_with("gemm_bf16_sm80"));
  }
}

TEST_CASE("compute capability 12 uses block-scaled mma for E2M1, containers for mx formats of uniform grids", "[gpu]") {
  for (const int architecture : {120, 121}) {
    CAPTURE(architecture);
    check_names(fast_kernels(architecture), names{"gemm_nvfp4_sm120", "gemm_mxfp4_sm120", "gemm_mx_containers_sm120",
                                                  "gemm_mx_containers_sm120", "gemm_bf16_sm80"});
    check_names(other_kernels(architecture), others_with("gemm_bf16_sm80"));
  }
}
