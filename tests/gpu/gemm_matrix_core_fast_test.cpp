// ufp4 - fast and folded_bf16 on AMD GPUs' matrix cores: within the bounds of numerics 6, in waves of 64 and of 32.
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
#include <vector>

using namespace ufp4;

namespace {

using support::ascending;

constexpr support::amd_target targets[] = {{&gpu::kernels::gemm_bf16_gfx90a, 0x90a},
                                           {&gpu::kernels::gemm_bf16_gfx90a, 0x942},
                                           {&gpu::kernels::gemm_bf16_gfx950, 0x950},
                                           {&gpu::kernels::gemm_bf16_gfx11, 0x1100},
                                           {&gpu::kernels::gemm_bf16_gfx12, 0x1201}};
template <class Work>
void on_every_target(Work work) {
  support::on_targets(targets, work);
}

/// Every target, both ways to add, and beta as asked.
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
  support::pairs_of_8_bit_scales({{1, 48, 180}, 100}, check);
}

TEST_CASE("folded_bf16 keeps its bound on matrix cores for any scale", "[gpu]") {
  support::pairs_of_wider_scales({{1, 48, 180}, 100}, check);
}

TEST_CASE("fast keeps its bound on matrix cores over the whole range of 8-bit scales", "[gpu]") {
  support::every_scale({16, 200}, check);
}

TEST_CASE("fast keeps its bound on matrix cores, one of which takes subnormals for zero", "[gpu]") {
  support::operands_beyond_bf16(accumulate::folded_bf16, check);
  support::vanishing_products(check);
}

TEST_CASE("fast keeps its bound on matrix cores where a factor alone leaves the range of binary32", "[gpu]") {
  support::factors_far_apart(check);
}

