// ufp4 - GEMM by the block-scaled mma.sync of compute capability 12: the bound of fast, and NaN where a scale is NaN.
// SPDX-License-Identifier: Apache-2.0
#include "gpu/gemm_fast_check.hpp"

#include <ufp4/cuda/gemm_block_mma_sm120.hpp>
#include <ufp4/gpu/gemm.hpp>
#include <ufp4/ufp4.hpp>

#include "support/catch.hpp"
#include "support/gemm_model.hpp"
#include "support/seed.hpp"
#include "support/skip.hpp"

#include <string>
#include <vector>

using namespace ufp4;

namespace {

namespace kernels = gpu::kernels;

using support::check_bound, support::check_nan_scales, support::check_shapes, support::simulated_device,
    support::product_of, support::same_bits, support::shifted;

/// Whether the device, real or simulated, has the instructions.
bool can_run_here() {
  gpu::device_facts device;
  if (gpu::facts(device) == gpu::success && device.has_specific(12)) return true;
  support::skip("the device is not of compute capability 12, or the program not compiled for sm_120a");
  return false;
}

constexpr const gpu::gemm_kernel &nv = kernels::gemm_nvfp4_sm120<>, &mx = kernels::gemm_mxfp4_sm120<>,
                                 &bytes = kernels::gemm_mx_containers_sm120<>;

/// Every way in which K, M and N may be ragged: within a block, within the 64 of an instruction, within a stage of 128,
/// beyond the stages that are under way at once; rows on 16 bytes and not, scales on 4 and not.
constexpr support::product_shape shapes[] = {{1, 1, 1},     {3, 9, 16},  {17, 5, 48},   {20, 33, 64},  {5, 70, 112},
                                             {40, 21, 128}, {9, 9, 300}, {7, 18, 1040}, {130, 129, 96}};

}  // namespace

TEST_CASE("products by the block-scaled instructions are within the bound of fast for every ragged shape", "[gpu]") {
  const simulated_device device(120);
  if (!can_run_here()) return;
  SECTION("nvfp4") { check_shapes<nvfp4, nvfp4>(nv, shapes, 0x1.8p-7f, 0x1.333334p+3f); }
  SECTION("nvfp4 x nvfp4 in squares of 16") {
    check_shapes<nvfp4, block_format<fp4<E2M1>, e4m3, square(16), float>>(nv, shapes, 0x1.1p+4f, 0x1.9p-9f);
  }
  SECTION("mxfp4") { check_shapes<mxfp4, mxfp4>(mx, shapes); }
  SECTION("mx_e1m2 x mxint4") { check_shapes<mx_e1m2, mxint4>(bytes, shapes); }
  SECTION("mxfp4 x mxint4") { check_shapes<mxfp4, mxint4>(bytes, shapes); }
  SECTION("mx_e1m2 in squares of 32 x mxfp4") {
    check_shapes<block_format<fp4<E1M2>, e8m0, square(32)>, mxfp4>(bytes, shapes);
  }
  SECTION("E3M0 x mx_e1m2") { check_shapes<block_format<fp4<E3M0>, e8m0, 32>, mx_e1m2>(bytes, shapes); }
}

TEST_CASE("the block-scaled instructions keep the bound over the whole range of 8-bit scales", "[gpu]") {
  const simulated_device device(120);
  if (!can_run_here()) return;
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(1)};
  for (const std::size_t k : {16u, 200u})
    check_bound(nv, model::random_quantized<nvfp4>(gen, 20, k, model::scales::hostile, 0x1p-30f),
                model::random_quantized<nvfp4>(gen, 21, k, model::scales::hostile, 0x1p+20f));
  support::check_e8m0_range(mx, bytes, gen, 96);
}

TEST_CASE("the block-scaled instructions give the bits of exact_blocks if every partial sum is exact", "[gpu]") {
  const simulated_device device(120);
  if (!can_run_here()) return;
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(4)};
  const auto check = [&]<class A, class B>(const gpu::gemm_kernel& kernel, quantized_matrix<A> a,
                                           quantized_matrix<B> b) {
    CAPTURE(kernel.name, a.rows(), b.rows(), a.cols());
    for (auto& s : a.scales()) s = typename A::scale_type(static_cast<float>(1u << gen() % 3));
    for (auto& s : b.scales()) s = typename B::scale_type(static_cast<float>(1u << gen() % 3));
    const std::vector<float> want = model::exact_blocks(model::side_of(a), model::side_of(b), -2.5f);
    REQUIRE(same_bits(product_of(kernel, a, b, {.alpha = -2.5f}), want));
  };
  for (const std::size_t k : {16u, 80u, 530u}) {
    check(nv, model::random_quantized<nvfp4>(gen, 70, k), model::random_quantized<nvfp4>(gen, 66, k));
    check(mx, model::random_quantized<mxfp4>(gen, 70, k), model::random_quantized<mxfp4>(gen, 66, k));
    check(bytes, model::random_quantized<mxint4>(gen, 70, k), model::random_quantized<mx_e1m2>(gen, 66, k));
  }
}

