// ufp4 - gemm_blocks_sm80, exact_blocks on tensor cores: the host's bits for every pair of grids of small integers.
// SPDX-License-Identifier: Apache-2.0
#include "gpu/gemm_check.hpp"

#include <ufp4/cuda/gemm_blocks_sm80.hpp>
#include <ufp4/gpu/kernels/gemm_simt.hpp>

#include "support/seed.hpp"

#include <limits>

using namespace ufp4;
using support::against_host;
using support::exactly;
namespace kernels = ufp4::gpu::kernels;

namespace {

using e3m0_bf16 = block_format<fp4<E3M0>, ufp4::bf16, 16>;
using e1m2_ue5m3 = block_format<fp4<E1M2>, ue5m3, 16>;
using nvfp4_square = block_format<fp4<E2M1>, e4m3, square(16), float>;
using mxint4_square = block_format<ufp4::int4, e8m0, square(32)>;

/// One pair of formats by both kernels: ordinary scales and those from the ends of their range;
/// alpha and tensor scales that round.
template <class A, class B>
void check_pair(const char* name) {
  INFO(support::seed_note());
  CAPTURE(name);
  std::mt19937_64 gen{support::seed(sizeof(typename A::scale_type) * 16 + sizeof(typename B::scale_type))};
  for (const model::scales kind : {model::scales::ordinary, model::scales::hostile}) {
    const std::size_t k = kind == model::scales::ordinary ? 200 : 37;
    const auto a = model::random_quantized<A>(gen, 35, k, kind, 0x1.8p-7f);
    const auto b = model::random_quantized<B>(gen, 67, k, kind, 0x1.333334p+3f);
    CHECK(against_host(kernels::gemm_blocks_small_sm80, a, b,
                       {.alpha = -2.5f, .accumulate = accumulate::exact_blocks}) == "");
  }
}

/// The wide kernel, whose tile has 128 rows and columns, takes a product that gives every processor one.
template <class Work>
void on_one_processor(Work work) {
#if defined(UFP4_SIMT_HEADER)
  auto& device = ufp4::simt::device();
  const gpu::device_facts before = device;
  device.processors = 1;
  work();
  device = before;
#else
  work();
#endif
}
/// Rows that give a real device's processors a tile each; the executor's is told to have one.
std::size_t many_rows() {
  gpu::device_facts device;
  (void)gpu::facts(device);
  return 128 * static_cast<std::size_t>(device.processors) + 3;
}

}  // namespace

TEST_CASE("exact_blocks on tensor cores gives the host's bits for pairs of blocks of 16", "[gpu]") {
  check_pair<e1m2_f32, e1m2_f32>("e1m2_f32 x e1m2_f32");
  check_pair<int4_f32, e2m1_f32>("int4_f32 x e2m1_f32");
  check_pair<nvfp4, nvfp4>("nvfp4 x nvfp4");
  check_pair<nv_e1m2, nvint4>("nv_e1m2 x nvint4");
  check_pair<e3m0_bf16, e1m2_ue5m3>("e3m0_bf16 x e1m2_ue5m3");
  check_pair<nvfp4_square, nvfp4>("nvfp4 square x nvfp4");
  check_pair<e1m2_f32, nvfp4_square>("e1m2_f32 x nvfp4 square");
}

TEST_CASE("exact_blocks on tensor cores gives the host's bits for pairs of longer blocks", "[gpu]") {
  check_pair<mxfp4, mxint4>("mxfp4 x mxint4");
  check_pair<mx_e1m2, mxint4_square>("mx_e1m2 x mxint4 square");
  check_pair<block_format<fp4<E2M1>, float, 64>, block_format<ufp4::int4, e4m3, 64>>("blocks of 64");
  check_pair<block_format<fp4<E3M0>, e8m0, 128>, block_format<fp4<E1M2>, float, 128>>("blocks of 128");
  check_pair<block_format<fp4<E3M0>, float, 256>, block_format<fp4<E3M0>, float, 256>>("blocks of 256");
}

TEST_CASE("the wide kernel gives the same bits, whatever runs first", "[gpu]") {
  on_one_processor([] {
    INFO(support::seed_note());
    std::mt19937_64 gen{support::seed(1)};
    const std::size_t m = many_rows();
    const auto a = model::random_quantized<e1m2_f32>(gen, m, 144);
    const auto b = model::random_quantized<nvint4>(gen, 33, 144, model::scales::hostile, 0x1.99999ap-3f);
    support::in_every_order([&](const std::string& order) {
      CAPTURE(order);
      REQUIRE(against_host(kernels::gemm_blocks_sm80, a, b) == "");
    });
    const auto c = model::random_quantized<mxfp4>(gen, m, 100), d = model::random_quantized<mxfp4>(gen, 130, 100);
    REQUIRE(against_host(kernels::gemm_blocks_sm80, c, d) == "");
    using longer = block_format<fp4<E2M1>, e8m0, 128>;
    const auto e = model::random_quantized<longer>(gen, m, 300), f = model::random_quantized<longer>(gen, 9, 300);
    REQUIRE(against_host(kernels::gemm_blocks_sm80, e, f) == "");
  });
}

