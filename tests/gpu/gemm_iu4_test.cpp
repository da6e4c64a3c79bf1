// ufp4 - exact_blocks by WMMA in 4-bit integers gives the host's bits.
// SPDX-License-Identifier: Apache-2.0
#include "gpu/amd_targets.hpp"
#include "gpu/gemm_check.hpp"

#if !defined(__CUDACC__)
#include <ufp4/hip/gemm_iu4.hpp>
#endif

#include "support/skip.hpp"

using namespace ufp4;

#if !defined(__CUDACC__)

namespace {

namespace kernels = gpu::kernels;

using support::simulated_amd;

struct target {
  const gpu::gemm_kernel& kernel;
  int architecture, least_block;

  /// Whether the device, real or simulated, has the instruction.
  bool is_here() const {
    gpu::device_facts device;
    return gpu::facts(device) == gpu::success && device.architecture / 0x100 == architecture / 0x100;
  }
};
const target targets[] = {{kernels::gemm_iu4_gfx11<>, 0x1100, 16},
                          {kernels::gemm_iu4_k16_gfx12<>, 0x1201, 16},
                          {kernels::gemm_iu4_gfx12<>, 0x1201, 32}};

/// check(kernel), for the targets that multiply blocks of that length.
template <class Check>
void on_targets(int block, Check check) {
  INFO(support::seed_note());
  bool none = true;
  for (const target& t : targets) {
    const simulated_amd device(t.architecture);
    if (!t.is_here() || block < t.least_block) continue;
    CAPTURE(t.kernel.name);
    none = false;
    check(t.kernel);
  }
  if (none) support::skip("v_wmma_i32 in 4-bit integers needs a gfx11 or gfx12");
}

/// M, N ragged within a piece of 16, within a wave's tile and beyond a thread block's; K within a step and beyond two.
template <class A, class B>
void check_shapes(model::scales kind = model::scales::ordinary) {
  struct shape {
    std::size_t m, n, k;
  };
  on_targets(A::block_size, [&](const gpu::gemm_kernel& kernel) {
    std::mt19937_64 gen{support::seed(sizeof(A) + A::block_size)};
    for (const shape& s : {shape{1, 1, 1}, shape{17, 5, 48}, shape{5, 70, 130}, shape{66, 33, 272}, shape{20, 9, 0}}) {
      CAPTURE(s.m, s.n, s.k);
      REQUIRE(support::against_host(kernel, model::random_quantized<A>(gen, s.m, s.k, kind),
                                    model::random_quantized<B>(gen, s.n, s.k, kind)) == "");
    }
  });
}

template <class E, class Scale, auto block>
using format = block_format<E, Scale, block>;

}  // namespace

TEST_CASE("blocks of 16 by WMMA in 4-bit integers give the host's bits", "[gpu]") {
  SECTION("int4 x int4") { check_shapes<int4_f32, int4_f32>(); }
  SECTION("E1M2 x E1M2") { check_shapes<nv_e1m2, nv_e1m2>(); }
  SECTION("E1M2 x int4") { check_shapes<e1m2_f32, nvint4>(); }
  SECTION("int4 x E1M2 in squares") { check_shapes<nvint4, format<fp4<E1M2>, e4m3, square(16)>>(); }
}
TEST_CASE("blocks of 32 and longer by WMMA in 4-bit integers give the host's bits", "[gpu]") {
  SECTION("32: mxint4 x mx_e1m2") { check_shapes<mxint4, mx_e1m2>(); }
  SECTION("32, float scales: E1M2 x int4") {
    check_shapes<format<fp4<E1M2>, float, 32>, format<ufp4::int4, float, 32>>();
  }
  SECTION("64: int4 x E1M2") { check_shapes<format<ufp4::int4, e4m3, 64>, format<fp4<E1M2>, bf16, 64>>(); }
  SECTION("128: E1M2 x E1M2") { check_shapes<format<fp4<E1M2>, e4m3, 128>, format<fp4<E1M2>, ue5m3, 128>>(); }
}
TEST_CASE("hostile scales by WMMA in 4-bit integers give the host's bits", "[gpu]") {
  check_shapes<int4_f32, e1m2_f32>(model::scales::hostile);
  check_shapes<mx_e1m2, mxint4>(model::scales::hostile);
}

