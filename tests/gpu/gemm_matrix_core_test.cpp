// ufp4 - exact_blocks on AMD GPUs' matrix cores gives the host's bits, in waves of 64 and of 32; and what runs where.
// SPDX-License-Identifier: Apache-2.0
#include "gpu/amd_targets.hpp"
#include "gpu/gemm_check.hpp"

#include "support/catch.hpp"

#if !defined(__CUDACC__)

#include <ufp4/hip/gemm_bf16.hpp>
#include <ufp4/hip/gemm_blocks.hpp>

#include "support/seed.hpp"

#include <cstddef>
#include <cstring>
#include <string>
#include <tuple>
#include <vector>

using namespace ufp4;

namespace {

using support::ascending;

constexpr support::amd_target targets[] = {{&gpu::kernels::gemm_blocks_gfx90a<>, 0x90a},
                                           {&gpu::kernels::gemm_blocks_gfx90a<>, 0x942},
                                           {&gpu::kernels::gemm_blocks_gfx90a<>, 0x950},
                                           {&gpu::kernels::gemm_blocks_gfx11<>, 0x1100},
                                           {&gpu::kernels::gemm_blocks_gfx12<>, 0x1201}};
template <class Work>
void on_every_target(Work work) {
  support::on_targets(targets, work);
}

/// C of small tiles, or of large ones where the device's processors are few.
template <class A, class B>
void check(const quantized_matrix<A>& a, const quantized_matrix<B>& b) {
  CAPTURE(a.rows(), b.rows(), a.cols());
  const std::vector<float> want = model::exact_blocks(model::side_of(a), model::side_of(b), -1.75f);
  const gemm_options options{.alpha = -1.75f, .accumulate = accumulate::exact_blocks};
  on_every_target([&](const gpu::gemm_kernel& kernel) {
    for (const int processors : {1, 100}) {
      CAPTURE(processors);
      REQUIRE(support::difference(support::product_of(kernel, a, b, options, {}, processors), want) == "");
    }
  });
}

template <class Left, class Right>
void check_shapes() {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(Left::block_size)};
  struct {
    std::size_t m, n, k;
  } const shapes[] = {{1, 1, 16}, {16, 16, 64}, {65, 33, 80}, {131, 130, 272}};
  for (const auto& s : shapes) {
    const auto a = model::random_quantized<Left>(gen, s.m, s.k, model::scales::hostile, 0x1.8p-7f);
    const auto b = model::random_quantized<Right>(gen, s.n, s.k, model::scales::hostile, 0x1.333334p+3f);
    if (s.k < 100)
      support::with_every_sum([&] { check(a, b); });  // a block's sum loses nothing either way
    else
      check(a, b);
  }
}

}  // namespace

TEST_CASE("blocks of 16 on matrix cores give the host's bits", "[gpu]") {
  check_shapes<nvfp4, nvfp4>();
  check_shapes<e1m2_f32, int4_f32>();
  check_shapes<block_format<fp4<E2M1>, e4m3, square(16), float>, nvint4>();
}
TEST_CASE("longer blocks, computed by several instructions, give the host's bits", "[gpu]") {
  check_shapes<mxfp4, mxfp4>();
  check_shapes<block_format<fp4<E1M2>, bf16, 64>, block_format<fp4<E3M0>, ue5m3, 64>>();
  check_shapes<block_format<fp4<E1M2>, bf16, 128>, block_format<fp4<E2M1>, e4m3, 128>>();
}

TEST_CASE("padding of K does not change the result of blocks on matrix cores even if code 0 is not 0", "[gpu]") {
  std::mt19937_64 gen{support::seed(12)};
  quantized_matrix<ascending> a(5, 80), b(7, 80);
  for (auto* q : {&a, &b}) {
    for (auto& byte : q->codes()) byte = static_cast<std::uint8_t>(gen() % 256);
    for (auto& s : q->scales()) s = model::random_scale<e4m3>(gen, model::scales::hostile);
  }
  std::vector<float> want(35);
  quantized_gemm(a, b, matrix_view<float>{want.data(), 5, 7}, support::exactly);
  on_every_target([&](const gpu::gemm_kernel& kernel) {
    for (const int processors : {0, 1})
      REQUIRE(support::same_bits(support::product_of(kernel, a, b, support::exactly, {}, processors), want));
  });
}

