// ufp4 - gemm_blocks_sm80, exact_blocks on tensor cores: the host's bits for every pair of grids of small integers.
// SPDX-License-Identifier: Apache-2.0
#include "gpu/gemm_check.hpp"

#include <ufp4/cuda/gemm_blocks_sm80.hpp>
#include <ufp4/gpu/kernels/gemm_simt.hpp>

#include "support/format_pairs.hpp"
#include "support/seed.hpp"

#include <limits>

using namespace ufp4;
using support::against_host;
using support::exactly;
namespace kernels = ufp4::gpu::kernels;

namespace {

constexpr auto check_this = []<class Pair>(Pair) {
  support::check_exact_pair<typename Pair::left, typename Pair::right>(kernels::gemm_blocks_small_sm80<>, 200, 37);
};

/// The wide kernel, whose tile has 128 rows and columns, takes a product with a tile for every processor: the simulated
/// device has one.
template <class Work>
void on_one_processor(Work work) {
#if defined(UFP4_SIMT_HEADER)
  gpu::device_facts device = ufp4::simt::device();
  device.processors = 1;
  const support::simulated_device now{device};
#endif
  work();
}
/// Rows for a tile on every processor of the device.
std::size_t many_rows() {
  gpu::device_facts device;
  (void)gpu::facts(device);
  return 128 * static_cast<std::size_t>(device.processors) + 3;
}

}  // namespace

TEST_CASE("exact_blocks on tensor cores gives the host's bits for pairs of blocks of 16", "[gpu]") {
  support::pairs_of_16(check_this);
}
TEST_CASE("exact_blocks on tensor cores gives the host's bits for pairs of longer blocks", "[gpu]") {
  support::pairs_of_longer_blocks(check_this);
}
TEST_CASE("exact_blocks on tensor cores gives the host's bits for pairs of squares", "[gpu]") {
  support::pairs_of_squares(check_this);
}

TEST_CASE("the wide kernel gives the same bits in every order of threads and blocks", "[gpu]") {
  on_one_processor([] {
    INFO(support::seed_note());
    std::mt19937_64 gen{support::seed(1)};
    const std::size_t m = many_rows();
    const auto a = model::random_quantized<e1m2_f32>(gen, m, 144);
    const auto b = model::random_quantized<nvint4>(gen, 33, 144, model::scales::hostile, 0x1.99999ap-3f);
    support::in_every_order([&](const std::string& order) {
      CAPTURE(order);
      REQUIRE(against_host(kernels::gemm_blocks_sm80<>, a, b) == "");
    });
    const auto c = model::random_quantized<mxfp4>(gen, m, 100), d = model::random_quantized<mxfp4>(gen, 130, 100);
    REQUIRE(against_host(kernels::gemm_blocks_sm80<>, c, d) == "");
    using longer = block_format<fp4<E2M1>, e8m0, 128>;
    const auto e = model::random_quantized<longer>(gen, m, 300), f = model::random_quantized<longer>(gen, 9, 300);
    REQUIRE(against_host(kernels::gemm_blocks_sm80<>, e, f) == "");
  });
}

TEST_CASE("every number of rows, columns and blocks gives the host's bits in every order of threads and blocks",
          "[gpu]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(2)};
  for (const std::size_t k : {0u, 1u, 16u, 33u, 64u, 65u, 193u, 272u}) {
    const std::size_t m = 1 + k % 5 * 9, n = 1 + k % 7 * 11;
    CAPTURE(k, m, n);
    const auto a = model::random_quantized<nvfp4>(gen, m, k);
    const auto b = model::random_quantized<e1m2_f32>(gen, n, k);
    const auto c = model::random_quantized<mxint4>(gen, m, k);
    const auto d = model::random_quantized<mxfp4>(gen, n, k);
    support::in_every_order([&](const std::string& order) {
      CAPTURE(order);
      REQUIRE(against_host(kernels::gemm_blocks_small_sm80<>, a, b) == "");
      REQUIRE(against_host(kernels::gemm_blocks_small_sm80<>, c, d) == "");
    });
  }
}

TEST_CASE("alpha, beta and bias give the host's bits in every type and layout of C", "[gpu]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(3)};
  const auto a = model::random_quantized<e1m2_f32>(gen, 37, 80);
  const auto b = model::random_quantized<nvfp4>(gen, 41, 80);
  const std::vector<float> bias = model::wide_floats(gen, 41);
  const gemm_options all{.alpha = 1.3f, .beta = -0.7f, .accumulate = accumulate::exact_blocks, .bias = bias};
  const auto& kernel = kernels::gemm_blocks_small_sm80<>;
  CHECK(against_host<float>(kernel, a, b, all, {.gap = 3}) == "");
  CHECK(against_host<float>(kernel, a, b, all, {.gap = 1, .transposed = true}) == "");
  CHECK(against_host<float>(kernel, a, b, all, {.reversed = true}) == "");
  CHECK(against_host<ufp4::bf16>(kernel, a, b, all, {.gap = 7}) == "");
  CHECK(against_host<ufp4::fp16>(kernel, a, b, all, {.transposed = true}) == "");
}