#if defined(UFP4_SIMT_HEADER)
TEST_CASE("the bound holds for a matrix unit that truncates, and containers' blocks stay exact in it", "[gpu]") {
  const simulated_device device(120);
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(5)};
  simt::settings().sums = simt::mma_sums::truncated;
  for (const std::size_t k : {64u, 530u}) {
    check_bound(nv, model::random_quantized<nvfp4>(gen, 9, k, model::scales::hostile),
                model::random_quantized<nvfp4>(gen, 20, k, model::scales::hostile));
    check_bound(mx, model::random_quantized<mxfp4>(gen, 9, k), model::random_quantized<mxfp4>(gen, 20, k));
    const auto a = model::random_quantized<mxint4>(gen, 9, k);
    const auto b = model::random_quantized<mx_e1m2>(gen, 20, k);
    // A product with a power of two is exact, so one addition a block is fma(d, t, acc): the bits of exact_blocks.
    CHECK(same_bits(product_of(bytes, a, b), model::exact_blocks(model::side_of(a), model::side_of(b))));
  }
  simt::settings().sums = simt::mma_sums::nearest;
}
#endif

TEST_CASE("a NaN scale reaches every product of its block and no other", "[gpu]") {
  const simulated_device device(120);
  if (!can_run_here()) return;
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(6)};
  check_nan_scales(nv, model::random_quantized<nvfp4>(gen, 6, 80), model::random_quantized<nvfp4>(gen, 9, 80));
  check_nan_scales(mx, model::random_quantized<mxfp4>(gen, 6, 96), model::random_quantized<mxfp4>(gen, 9, 96));
  check_nan_scales(bytes, model::random_quantized<mxint4>(gen, 6, 96), model::random_quantized<mxfp4>(gen, 9, 96));
}

TEST_CASE("codes aligned to 4 bytes and unaligned scales give the same bits; other kernels take less aligned codes",
          "[gpu]") {
  const simulated_device device(120);
  if (!can_run_here()) return;
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(7)};
  const auto a = model::random_quantized<nvfp4>(gen, 6, 256), b = model::random_quantized<nvfp4>(gen, 9, 256);
  const std::vector<float> want = product_of(nv, a, b);
  for (const std::size_t codes : {0u, 4u, 8u})
    for (const std::size_t scales : {0u, 1u, 4u}) {
      CAPTURE(codes, scales);
      const shifted<nvfp4> left(a, codes, 0), right(b, 0, scales);
      REQUIRE(same_bits(product_of(nv, left.view(), right.view()), want));
    }
  gpu::device_facts facts;
  REQUIRE(gpu::facts(facts) == gpu::success);
  const shifted<nvfp4> odd(a, 2, 0), right(b, 0, 0);
  const gpu::buffer<float> c(want.size());
  const matrix_view<float> out{c.data(), a.rows(), b.rows()};
  CHECK_FALSE(nv.takes(gpu::detail::call_of(odd.view(), right.view(), detail::sink_of(out), {}, {}).job, facts));
}

TEST_CASE("explain names the block-scaled kernels for their formats, modes and devices", "[gpu]") {
  const auto kernel_of = [](int architecture, const auto& a, const auto& b, accumulate mode) {
    const simulated_device device(architecture);
    const gpu::quantized_matrix left{a.view()};
    const gpu::quantized_matrix right{b.view()};
    float c = 0;
    return std::string(
        gpu::explain(gpu::context{}, left, right, matrix_view<float>{&c, a.rows(), b.rows()}, {.accumulate = mode})
            .kernel);
  };
  if (const simulated_device device(120); !can_run_here()) return;
  std::mt19937_64 gen{1};
  const auto square = model::random_quantized<nvfp4>(gen, 256, 64);
  const auto uniform = model::random_quantized<nv_e1m2>(gen, 256, 64);
  const auto powers = model::random_quantized<mxfp4>(gen, 256, 64);
  const auto whole = model::random_quantized<mxint4>(gen, 256, 64);
  CHECK(kernel_of(120, square, square, accumulate::fast) == "gemm_nvfp4_sm120");
  CHECK(kernel_of(121, square, square, accumulate::fast) == "gemm_nvfp4_sm120");
  CHECK(kernel_of(120, powers, powers, accumulate::fast) == "gemm_mxfp4_sm120");
  CHECK(kernel_of(120, powers, whole, accumulate::fast) == "gemm_mx_containers_sm120");
  CHECK(kernel_of(120, whole, whole, accumulate::fast) == "gemm_mx_containers_sm120");
  CHECK(kernel_of(120, square, square, accumulate::exact_blocks) != "gemm_nvfp4_sm120");
  CHECK(kernel_of(120, square, uniform, accumulate::fast).find("sm120") == std::string::npos);
#if defined(UFP4_SIMT_HEADER)
  CHECK(kernel_of(100, square, square, accumulate::fast) != "gemm_nvfp4_sm120");
  CHECK(kernel_of(90, powers, whole, accumulate::fast) != "gemm_mx_containers_sm120");
#endif
}

TEST_CASE("with K = 0 the block-scaled kernels write beta * C", "[gpu]") {
  const simulated_device device(120);
  if (!can_run_here()) return;
  const quantized_matrix<nvfp4> a(3, 0), b(2, 0);
  CHECK(product_of(nv, a, b) == std::vector<float>(6, 0.0f));
  CHECK(product_of(nv, a, b, {.beta = 2}, {1, 2, 3, 4, 5, 6}) == std::vector<float>{2, 4, 6, 8, 10, 12});
}
