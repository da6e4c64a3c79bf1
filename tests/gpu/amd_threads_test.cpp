// ufp4 - the kernels of AMD GPUs, one small shape each: under ThreadSanitizer the executor reports a missing barrier.
// SPDX-License-Identifier: Apache-2.0
#include "gpu/amd_targets.hpp"
#include "gpu/gemm_check.hpp"

#include "support/catch.hpp"
#include "support/seed.hpp"
#include "support/skip.hpp"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

using namespace ufp4;

#if !defined(UFP4_SIMT_HEADER)

TEST_CASE("AMD's kernels under ThreadSanitizer are the executor's", "[gpu]") {
  support::skip("this file is for the executor, not a GPU");
}

#else

namespace {

/// Every scale is 1, so that all sums are exact, whatever makes them and in whichever order.
template <class F>
quantized_matrix<F> plain_sums(std::mt19937_64& gen, std::size_t rows, std::size_t cols) {
  auto q = model::random_quantized<F>(gen, rows, cols);
  for (auto& s : q.scales()) s = typename F::scale_type(1.0f);
  return q;
}

/// Ragged tiles, small ones and, on one processor, large ones; several steps along K.
template <class F>
void multiplies(int architecture, accumulate mode, const std::string& kernel) {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(architecture)};
  for (const std::size_t side : {20u, 70u}) {
    gpu::device_facts now = simt::amd_device(architecture);
    now.processors = 1;
    const support::played_amd device{now};
    const auto a = plain_sums<F>(gen, side, 288), b = plain_sums<F>(gen, side + 3, 288);
    const gpu::quantized_matrix<F> left(a.view()), right(b.view());
    const gpu::buffer<float> c(side * (side + 3));
    const matrix_view<float> out{c.data(), side, side + 3};
    CAPTURE(architecture, side);
    REQUIRE(std::string(gpu::explain({}, left, right, out, {.accumulate = mode}).kernel) == kernel);
    REQUIRE(support::text_of(gpu::quantized_gemm({}, left, right, out, {.accumulate = mode})) == "");
    std::vector<float> want(c.size());
    quantized_gemm(cpu::context{.threads = 1}, a, b, matrix_view<float>{want.data(), side, side + 3}, support::exactly);
    CHECK(support::difference(support::on_host(c), want) == "");
  }
}

}  // namespace

TEST_CASE("threads of the blocks kernels of AMD's matrix cores meet at barriers", "[gpu]") {
  multiplies<nvfp4>(0x90a, accumulate::exact_blocks, "gemm_blocks_gfx90a");
  multiplies<mxfp4>(0x942, accumulate::exact_blocks, "gemm_blocks_gfx90a");
  multiplies<nvfp4>(0x1100, accumulate::exact_blocks, "gemm_blocks_gfx11");
  multiplies<mxfp4>(0x1201, accumulate::exact_blocks, "gemm_blocks_gfx12");
}
TEST_CASE("threads of the bf16 kernels of AMD's matrix cores meet at barriers", "[gpu]") {
  multiplies<nvfp4>(0x90a, accumulate::fast, "gemm_bf16_gfx90a");
  multiplies<nvfp4>(0x950, accumulate::fast, "gemm_bf16_gfx950");
  multiplies<nvfp4>(0x1100, accumulate::fast, "gemm_bf16_gfx11");
  multiplies<nvfp4>(0x1201, accumulate::fast, "gemm_bf16_gfx12");
}
TEST_CASE("threads of AMD's kernels in 4-bit integers meet at barriers", "[gpu]") {
  multiplies<nvint4>(0x1100, accumulate::exact_blocks, "gemm_iu4_gfx11");
  multiplies<nvint4>(0x1201, accumulate::exact_blocks, "gemm_iu4_k16_gfx12");
  multiplies<mxint4>(0x1201, accumulate::exact_blocks, "gemm_iu4_gfx12");
}
TEST_CASE("threads of AMD's scaled kernels meet at barriers", "[gpu]") {
  multiplies<mxfp4>(0x950, accumulate::fast, "gemm_mxfp4_gfx950");
  multiplies<mx_e1m2>(0x950, accumulate::fast, "gemm_mx_containers_gfx950");
}

TEST_CASE("threads of the quantizers meet at barriers, in waves of 64 and of 32", "[gpu]") {
  std::vector<float> values(40 * 64);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * 7919 % 1009) - 504.0f;
  const random_hadamard<16> rht{5};
  const matrix_view<const float> host{values.data(), 40, 64};
  const auto rows = quantize<nvfp4>(host, rht), columns = quantize<nvfp4>(transpose(host), rht);
  for (const int architecture : {0x90a, 0x1100}) {
    CAPTURE(architecture);
    const support::played_amd device{architecture};
    const gpu::buffer<float> x{std::span<const float>(values)};
    const gpu::buffer<std::byte> workspace(1 << 12);
    const gpu::quantized_matrix<nvfp4> qr(40, 64, rht.spec()), qc(64, 40, rht.spec());
    const matrix_view<const float> there{x.data(), 40, 64};
    const gpu::context ctx{{}, workspace.span()};
    REQUIRE(support::text_of(
                gpu::quantize_both<nvfp4>(ctx, there, qr.view(), qc.view(), gpu::with(rht), gpu::with(rht))) == "");
    CHECK(std::equal(rows.codes().begin(), rows.codes().end(), qr.view().codes().begin()));
    CHECK(std::equal(columns.codes().begin(), columns.codes().end(), qc.view().codes().begin()));
  }
}

#endif