TEST_CASE("every number of rows, columns and blocks, whatever runs first", "[gpu]") {
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
      REQUIRE(against_host(kernels::gemm_blocks_small_sm80, a, b) == "");
      REQUIRE(against_host(kernels::gemm_blocks_small_sm80, c, d) == "");
    });
  }
}

TEST_CASE("alpha, beta, bias, every type and layout of C", "[gpu]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(3)};
  const auto a = model::random_quantized<e1m2_f32>(gen, 37, 80);
  const auto b = model::random_quantized<nvfp4>(gen, 41, 80);
  const std::vector<float> bias = model::wide_floats(gen, 41);
  const gemm_options all{.alpha = 1.3f, .beta = -0.7f, .accumulate = accumulate::exact_blocks, .bias = bias};
  const auto& kernel = kernels::gemm_blocks_small_sm80;
  CHECK(against_host<float>(kernel, a, b, all, {.gap = 3}) == "");
  CHECK(against_host<float>(kernel, a, b, all, {.gap = 1, .turned = true}) == "");
  CHECK(against_host<float>(kernel, a, b, all, {.upside_down = true}) == "");
  CHECK(against_host<ufp4::bf16>(kernel, a, b, all, {.gap = 7}) == "");
  CHECK(against_host<ufp4::fp16>(kernel, a, b, all, {.turned = true}) == "");
}

TEST_CASE("a sum that vanishes keeps its sign, however much of the last step lies beyond K", "[gpu]") {
  for (const std::size_t k : {16u, 64u, 80u}) {
    CAPTURE(k);
    quantized_matrix<e1m2_f32> a(1, k), b(1, k);
    for (auto* q : {&a, &b})
      for (auto& byte : q->codes()) byte = 0;
    a.codes()[k / 2 - 8] = 0x09;  // -0.25, in the last block
    b.codes()[k / 2 - 8] = 0x01;
    for (auto& scale : a.scales()) scale = 0x1p-149f;
    for (auto& scale : b.scales()) scale = 1.0f;
    CHECK(against_host(kernels::gemm_blocks_small_sm80, a, b) == "");
    float c = 0;
    quantized_gemm(a, b, matrix_view<float>{&c, 1, 1}, exactly);
    CHECK(model::bits_of(c) == 0x80000000u);
  }
}

TEST_CASE("tensor scales from the ends of their range scale as the host has it", "[gpu]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(4)};
  auto a = model::random_quantized<nvfp4>(gen, 9, 48);
  auto b = model::random_quantized<nvint4>(gen, 10, 48);
  for (const float left : {0.0f, 0x1p-149f, 0x1p-126f, 1.0f, 0x1p127f, std::numeric_limits<float>::quiet_NaN()})
    for (const float right : {0x1.8p-140f, 0x1.8p0f, 0x1.fffffep127f}) {
      CAPTURE(left, right);
      a.set_tensor_scale(left);
      b.set_tensor_scale(right);
      CHECK(against_host(kernels::gemm_blocks_small_sm80, a, b) == "");
    }
}

TEST_CASE("a NaN scale makes NaN every product of its block, and no other", "[gpu]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(5)};
  auto a = model::random_quantized<nvfp4>(gen, 40, 96), b = model::random_quantized<nvfp4>(gen, 66, 96);
  a.scales()[33 * 6 + 5] = e4m3::from_bits(0x7F);
  b.scales()[3 * 6] = e4m3::from_bits(0x7F);
  const gpu::quantized_matrix<nvfp4> da{a.view()}, db{b.view()};
  const gpu::buffer<float> c(40 * 66);
  REQUIRE(support::text_of(
              gpu::quantized_gemm(gpu::context{}, da, db, matrix_view<float>{c.data(), 40, 66}, exactly)) == "");
  const std::vector<float> got = support::on_host(c);
  for (std::size_t i = 0; i < 40; ++i)
    for (std::size_t j = 0; j < 66; ++j) REQUIRE((got[i * 66 + j] != got[i * 66 + j]) == (i == 33 || j == 3));
  CHECK(against_host(kernels::gemm_blocks_small_sm80, a, b) == "");
}

TEST_CASE("codes on 4 bytes and no more are taken; on fewer, by the kernel for any architecture", "[gpu]") {
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
    const bool tensor_cores = against_host<float>(kernels::gemm_blocks_small_sm80, a, b, da, db, 20, 21, exactly) == "";
    CHECK(tensor_cores == (shift == 4));
    CHECK(against_host<float>(kernels::gemm_simt, a, b, da, db, 20, 21, exactly) == "");
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
  REQUIRE(kernels::gemm_blocks_small_sm80.run(call.job, device, {}, gpu::stream{}) == gpu::success);
  REQUIRE(support::text_of(gpu::quantized_gemm(gpu::context{}, da, db, exact, exactly)) == "");
  CHECK(support::difference(support::on_host(c), support::on_host(d)) == "");
}