TEST_CASE("a sum that underflows keeps its sign, however much of the last step is beyond K", "[gpu]") {
  for (const std::size_t k : {16u, 64u, 80u}) {
    CAPTURE(k);
    quantized_matrix<e1m2_f32> a(1, k), b(1, k);
    for (auto* q : {&a, &b})
      for (auto& byte : q->codes()) byte = 0;
    a.codes()[k / 2 - 8] = 0x09;  // -0.25, in the last block
    b.codes()[k / 2 - 8] = 0x01;
    for (auto& scale : a.scales()) scale = 0x1p-149f;
    for (auto& scale : b.scales()) scale = 1.0f;
    CHECK(against_host(kernels::gemm_blocks_small_sm80<>, a, b) == "");
    float c = 0;
    quantized_gemm(a, b, matrix_view<float>{&c, 1, 1}, exactly);
    CHECK(model::bits_of(c) == 0x80000000u);
  }
}

TEST_CASE("tensor scales from the ends of their range give the host's bits", "[gpu]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(4)};
  auto a = model::random_quantized<nvfp4>(gen, 9, 48);
  auto b = model::random_quantized<nvint4>(gen, 10, 48);
  for (const float left : {0.0f, 0x1p-149f, 0x1p-126f, 1.0f, 0x1p127f, std::numeric_limits<float>::quiet_NaN()})
    for (const float right : {0x1.8p-140f, 0x1.8p0f, 0x1.fffffep127f}) {
      CAPTURE(left, right);
      a.set_tensor_scale(left);
      b.set_tensor_scale(right);
      CHECK(against_host(kernels::gemm_blocks_small_sm80<>, a, b) == "");
    }
}

TEST_CASE("a NaN scale makes every product of its block NaN, and no other", "[gpu]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(5)};
  auto a = model::random_quantized<nvfp4>(gen, 40, 96), b = model::random_quantized<nvfp4>(gen, 66, 96);
  a.scales()[33 * 6 + 5] = e4m3::from_bits(0x7F);
  b.scales()[3 * 6] = e4m3::from_bits(0x7F);
  const gpu::quantized_matrix<nvfp4> da{a.view()}, db{b.view()};
  const gpu::buffer<float> c(40 * 66);
  REQUIRE(support::text_of(
              gpu::quantized_gemm(gpu::context{}, da, db, matrix_view<float>{c.data(), 40, 66}, exactly)) == "");
  support::require_only_nan_in(support::on_host(c), 66, 33, 3);
  CHECK(against_host(kernels::gemm_blocks_small_sm80<>, a, b) == "");
}

TEST_CASE("tensor cores take codes aligned to 4 bytes; the kernel for any architecture takes the others", "[gpu]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(6)};
  const auto a = model::random_quantized<e1m2_f32>(gen, 20, 64), b = model::random_quantized<e1m2_f32>(gen, 21, 64);
  const gpu::quantized_matrix<e1m2_f32> db{b.view()};
  const gpu::buffer<float> scales{std::span<const float>(a.scales())};
  for (const std::size_t shift : {4u, 1u}) {
    CAPTURE(shift);
    std::vector<std::uint8_t> moved(shift, 0xAB);
    moved.insert(moved.end(), a.codes().begin(), a.codes().end());
    const gpu::buffer<std::uint8_t> codes{std::span<const std::uint8_t>(moved)};
    const gpu::quantized_view<e1m2_f32> da{codes.span().subspan(shift), scales.span(), nullptr, 20, 64};
    const bool tensor_cores =
        against_host<float>(kernels::gemm_blocks_small_sm80<>, a, b, da, db, 20, 21, exactly) == "";
    CHECK(tensor_cores == (shift == 4));
    CHECK(against_host<float>(kernels::gemm_simt<>, a, b, da, db, 20, 21, exactly) == "");
  }
}

TEST_CASE("fast on these kernels gives the bits of exact_blocks", "[gpu]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(7)};
  const auto a = model::random_quantized<e1m2_f32>(gen, 9, 160);
  const auto b = model::random_quantized<int4_f32>(gen, 10, 160);
  const gpu::quantized_matrix<e1m2_f32> da{a.view()};
  const gpu::quantized_matrix<int4_f32> db{b.view()};
  const gpu::buffer<float> c(90), d(90);
  const matrix_view<float> out{c.data(), 9, 10}, exact{d.data(), 9, 10};
  gpu::device_facts device;
  REQUIRE(gpu::facts(device) == gpu::success);
  const auto call = gpu::detail::call_of(da.view(), db.view(), ufp4::detail::sink_of(out), {}, {});
  REQUIRE(kernels::gemm_blocks_small_sm80<>.run(call.job, device, {}, gpu::stream{}) == gpu::success);
  REQUIRE(support::text_of(gpu::quantized_gemm(gpu::context{}, da, db, exact, exactly)) == "");
  CHECK(support::difference(support::on_host(c), support::on_host(d)) == "");
}