TEST_CASE("a block with a NaN scale makes its products NaN, and nothing else", "[gpu]") {
  std::mt19937_64 gen{support::seed(3)};
  auto a = model::random_quantized<nvfp4>(gen, 20, 96);
  a.scales()[7] = e4m3::from_bits(0x7F);
  check(a, model::random_quantized<nvfp4>(gen, 40, 96));
}

TEST_CASE("the order in which threads and blocks run changes no bit of blocks on matrix cores", "[gpu]") {
  std::mt19937_64 gen{support::seed(4)};
  const auto a = model::random_quantized<nvfp4>(gen, 70, 144), b = model::random_quantized<nvfp4>(gen, 130, 144);
  const auto c = model::random_quantized<mxfp4>(gen, 70, 144);
  const auto d = model::random_quantized<mxint4>(gen, 66, 144);
  support::in_every_order([&](const char* order) {
    CAPTURE(order);
    check(a, b);
    check(c, d);
  });
}

TEST_CASE("bf16, transposed and strided C, with beta and bias, has the host's bits on matrix cores", "[gpu]") {
  std::mt19937_64 gen{support::seed(5)};
  const auto a = model::random_quantized<nvfp4>(gen, 37, 80);
  const auto b = model::random_quantized<int4_f32>(gen, 70, 80);
  std::vector<float> bias(70);
  for (std::size_t i = 0; i < bias.size(); ++i) bias[i] = static_cast<float>(i) * 0.25f - 3;
  gemm_options options = support::exactly;
  options.beta = -1.5f;
  options.bias = bias;
  on_every_target([&](const gpu::gemm_kernel& kernel) {
    REQUIRE(support::against_host<bf16>(kernel, a, b, options, {.gap = 3, .transposed = true}) == "");
    REQUIRE(support::against_host<float>(kernel, a, b, options, {.gap = 5, .reversed = true}) == "");
  });
}

TEST_CASE("a launch of many products on matrix cores gives each the bits of its own launch", "[gpu]") {
  std::mt19937_64 gen{support::seed(6)};
  constexpr std::size_t count = 35;  // one more than a launch takes, and more
  std::vector<quantized_matrix<nvfp4>> a, b;
  for (std::size_t e = 0; e < count; ++e) {
    const std::size_t k = e % 4 * 48;
    a.push_back(model::random_quantized<nvfp4>(gen, 1 + 29 * e % 70, k));
    b.push_back(model::random_quantized<nvfp4>(gen, 1 + 17 * e % 90, k));
  }
  const auto check_kernel = [&](const gpu::gemm_kernel& kernel, const gemm_options& options) {
    gpu::device_facts device;
    REQUIRE(gpu::facts(device) == gpu::success);
    std::vector<gpu::quantized_matrix<nvfp4>> left, right;
    std::vector<gpu::buffer<float>> c;
    std::vector<gpu::gemm_job> jobs;
    for (std::size_t e = 0; e < count; ++e) {
      left.emplace_back(a[e].view()), right.emplace_back(b[e].view());
      c.emplace_back(a[e].rows() * b[e].rows());
      const auto out = ufp4::detail::sink_of(matrix_view<float>{c.back().data(), a[e].rows(), b[e].rows()});
      jobs.push_back(gpu::detail::call_of(left.back().view(), right.back().view(), out, options, {}).job);
    }
#if defined(UFP4_SIMT_HEADER)
    const auto before = simt::calls().launches;
#endif
    REQUIRE(kernel.run_group(jobs, device, gpu::stream{}) == gpu::success);
#if defined(UFP4_SIMT_HEADER)
    CHECK(simt::calls().launches == before + 2);
#endif
    for (std::size_t e = 0; e < count; ++e) {
      CAPTURE(e);
      REQUIRE(support::same_bits(support::on_host(c[e]), support::product_of(kernel, a[e], b[e], options)));
    }
  };
  on_every_target([&](const gpu::gemm_kernel& kernel) { check_kernel(kernel, support::exactly); });
  constexpr support::amd_target bf16_targets[] = {{&gpu::kernels::gemm_bf16_gfx90a<>, 0x90a},
                                                  {&gpu::kernels::gemm_bf16_gfx11<>, 0x1100}};
  support::on_targets(bf16_targets, [&](const gpu::gemm_kernel& kernel) { check_kernel(kernel, {}); });
}

