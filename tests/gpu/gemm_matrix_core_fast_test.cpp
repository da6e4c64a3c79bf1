// ufp4 - fast and folded_bf16 on AMD GPUs' matrix cores: within the bounds of section 6, in waves of 64 and of 32.
// SPDX-License-Identifier: Apache-2.0
#include "gpu/amd_targets.hpp"
#include "gpu/gemm_fast_check.hpp"

#include "support/catch.hpp"

#if !defined(__CUDACC__)

#include <ufp4/hip/gemm_bf16.hpp>

#include "support/fast_cases.hpp"
#include "support/gemm_model.hpp"
#include "support/seed.hpp"

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

using namespace ufp4;

namespace {

constexpr support::amd_target targets[] = {{&gpu::kernels::gemm_bf16_gfx90a<>, 0x90a},
                                           {&gpu::kernels::gemm_bf16_gfx90a<>, 0x942},
                                           {&gpu::kernels::gemm_bf16_gfx950<>, 0x950},
                                           {&gpu::kernels::gemm_bf16_gfx11<>, 0x1100},
                                           {&gpu::kernels::gemm_bf16_gfx12<>, 0x1201}};
template <class Work>
void on_every_target(Work work) {
  support::on_targets(targets, work);
}

/// On every target, with both kinds of rounding of sums.
constexpr auto check = [](const auto& a, const auto& b, const gemm_options& options, int processors = 0) {
  CAPTURE(static_cast<int>(options.accumulate), a.rows(), b.rows(), a.cols(), options.alpha, options.beta);
  const support::product_bound bound(a, b);
  const std::vector<float> old = support::old_values(a.rows() * b.rows());
  on_every_target([&](const gpu::gemm_kernel& kernel) {
    support::with_every_sum([&] {
      const auto c = support::product_of(kernel, a, b, options, old, processors);
      REQUIRE(bound.broken_by(c, options, old) == "");
    });
  });
};

}  // namespace

TEST_CASE("fast keeps its bound on matrix cores for every preset of 8-bit scales", "[gpu]") {
  support::fast_pairs({{1, 48, 180}, 100}, check);
}

TEST_CASE("folded_bf16 keeps its bound on matrix cores for any scale", "[gpu]") {
  support::folded_pairs({{1, 48, 180}, 100}, check);
}

TEST_CASE("fast keeps its bound on matrix cores over the whole range of 8-bit scales", "[gpu]") {
  support::every_scale({16, 200}, check);
}

TEST_CASE("fast keeps its bound on matrix cores, one of which flushes subnormal numbers to zero", "[gpu]") {
  support::operands_beyond_bf16(accumulate::folded_bf16, check);
  support::underflowing_products(check);
}

TEST_CASE("fast keeps its bound on matrix cores if a factor alone leaves the range of binary32", "[gpu]") {
  support::factors_far_apart(check);
}

TEST_CASE("a single block out of range makes its tile, and no other, be computed in binary64 on matrix cores",
          "[gpu]") {
  std::mt19937_64 gen{support::seed(13)};
  auto a = model::random_quantized<mxfp4>(gen, 70, 64), b = model::random_quantized<mxfp4>(gen, 66, 64);
  for (std::size_t j = 0; j < 66; ++j) b.scales()[2 * j] = e8m0::from_bits(27);  // 2^-100
  auto beyond = a;
  beyond.scales()[2 * 69] = e8m0::from_bits(254);  // 2^127: products that binary32 holds and bf16 does not
  check(beyond, b, {});
  on_every_target([&](const gpu::gemm_kernel& kernel) {
    const auto before = support::product_of(kernel, a, b, {});
    support::in_every_order([&](const char* order) {
      CAPTURE(order);
      const auto c = support::product_of(kernel, beyond, b, {});
      for (std::size_t i = 0; i < 64; ++i)
        for (std::size_t j = 0; j < 66; ++j)
          REQUIRE(std::memcmp(&c[i * 66 + j], &before[i * 66 + j], sizeof(float)) == 0);
    });
  });
}

TEST_CASE("an mx block of zeros with the smallest scale is not out of range on matrix cores", "[gpu]") {
  std::mt19937_64 gen{support::seed(5)};
  auto a = model::random_quantized<mxfp4>(gen, 9, 96), b = model::random_quantized<mxfp4>(gen, 10, 96);
  for (std::size_t i = 0; i < 9; ++i) std::memset(a.codes().data() + i * 48, 0, 16);
  for (auto* q : {&a, &b})  // far apart: a sum rounded once differs from one rounded at each step
    for (auto& s : q->scales()) s = e8m0::from_bits(static_cast<std::uint8_t>(110 + gen() % 35));
  const auto same = a;
  for (std::size_t i = 0; i < 9; ++i) a.scales()[i * 3] = e8m0::from_bits(0);
  check(a, b, {});
  on_every_target([&](const gpu::gemm_kernel& kernel) {
    REQUIRE(support::same_bits(support::product_of(kernel, a, b, {}), support::product_of(kernel, same, b, {})));
  });
}