TEST_CASE("one block out of range is enough, and no tile but its own is made anew on matrix cores", "[gpu]") {
  std::mt19937_64 gen{support::seed(13)};
  auto a = model::random_quantized<mxfp4>(gen, 70, 64), b = model::random_quantized<mxfp4>(gen, 66, 64);
  for (std::size_t j = 0; j < 66; ++j) b.scales()[2 * j] = e8m0::from_bits(27);  // 2^-100
  auto beyond = a;
  beyond.scales()[2 * 69] = e8m0::from_bits(254);  // 2^127: products within the row's reach, but no bf16 number
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

TEST_CASE("a mx block of zeros with the smallest scale sends no tile of matrix cores elsewhere", "[gpu]") {
  std::mt19937_64 gen{support::seed(5)};
  auto a = model::random_quantized<mxfp4>(gen, 9, 96), b = model::random_quantized<mxfp4>(gen, 10, 96);
  for (std::size_t i = 0; i < 9; ++i) std::memset(a.codes().data() + i * 48, 0, 16);
  for (auto* q : {&a, &b})  // far apart: what is rounded once in the end differs from what was rounded on the way
    for (auto& s : q->scales()) s = e8m0::from_bits(static_cast<std::uint8_t>(110 + gen() % 35));
  const auto same = a;
  for (std::size_t i = 0; i < 9; ++i) a.scales()[i * 3] = e8m0::from_bits(0);
  check(a, b, {});
  on_every_target([&](const gpu::gemm_kernel& kernel) {
    REQUIRE(support::same_bits(support::product_of(kernel, a, b, {}), support::product_of(kernel, same, b, {})));
  });
}

TEST_CASE("where every partial sum is exact, fast on matrix cores gives the bits of exact_blocks", "[gpu]") {
  support::exact_sums({1, 33, 160}, [](const auto& a, const auto& b, const gemm_options& options, const auto& want) {
    for (const int processors : {1, 100})
      on_every_target([&](const gpu::gemm_kernel& kernel) {
        CAPTURE(static_cast<int>(options.accumulate), a.cols(), processors);
        REQUIRE(support::same_bits(support::product_of(kernel, a, b, options, {}, processors), want));
      });
  });
}

TEST_CASE("what lies beyond K, M and N counts for nothing on matrix cores even if code 0 does not mean 0", "[gpu]") {
  std::mt19937_64 gen{support::seed(12)};
  quantized_matrix<ascending> a(5, 80), b(7, 80);
  for (auto* q : {&a, &b}) {
    for (auto& byte : q->codes()) byte = static_cast<std::uint8_t>(gen() % 256);
    for (auto& s : q->scales()) s = e4m3(static_cast<float>(1u << gen() % 3));  // every sum is exact
  }
  std::vector<float> want(35);
  quantized_gemm(a, b, matrix_view<float>{want.data(), 5, 7}, {.accumulate = accumulate::exact_blocks});
  on_every_target([&](const gpu::gemm_kernel& kernel) {
    for (const int processors : {0, 1})
      REQUIRE(support::same_bits(support::product_of(kernel, a, b, {}, {}, processors), want));
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

TEST_CASE("neither the order of threads nor the tile changes a bit of fast on matrix cores", "[gpu]") {
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

TEST_CASE("a NaN scale makes NaN of its row or column on matrix cores, and of nothing else", "[gpu]") {
  std::mt19937_64 gen{support::seed(7)};
  auto a = model::random_quantized<nvfp4>(gen, 70, 80), b = model::random_quantized<nvfp4>(gen, 67, 80);
  a.scales()[5 * 5 + 4] = e4m3::from_bits(0x7F);
  b.scales()[66 * 5] = e4m3::from_bits(0x7F);
  on_every_target([&](const gpu::gemm_kernel& kernel) {
    const auto c = support::product_of(kernel, a, b, {});
    for (std::size_t i = 0; i < 70; ++i)
      for (std::size_t j = 0; j < 67; ++j) REQUIRE(std::isnan(c[i * 67 + j]) == (i == 5 || j == 66));
  });
}

TEST_CASE("folded_bf16 rounds value * scale to bf16 on matrix cores, once", "[gpu]") {
  const support::ninth_bit operands;
  on_every_target([&](const gpu::gemm_kernel& kernel) {
    const auto c = support::product_of(kernel, operands.a, operands.b, {.accumulate = accumulate::folded_bf16});
    CHECK(c[0] == operands.rounded);
  });
}

TEST_CASE("codes may lie on any byte for matrix cores, and C anywhere", "[gpu]") {
  std::mt19937_64 gen{support::seed(9)};
  const auto a = model::random_quantized<nvfp4>(gen, 19, 208), b = model::random_quantized<nvfp4>(gen, 21, 208);
  on_every_target([&](const gpu::gemm_kernel& kernel) {
    const auto want = support::product_of(kernel, a, b, {});
    const gpu::quantized_matrix<nvfp4> left{a.view()}, right{b.view()};
    gpu::device_facts device;
    REQUIRE(gpu::facts(device) == gpu::success);
    for (const std::size_t shift : {1u, 4u, 8u}) {
      std::vector<std::uint8_t> moved(shift + a.codes().size());
      std::memcpy(moved.data() + shift, a.codes().data(), a.codes().size());
      const gpu::buffer<std::uint8_t> codes{std::span<const std::uint8_t>(moved)};
      const gpu::quantized_view<nvfp4> there{codes.span().subspan(shift), left.view().scales(),
                                             left.view().tensor_scale(), 19, 208};
      const gpu::buffer<float> out(19 * 21);  // columns lie along memory
      const auto sink = ufp4::detail::sink_of(matrix_view<float>{out.data(), 19, 21, 1, 19});
      const gpu::gemm_job job = gpu::detail::call_of(there, right.view(), sink, {}, {}).job;
      REQUIRE(kernel.run(job, device, {}, gpu::stream{}) == gpu::success);
      const auto c = support::on_host(out);
      for (std::size_t i = 0; i < 19; ++i)
        for (std::size_t j = 0; j < 21; ++j)
          REQUIRE(std::memcmp(&c[j * 19 + i], &want[i * 21 + j], sizeof(float)) == 0);
    }
  });
}

#if defined(UFP4_SIMT_HEADER)
TEST_CASE("the bf16 kernels of matrix cores say what they take", "[gpu]") {
  const auto takes = [&]<class A, class B>(quantized_matrix<A>, quantized_matrix<B>, accumulate mode) {
    const gpu::quantized_matrix<A> a(128, 64);
    const gpu::quantized_matrix<B> b(128, 64);
    const gpu::buffer<float> c(128 * 128);
    const auto out = ufp4::detail::sink_of(matrix_view<float>{c.data(), 128, 128});
    const gpu::gemm_job job = gpu::detail::call_of(a.view(), b.view(), out, {.accumulate = mode}, {}).job;
    return gpu::kernels::gemm_bf16_gfx90a.takes(
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
