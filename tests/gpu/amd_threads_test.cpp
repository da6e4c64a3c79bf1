// ufp4 - the kernels of AMD GPUs, a small shape each: under ThreadSanitizer the CPU simulator reports missing barriers.
// SPDX-License-Identifier: Apache-2.0
// ctest: simulator
#include "gpu/amd_targets.hpp"
#include "gpu/gemm_check.hpp"

#include "support/catch.hpp"
#include "support/seed.hpp"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

using namespace ufp4;

namespace {

/// Every scale is 1, so that all sums are exact in any order.
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
  std::mt19937_64 gen{support::seed(static_cast<std::uint64_t>(architecture))};
  for (const std::size_t side : {20u, 70u}) {
    gpu::device_facts now = simt::amd_device(architecture);
    now.processors = 1;
    const support::simulated_amd device{now};
    const auto a = plain_sums<F>(gen, side, 288), b = plain_sums<F>(gen, side + 3, 288);
    const gpu::quantized_matrix<F> left(a.view()), right(b.view());
    const gpu::buffer<float> c(side * (side + 3));
    const matrix_view<float> out{c.data(), side, side + 3};
    CAPTURE(architecture, side);
    REQUIRE(std::string(gpu::explain({}, left, right, out, {.accumulate = mode}).kernel) == kernel);
    REQUIRE(support::text_of(gpu::quantized_gemm({}, left, right, out, {.accumulate = mode})) == "");
    std::vector<float> want(c.size());
    quantized_gemm(a, b, matrix_view<float>{want.data(), side, side + 3}, support::exactly, cpu::context{.threads = 1});
    CHECK(support::difference(support::on_host(c), want) == "");
  }
}

/// Runs the cases of kernels whose names begin so.
void run_cases(const std::string& family) {
  constexpr auto fast = accumulate::fast, exact = accumulate::exact_blocks;
  const struct {
    void (*multiplies)(int architecture, accumulate mode, const std::string& kernel);
    int architecture;
    accumulate mode;
    const char* kernel;
  } cases[] = {{&multiplies<nvfp4>, 0x90a, exact, "gemm_blocks_gfx90a"},
               {&multiplies<mxfp4>, 0x942, exact, "gemm_blocks_gfx90a"},
               {&multiplies<nvfp4>, 0x1100, exact, "gemm_blocks_gfx11"},
               {&multiplies<mxfp4>, 0x1201, exact, "gemm_blocks_gfx12"},
               {&multiplies<nvfp4>, 0x90a, fast, "gemm_bf16_gfx90a"},
               {&multiplies<nvfp4>, 0x950, fast, "gemm_bf16_gfx950"},
               {&multiplies<nvfp4>, 0x1100, fast, "gemm_bf16_gfx11"},
               {&multiplies<nvfp4>, 0x1201, fast, "gemm_bf16_gfx12"},
               {&multiplies<nvint4>, 0x1100, exact, "gemm_iu4_gfx11"},
               {&multiplies<nvint4>, 0x1201, exact, "gemm_iu4_k16_gfx12"},
               {&multiplies<mxint4>, 0x1201, exact, "gemm_iu4_gfx12"},
               {&multiplies<mxfp4>, 0x950, fast, "gemm_mxfp4_gfx950"},
               {&multiplies<mx_e1m2>, 0x950, fast, "gemm_mx_containers_gfx950"}};
  for (const auto& c : cases)
    if (std::string(c.kernel).starts_with(family)) c.multiplies(c.architecture, c.mode, c.kernel);
}

}  // namespace

TEST_CASE("the blocks kernels of AMD's matrix cores have a barrier between all conflicting accesses", "[gpu]") {
  run_cases("gemm_blocks");
}
TEST_CASE("the bf16 kernels of AMD's matrix cores have a barrier between all conflicting accesses", "[gpu]") {
  run_cases("gemm_bf16");
}
TEST_CASE("AMD's kernels in 4-bit integers have a barrier between all conflicting accesses", "[gpu]") {
  run_cases("gemm_iu4");
}
TEST_CASE("AMD's scaled kernels have a barrier between all conflicting accesses", "[gpu]") { run_cases("gemm_mx"); }

TEST_CASE("the quantizers have a barrier between all conflicting accesses, in waves of 64 and of 32", "[gpu]") {
  std::vector<float> values(40 * 64);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * 7919 % 1009) - 504.0f;
  const random_hadamard<16> rht{5};
  const matrix_view<const float> host{values.data(), 40, 64};
  const auto rows = quantize<nvfp4>(host, rht), columns = quantize<nvfp4>(transpose(host), rht);
  for (const int architecture : {0x90a, 0x1100}) {
    CAPTURE(architecture);
    const support::simulated_amd device{architecture};
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