TEST_CASE("fast on matrix cores gives the bits of exact_blocks if every partial sum is exact", "[gpu]") {
  support::exact_sums({1, 33, 160}, [](const auto& a, const auto& b, const gemm_options& options, const auto& want) {
    for (const int processors : {1, 100})
      on_every_target([&](const gpu::gemm_kernel& kernel) {
        CAPTURE(static_cast<int>(options.accumulate), a.cols(), processors);
        REQUIRE(support::same_bits(support::product_of(kernel, a, b, options, {}, processors), want));
      });
  });
}

TEST_CASE("padding of K, M and N does not change the result on matrix cores even if code 0 is not 0", "[gpu]") {
  std::mt19937_64 gen{support::seed(12)};
  const support::ascending_operands x(gen);
  on_every_target([&](const gpu::gemm_kernel& kernel) {
    for (const int processors : {0, 1})
      REQUIRE(support::same_bits(support::product_of(kernel, x.a, x.b, {}, {}, processors), x.product));
  });
}

TEST_CASE("K = 0 leaves beta * C on matrix cores", "[gpu]") {
  support::empty_sums([](const auto& a, const auto& b, const gemm_options& options) {
    const std::vector<float> old(54, 1.5f);
    std::vector<float> want = old;
    quantized_gemm(a, b, matrix_view<float>{want.data(), 3, 18}, options);
    on_every_target([&](const gpu::gemm_kernel& kernel) {
      REQUIRE(support::same_bits(support::product_of(kernel, a, b, options, old), want));
    });
  });
}

TEST_CASE("neither the order of threads nor the tile size changes a bit of fast on matrix cores", "[gpu]") {
  std::mt19937_64 gen{support::seed(10)};
  const auto a = model::random_quantized<nvfp4>(gen, 130, 144);
  const auto b = model::random_quantized<nv_e1m2>(gen, 70, 144);
  on_every_target([&](const gpu::gemm_kernel& kernel) {
    const auto want = support::product_of(kernel, a, b, {}, {}, 1);
    for (const int processors : {1, 100})
      support::in_every_order([&](const char* order) {
        CAPTURE(order, processors);
        REQUIRE(support::same_bits(support::product_of(kernel, a, b, {}, {}, processors), want));
      });
  });
}

TEST_CASE("a NaN scale makes its row or column NaN on matrix cores, and nothing else", "[gpu]") {
  std::mt19937_64 gen{support::seed(7)};
  const auto a = support::with_nan(model::random_quantized<nvfp4>(gen, 70, 80), 5, 4);
  const auto b = support::with_nan(model::random_quantized<nvfp4>(gen, 67, 80), 66, 0);
  on_every_target([&](const gpu::gemm_kernel& kernel) {
    support::require_only_nan_in(support::product_of(kernel, a, b, {}), 67, 5, 66);
  });
}

TEST_CASE("folded_bf16 rounds value * scale to bf16 on matrix cores, once", "[gpu]") {
  const support::ninth_bit operands;
  on_every_target([&](const gpu::gemm_kernel& kernel) {
    const auto c = support::product_of(kernel, operands.a, operands.b, {.accumulate = accumulate::folded_bf16});
    CHECK(c[0] == operands.rounded);
  });
}

TEST_CASE("matrix cores need no alignment of codes, and store C in any layout", "[gpu]") {
  std::mt19937_64 gen{support::seed(9)};
  const auto a = model::random_quantized<nvfp4>(gen, 19, 208), b = model::random_quantized<nvfp4>(gen, 21, 208);
  on_every_target([&](const gpu::gemm_kernel& kernel) {
    const auto want = support::product_of(kernel, a, b, {});
    const gpu::quantized_matrix<nvfp4> right{b.view()};
    gpu::device_facts device;
    REQUIRE(gpu::facts(device) == gpu::success);
    for (const std::size_t shift : {1u, 4u, 8u}) {
      const support::shifted<nvfp4> left(a, shift, 0);
      const gpu::buffer<float> out(19 * 21);  // contiguous along columns
      const auto sink = ufp4::detail::sink_of(matrix_view<float>{out.data(), 19, 21, 1, 19});
      const gpu::gemm_job job = gpu::detail::call_of(left.view(), right.view(), sink, {}, {}).job;
      REQUIRE(kernel.run(job, device, {}, gpu::stream{}) == gpu::success);
      const auto c = support::on_host(out);
      for (std::size_t i = 0; i < 19; ++i)
        for (std::size_t j = 0; j < 21; ++j)
          REQUIRE(std::memcmp(&c[j * 19 + i], &want[i * 21 + j], sizeof(float)) == 0);
    }
  });
}