#if defined(UFP4_SIMT_HEADER)

TEST_CASE("the blocks kernels of matrix cores take their formats, modes and devices, and no others", "[gpu]") {
  const support::simulated_amd device{0x90a};
  const auto takes = [&]<class F>(quantized_matrix<F>, accumulate mode) {
    const gpu::quantized_matrix<F> a(16, 128), b(16, 128);
    const gpu::buffer<float> c(256);
    const auto out = ufp4::detail::sink_of(matrix_view<float>{c.data(), 16, 16});
    const gpu::gemm_job job = gpu::detail::call_of(a.view(), b.view(), out, {.accumulate = mode}, {}).job;
    return gpu::kernels::gemm_blocks_gfx90a<>.takes(job, simt::device());
  };
  CHECK(takes(quantized_matrix<nvfp4>{}, accumulate::exact_blocks));
  CHECK(takes(quantized_matrix<e1m2_f32>{}, accumulate::fast));
  CHECK_FALSE(takes(quantized_matrix<e1m2_f32>{}, accumulate::folded_bf16));
  CHECK_FALSE(takes(quantized_matrix<block_format<nf4, float, 16>>{}, accumulate::exact_blocks));
  CHECK_FALSE(takes(quantized_matrix<block_format<fp4<E2M1>, e4m3, 8>>{}, accumulate::exact_blocks));
}

TEST_CASE("explain names the kernel and the instruction of every AMD architecture", "[gpu]") {
  const gpu::quantized_matrix<nvfp4> a(4, 32), b(4, 32);
  const gpu::buffer<float> c(16);
  const matrix_view<float> out{c.data(), 4, 4};
  struct {
    int architecture;
    const char *fast, *fast_instruction, *exact, *exact_instruction;
  } const all[] = {
      {0x906, "gemm_simt", "fma", "gemm_simt", "fma"},
      {0x90a, "gemm_bf16_gfx90a", "v_mfma_f32_16x16x16_bf16", "gemm_blocks_gfx90a", "v_mfma_f32_16x16x16_f16"},
      {0x942, "gemm_bf16_gfx90a", "v_mfma_f32_16x16x16_bf16", "gemm_blocks_gfx90a", "v_mfma_f32_16x16x16_f16"},
      {0x950, "gemm_bf16_gfx950", "v_mfma_f32_16x16x32_bf16", "gemm_blocks_gfx90a", "v_mfma_f32_16x16x16_f16"},
      {0x1030, "gemm_simt", "fma", "gemm_simt", "fma"},
      {0x1100, "gemm_bf16_gfx11", "v_wmma_f32_16x16x16_bf16", "gemm_blocks_gfx11", "v_wmma_f32_16x16x16_f16"},
      {0x1201, "gemm_bf16_gfx12", "v_wmma_f32_16x16x16_bf16", "gemm_blocks_gfx12", "v_wmma_f32_16x16x16_f16"}};
  for (const auto& one : all) {
    const support::simulated_amd device{one.architecture};
    CAPTURE(one.architecture);
    const auto fast = gpu::explain(gpu::context{}, a, b, out);
    CHECK(std::string(fast.kernel) == one.fast);
    CHECK(std::string(fast.instruction) == one.fast_instruction);
    CHECK((fast.mode == accumulate::exact_blocks) == (std::string(one.fast) == "gemm_simt"));
    const auto exact = gpu::explain(gpu::context{}, a, b, out, support::exactly);
    CHECK(std::string(exact.kernel) == one.exact);
    CHECK(std::string(exact.instruction) == one.exact_instruction);
    CHECK(exact.mode == accumulate::exact_blocks);
    CHECK(exact.note.empty());
  }
}