TEST_CASE("every pair of codes has the product of its grid values, -0 and -8 included", "[gpu]") {
  // Row i has code i in every place of its first block, column j code j; the other blocks hold every code once.
  const auto every_code = []<class F>(quantized_matrix<F> q) {
    const std::size_t bytes = q.padded_cols() / 2;
    for (std::size_t i = 0; i < 16; ++i)
      for (std::size_t b = 0; b < bytes; ++b) {
        const std::size_t low = b < F::block_size / 2 ? i : (2 * b + i) % 16,
                          high = b < F::block_size / 2 ? i : low + 1;
        q.codes()[i * bytes + b] = static_cast<std::uint8_t>(low | (high % 16) << 4);
      }
    for (auto& s : q.scales()) s = typename F::scale_type(1.0f);
    return q;
  };
  on_targets(32, [&](const gpu::gemm_kernel& kernel) {
    const auto a = every_code(quantized_matrix<mxint4>(16, 96));
    const auto b = every_code(quantized_matrix<mx_e1m2>(16, 96));
    REQUIRE(support::against_host(kernel, a, b) == "");
    REQUIRE(support::against_host(kernel, b, b) == "");
    REQUIRE(support::against_host(kernel, a, a) == "");
  });
}

TEST_CASE("beta, bias, bf16 and strides of C by WMMA in 4-bit integers give the host's bits", "[gpu]") {
  on_targets(32, [](const gpu::gemm_kernel& kernel) {
    std::mt19937_64 gen{support::seed(3)};
    const auto a = model::random_quantized<mxint4>(gen, 35, 160), b = model::random_quantized<mxint4>(gen, 18, 160);
    std::vector<float> bias(18);
    for (std::size_t j = 0; j < bias.size(); ++j) bias[j] = 0.25f * static_cast<float>(j) - 1.0f;
    gemm_options options = support::exactly;
    options.alpha = -1.5f, options.beta = 0.75f, options.bias = bias;
    REQUIRE(support::against_host(kernel, a, b, options, {.gap = 3, .transposed = true}) == "");
    REQUIRE(support::against_host<bf16>(kernel, a, b, options, {.gap = 1, .reversed = true}) == "");
  });
}

TEST_CASE("large tiles of C by WMMA in 4-bit integers give the host's bits", "[gpu]") {
  const auto on_one_processor = [](int block, auto check) {  // one tile is then enough for all of them
    on_targets(block, [&](const gpu::gemm_kernel& kernel) {
#if defined(UFP4_SIMT_HEADER)
      simt::device().processors = 1;
#endif
      check(kernel);
    });
  };
  on_one_processor(16, [](const gpu::gemm_kernel& kernel) {
    std::mt19937_64 gen{support::seed(19)};
    REQUIRE(support::against_host(kernel, model::random_quantized<e1m2_f32>(gen, 130, 96),
                                  model::random_quantized<int4_f32>(gen, 131, 96)) == "");
  });
  on_one_processor(64, [](const gpu::gemm_kernel& kernel) {
    std::mt19937_64 gen{support::seed(9)};
    REQUIRE(support::against_host(kernel, model::random_quantized<mxint4>(gen, 130, 96),
                                  model::random_quantized<mx_e1m2>(gen, 100, 96)) == "");
    REQUIRE(support::against_host(kernel, model::random_quantized<format<ufp4::int4, e4m3, 64>>(gen, 100, 192),
                                  model::random_quantized<format<ufp4::int4, e4m3, 64>>(gen, 130, 192)) == "");
  });
}

#if defined(UFP4_SIMT_HEADER)
TEST_CASE("WMMA in 4-bit integers gives the same bits in every order of threads and blocks", "[gpu]") {
  on_targets(32, [](const gpu::gemm_kernel& kernel) {
    std::mt19937_64 gen{support::seed(8)};
    const auto a = model::random_quantized<mxint4>(gen, 70, 224);
    const auto b = model::random_quantized<mx_e1m2>(gen, 66, 224);
    support::in_every_order([&](const char* order) {
      CAPTURE(order);
      REQUIRE(support::against_host(kernel, a, b) == "");
    });
  });
}
#endif