#if defined(UFP4_SIMT_HEADER)  // device code called by the host, and devices that are not here

namespace {

/// A word of eight codes, the products as AMD's kernels order them: codes 0 and 2, 1 and 3, 4 and 6, 5 and 7.
template <bool mirrored>
void check_folded_block(const grid4& grid, float scale, bool rounds) {
  const gpu::kernels::folded_block<mirrored> fold(grid.value, scale, rounds);
  for (const std::uint32_t codes : {0x76543210u, 0xFEDCBA98u, 0x80F7193Cu, 0xA5C3E187u}) {
    const gpu::thread::words4 words = fold(codes);
    for (unsigned i = 0; i < 8; ++i) {
      const float product = grid.value[codes >> 4 * i & 15u] * scale;
      const unsigned w = i % 2 + i / 4 * 2, half = i % 4 / 2;
      const std::uint32_t is = words.word[w] >> 16 * half & 0xFFFFu;
      CAPTURE(scale, codes, i);
      if (std::isnan(product))
        REQUIRE((is & 0x7FFFu) > 0x7F80u);
      else
        REQUIRE(is == bf16(product).bits());
    }
  }
}

}  // namespace

TEST_CASE("the products of a block's scale and every code have the bits of the host, of either sign", "[gpu]") {
  using gpu::kernels::is_mirrored;
  const grid4 e2m1 = grid_of<fp4<E2M1>>(), e1m2 = grid_of<fp4<E1M2>>(), integers = grid_of<ufp4::int4>();
  REQUIRE(is_mirrored(e2m1));
  REQUIRE(is_mirrored(e1m2));
  REQUIRE_FALSE(is_mirrored(integers));  // -8
  for (const float scale :
       {1.0f, -1.0f, 0.0f, -0.0f, 448.0f, -0x1p-9f, 3.5f, std::numeric_limits<float>::quiet_NaN()}) {
    check_folded_block<true>(e2m1, scale, false);
    check_folded_block<true>(e1m2, scale, false);
    check_folded_block<false>(e2m1, scale, false);
    check_folded_block<false>(integers, scale, false);
  }
  for (const float scale : {1.7f, -0.3f, 1.003f}) {  // more than 8 significant bits: rounded
    check_folded_block<true>(e2m1, scale, true);
    check_folded_block<false>(integers, scale, true);
  }
}

TEST_CASE("every E4M3 scale that AMD's kernels decode has the value of the host", "[gpu]") {
  for (unsigned bits = 0; bits < 256; ++bits) {
    const float is = gpu::thread::e4m3_value(bits),
                want = static_cast<float>(e4m3::from_bits(static_cast<std::uint8_t>(bits)));
    CAPTURE(bits);
    if (std::isnan(want))
      REQUIRE(std::isnan(is));
    else
      REQUIRE(std::memcmp(&is, &want, sizeof is) == 0);
  }
}

TEST_CASE("the bf16 kernels of matrix cores take their formats, modes and devices, and no others", "[gpu]") {
  const auto takes = [&]<class A, class B>(quantized_matrix<A>, quantized_matrix<B>, accumulate mode) {
    const gpu::quantized_matrix<A> a(128, 64);
    const gpu::quantized_matrix<B> b(128, 64);
    const gpu::buffer<float> c(128 * 128);
    const auto out = ufp4::detail::sink_of(matrix_view<float>{c.data(), 128, 128});
    const gpu::gemm_job job = gpu::detail::call_of(a.view(), b.view(), out, {.accumulate = mode}, {}).job;
    return gpu::kernels::gemm_bf16_gfx90a<>.takes(
        job, {.architecture = 0x942, .processors = 4, .wave = 64, .shared_bytes = 64 * 1024});
  };
  using nf4_blocks = block_format<nf4, float, 16>;
  using short_blocks = block_format<fp4<E2M1>, e4m3, 8>;
  CHECK(takes(quantized_matrix<nvfp4>{}, quantized_matrix<nvint4>{}, accumulate::fast));
  CHECK_FALSE(takes(quantized_matrix<nvfp4>{}, quantized_matrix<nvint4>{}, accumulate::exact_blocks));
  CHECK_FALSE(takes(quantized_matrix<nvfp4>{}, quantized_matrix<e1m2_f32>{}, accumulate::fast));
  CHECK(takes(quantized_matrix<nvfp4>{}, quantized_matrix<e1m2_f32>{}, accumulate::folded_bf16));
  CHECK_FALSE(takes(quantized_matrix<nf4_blocks>{}, quantized_matrix<nf4_blocks>{}, accumulate::folded_bf16));
  CHECK_FALSE(takes(quantized_matrix<short_blocks>{}, quantized_matrix<short_blocks>{}, accumulate::fast));
}

#endif

#else

TEST_CASE("AMD's matrix cores have no fast kernels under nvcc", "[gpu]") { SUCCEED(); }

#endif