TEST_CASE("explain names the tile size: small if large tiles would leave processors idle", "[gpu]") {
  const auto tile = []<class F>(int architecture, std::size_t side, const quantized_matrix<F>&, accumulate mode) {
    gpu::device_facts now = simt::amd_device(architecture);
    now.processors = 100;
    const support::simulated_amd device{now};
    const gpu::quantized_matrix<F> a(side, 64), b(side, 64);
    const gpu::buffer<float> c(1);  // explain reads no data
    const auto e = gpu::explain({}, a, b, matrix_view<float>{c.data(), side, side}, {.accumulate = mode});
    CHECK(e.tile_rows == e.tile_cols);
    return e.tile_rows;
  };
  constexpr auto exact = accumulate::exact_blocks;
  for (const int architecture : {0x90a, 0x942, 0x950, 0x1100, 0x1201}) {
    CAPTURE(architecture);
    CHECK(tile(architecture, 4, quantized_matrix<nvfp4>{}, accumulate::fast) == 64);
    CHECK(tile(architecture, 4096, quantized_matrix<nvfp4>{}, accumulate::fast) == 128);
    CHECK(tile(architecture, 4, quantized_matrix<nvfp4>{}, exact) == 64);
    CHECK(tile(architecture, 4096, quantized_matrix<nvfp4>{}, exact) == 128);
    // longer blocks in waves of 32: small tiles alone
    CHECK(tile(architecture, 4096, quantized_matrix<mxfp4>{}, exact) == (architecture < 0x1000 ? 128u : 64u));
    CHECK(tile(architecture, 4096, quantized_matrix<nvint4>{}, exact) == 128);
    CHECK(tile(architecture, 4, quantized_matrix<nvint4>{}, exact) == 64);
  }
}

TEST_CASE(
    "in a program compiled only for a generic target, explain names the missing code, and products have the host's "
    "bits",
    "[gpu]") {
  const gpu::quantized_matrix<nvfp4> a(4, 32), b(4, 32);
  const gpu::buffer<float> c(16);
  for (const auto& [architecture, lacking] :
       {std::tuple{0x90a, "gemm_bf16_gfx90a needs code compiled for gfx90a, which this program lacks"},
        std::tuple{0x942, "gemm_bf16_gfx90a needs code compiled for gfx942, which this program lacks"},
        std::tuple{0x950, "gemm_bf16_gfx950 needs code compiled for gfx950, which this program lacks"},
        std::tuple{0x1151, "gemm_bf16_gfx11 needs code compiled for gfx1151, which this program lacks"},
        std::tuple{0x1201, "gemm_bf16_gfx12 needs code compiled for gfx1201, which this program lacks"}}) {
    gpu::device_facts now = simt::amd_device(architecture);
    now.compiled = 0x900;
    const support::simulated_amd device{now};
    const auto e = gpu::explain({}, a, b, matrix_view<float>{c.data(), 4, 4});
    CHECK(std::string(e.kernel) == "gemm_simt");
    CHECK(e.note.find(lacking) != std::string::npos);
  }
  gpu::device_facts now = simt::amd_device(0x1151);
  now.compiled = 0x1100;  // as hip/hip_shims.hpp tells of any gfx11
  const support::simulated_amd device{now};
  CHECK(std::string(gpu::explain({}, a, b, matrix_view<float>{c.data(), 4, 4}).kernel) == "gemm_bf16_gfx11");
}

#endif

#else

TEST_CASE("AMD's matrix cores have no code under nvcc", "[gpu]") { SUCCEED(); }

#endif