TEST_CASE("a group's products by WMMA in 4-bit integers are the bits of each alone", "[gpu]") {
  on_targets(32, [](const gpu::gemm_kernel& kernel) {
    gpu::device_facts facts;
    REQUIRE(gpu::facts(facts) == gpu::success);
    std::mt19937_64 gen{support::seed(10)};
    const gpu::quantized_matrix<mx_e1m2> b(model::random_quantized<mx_e1m2>(gen, 21, 96));
    std::vector<gpu::quantized_matrix<mxint4>> a;
    for (const std::size_t rows : {5u, 140u, 17u}) a.emplace_back(model::random_quantized<mxint4>(gen, rows, 96));
    std::vector<gpu::buffer<float>> alone, together;
    std::vector<gpu::gemm_job> jobs;
    for (const auto& x : a)
      for (auto* c : {&alone, &together}) {
        c->emplace_back(x.view().rows() * b.view().rows());
        const matrix_view<float> out{c->back().data(), x.view().rows(), b.view().rows()};
        const auto job = gpu::detail::call_of(x.view(), b.view(), detail::sink_of(out), support::exactly, {}).job;
        if (c == &together)
          jobs.push_back(job);
        else
          REQUIRE(kernel.run(job, facts, {}, gpu::stream{}) == gpu::success);
      }
    REQUIRE(kernel.run_group(jobs, facts, gpu::stream{}) == gpu::success);
    for (std::size_t i = 0; i < a.size(); ++i) REQUIRE(support::on_host(together[i]) == support::on_host(alone[i]));
  });
}

TEST_CASE("a NaN scale reaches every product of its block and no other, by WMMA in 4-bit integers", "[gpu]") {
  on_targets(32, [](const gpu::gemm_kernel& kernel) {
    std::mt19937_64 gen{support::seed(6)};
    auto a = model::random_quantized<mxint4>(gen, 20, 96);
    a.scales()[7] = e8m0::from_bits(0xFF);
    REQUIRE(support::against_host(kernel, a, model::random_quantized<mxint4>(gen, 40, 96)) == "");
  });
}

#if defined(UFP4_SIMT_HEADER)
TEST_CASE("explain names the 4-bit integer kernels if both grids are integers and the mode is exact", "[gpu]") {
  const auto explained = []<class A, class B>(int architecture, const A&, const B&, accumulate mode) {
    const simulated_amd device(architecture);
    const gpu::quantized_matrix<A> left(quantized_matrix<A>(256, 64));
    const gpu::quantized_matrix<B> right(quantized_matrix<B>(256, 64));
    const gpu::buffer<float> c(256 * 256);
    return gpu::explain({}, left, right, matrix_view<float>{c.data(), 256, 256}, {.accumulate = mode});
  };
  const auto name = [&](int architecture, const auto& a, const auto& b, accumulate mode) {
    return std::string(explained(architecture, a, b, mode).kernel);
  };
  constexpr auto exact = accumulate::exact_blocks, fast = accumulate::fast;
  CHECK(name(0x1201, mxint4{}, mx_e1m2{}, exact) == "gemm_iu4_gfx12");
  CHECK(std::string(explained(0x1201, mxint4{}, mx_e1m2{}, exact).instruction) == "v_wmma_i32_16x16x32_iu4");
  CHECK(name(0x1201, nvint4{}, nv_e1m2{}, exact) == "gemm_iu4_k16_gfx12");
  CHECK(std::string(explained(0x1201, nvint4{}, nv_e1m2{}, exact).instruction) == "v_wmma_i32_16x16x16_iu4");
  CHECK(name(0x1100, mxint4{}, mx_e1m2{}, exact) == "gemm_iu4_gfx11");
  CHECK(name(0x1151, nvint4{}, nvint4{}, exact) == "gemm_iu4_gfx11");
  // float scales have no other fast kernel than the exact one
  CHECK(name(0x1201, int4_f32{}, e1m2_f32{}, fast) == "gemm_iu4_k16_gfx12");
  CHECK(explained(0x1201, int4_f32{}, e1m2_f32{}, fast).mode == exact);
  const auto is_iu4 = [](const std::string& kernel) { return kernel.find("iu4") != std::string::npos; };
  CHECK_FALSE(is_iu4(name(0x1201, nvfp4{}, nvint4{}, exact)));
  CHECK_FALSE(is_iu4(name(0x90a, mxint4{}, mxint4{}, exact)));
  CHECK_FALSE(is_iu4(name(0x1030, mxint4{}, mxint4{}, exact)));
  CHECK_FALSE(is_iu4(name(0x1201, mxint4{}, mxint4{}, accumulate::folded_bf16)));
}
#endif

#else

TEST_CASE("WMMA in 4-bit integers is AMD's", "[gpu]") { SUCCEED(); }

#endif
