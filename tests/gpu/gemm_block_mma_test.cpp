// ufp4 - GEMM by the block-scaled mma.sync of compute capability 12: the bound of fast, and NaN where a scale is NaN.
// SPDX-License-Identifier: Apache-2.0
#include "gpu/device.hpp"

#include <ufp4/cuda/gemm_block_mma_sm120.hpp>
#include <ufp4/gpu/gemm.hpp>
#include <ufp4/ufp4.hpp>

#include "support/catch.hpp"
#include "support/gemm_model.hpp"
#include "support/seed.hpp"
#include "support/skip.hpp"

#include <cfloat>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

using namespace ufp4;

namespace {

namespace kernels = gpu::kernels;

/// The executor plays a device of this architecture until the end of the scope; a real one stays what it is.
class played {
 public:
  explicit played([[maybe_unused]] int architecture) {
#if defined(UFP4_SIMT_HEADER)
    before_ = simt::device().architecture;
    simt::device().architecture = architecture;
#endif
  }
  ~played() {
#if defined(UFP4_SIMT_HEADER)
    simt::device().architecture = before_;
#endif
  }
  played(const played&) = delete;
  played& operator=(const played&) = delete;

 private:
  int before_ = 0;
};

/// Has the device, played or not, the instructions?
bool can_run_here() {
  gpu::device_facts device;
  if (gpu::facts(device) == gpu::success && device.has_specific(12)) return true;
  support::skip("the device is not of compute capability 12, or the program not compiled for sm_120a");
  return false;
}

/// What a kernel, and no other, makes of a product on the device.
template <class A, class B>
std::vector<float> product(const gpu::gemm_kernel& kernel, const gpu::quantized_view<A>& a,
                           const gpu::quantized_view<B>& b, const gemm_options& options, std::vector<float> c) {
  constexpr std::size_t guard = 64;
  const std::size_t size = c.size();
  c.resize(size + guard, -7.25f);
  const gpu::buffer<float> out{std::span<const float>(c)};
  const matrix_view<float> view{out.data(), a.rows(), b.rows()};
  const auto call = gpu::detail::call_of(a, b, detail::sink_of(view), options, {});
  gpu::device_facts device;
  REQUIRE(gpu::facts(device) == gpu::success);
  REQUIRE(kernel.takes(call.job, device));
  REQUIRE(kernel.run(call.job, device, {}, gpu::stream{}) == gpu::success);
  c = support::on_host(out);
  for (std::size_t i = size; i < c.size(); ++i) REQUIRE(c[i] == -7.25f);
  c.resize(size);
  return c;
}
template <class A, class B>
std::vector<float> product(const gpu::gemm_kernel& kernel, const quantized_matrix<A>& a, const quantized_matrix<B>& b,
                           const gemm_options& options = {}, std::vector<float> c = {}) {
  const gpu::quantized_matrix<A> left{a.view()};
  const gpu::quantized_matrix<B> right{b.view()};
  if (c.empty()) c.assign(a.rows() * b.rows(), std::nanf(""));
  return product(kernel, left.view(), right.view(), options, std::move(c));
}

/// |C - E| <= (Kp + 6) 2^-24 (|alpha| sum|a||b| + |beta C|) + |alpha| TA TB Kp 2^-126 (numerics 6), for every element.
template <class A, class B>
void check_bound(const gpu::gemm_kernel& kernel, const quantized_matrix<A>& a, const quantized_matrix<B>& b,
                 float alpha = 1, float beta = 0) {
  CAPTURE(kernel.name, a.rows(), b.rows(), a.cols(), alpha, beta);
  const model::side left = model::side_of(a), right = model::side_of(b);
  const model::bounded exact = model::extended(left, right);
  const auto padded = static_cast<long double>(a.padded_cols()), factor = static_cast<long double>(alpha);
  const long double tensors = static_cast<long double>(left.tensor) * static_cast<long double>(right.tensor);
  std::vector<float> before(a.rows() * b.rows());
  for (std::size_t i = 0; i < before.size(); ++i) before[i] = static_cast<float>(i % 101) - 50.0f;
  const std::vector<float> c = product(kernel, a, b, {.alpha = alpha, .beta = beta}, before);
  std::size_t outside = 0;
  for (std::size_t i = 0; i < c.size(); ++i) {
    const long double added = static_cast<long double>(beta) * static_cast<long double>(before[i]);
    const long double error = std::abs(static_cast<long double>(c[i]) - (factor * exact.value[i] + added));
    const long double bound = (padded + 6) * 0x1p-24L * (std::abs(factor) * exact.magnitude[i] + std::abs(added)) +
                              std::abs(factor) * tensors * padded * 0x1p-126L;
    if (!(error <= bound) && outside++ == 0) {
      CAPTURE(i, c[i], error, bound);
      CHECK(false);
    }
  }
  REQUIRE(outside == 0);
}

constexpr const gpu::gemm_kernel &nv = kernels::gemm_nvfp4_sm120, &mx = kernels::gemm_mxfp4_sm120,
                                 &bytes = kernels::gemm_mx_containers_sm120;

/// Every way in which K, M and N may be ragged: within a block, within the 64 of an instruction, within a stage of 128,
/// beyond the stages that are under way at once; rows on 16 bytes and not, scales on 4 and not.
template <class A, class B>
void check_shapes(const gpu::gemm_kernel& kernel, float tensor_a = 1, float tensor_b = 1) {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(sizeof(A) + 7)};
  struct shape {
    std::size_t m, n, k;
  };
  for (const shape& s : {shape{1, 1, 1}, shape{3, 9, 16}, shape{17, 5, 48}, shape{20, 33, 64}, shape{5, 70, 112},
                         shape{40, 21, 128}, shape{9, 9, 300}, shape{7, 18, 1040}, shape{130, 129, 96}})
    check_bound(kernel, model::random_quantized<A>(gen, s.m, s.k, model::scales::ordinary, tensor_a),
                model::random_quantized<B>(gen, s.n, s.k, model::scales::ordinary, tensor_b), -2.7f, 1.3f);
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace

TEST_CASE("products by the block-scaled instructions keep the bound of fast, whatever is ragged", "[gpu]") {
  const played device(120);
  if (!can_run_here()) return;
  SECTION("nvfp4") { check_shapes<nvfp4, nvfp4>(nv, 0x1.8p-7f, 0x1.333334p+3f); }
  SECTION("nvfp4 x nvfp4 in squares of 16") {
    check_shapes<nvfp4, block_format<fp4<E2M1>, e4m3, square(16), float>>(nv, 0x1.1p+4f, 0x1.9p-9f);
  }
  SECTION("mxfp4") { check_shapes<mxfp4, mxfp4>(mx); }
  SECTION("mx_e1m2 x mxint4") { check_shapes<mx_e1m2, mxint4>(bytes); }
  SECTION("mxfp4 x mxint4") { check_shapes<mxfp4, mxint4>(bytes); }
  SECTION("mx_e1m2 in squares of 32 x mxfp4") { check_shapes<block_format<fp4<E1M2>, e8m0, square(32)>, mxfp4>(bytes); }
  SECTION("E3M0 x mx_e1m2") { check_shapes<block_format<fp4<E3M0>, e8m0, 32>, mx_e1m2>(bytes); }
}

TEST_CASE("the block-scaled instructions keep the bound over the whole range of 8-bit scales", "[gpu]") {
  const played device(120);
  if (!can_run_here()) return;
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(1)};
  for (const std::size_t k : {16u, 200u})
    check_bound(nv, model::random_quantized<nvfp4>(gen, 20, k, model::scales::hostile, 0x1p-30f),
                model::random_quantized<nvfp4>(gen, 21, k, model::scales::hostile, 0x1p+20f));
  // e8m0 scales whose products stay within binary32's range, and some that vanish beneath it.
  const auto scaled = [&]<class F>(quantized_matrix<F> q, unsigned lowest, unsigned count) {
    for (auto& s : q.scales()) s = e8m0::from_bits(static_cast<std::uint8_t>(lowest + gen() % count));
    return q;
  };
  struct range {
    unsigned a, b, count;
  };
  for (const range& r : {range{0, 247, 3}, range{50, 50, 20}, range{100, 140, 40}, range{120, 0, 100}}) {
    check_bound(mx, scaled(model::random_quantized<mxfp4>(gen, 9, 96), r.a, r.count),
                scaled(model::random_quantized<mxfp4>(gen, 10, 96), r.b, r.count));
    check_bound(bytes, scaled(model::random_quantized<mxint4>(gen, 9, 96), r.a, r.count),
                scaled(model::random_quantized<mx_e1m2>(gen, 10, 96), r.b, r.count));
  }
}

TEST_CASE("where every partial sum is exact, the block-scaled instructions give the bits of exact_blocks", "[gpu]") {
  const played device(120);
  if (!can_run_here()) return;
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(4)};
  const auto check = [&]<class A, class B>(const gpu::gemm_kernel& kernel, quantized_matrix<A> a,
                                           quantized_matrix<B> b) {
    CAPTURE(kernel.name, a.rows(), b.rows(), a.cols());
    for (auto& s : a.scales()) s = typename A::scale_type(static_cast<float>(1u << gen() % 3));
    for (auto& s : b.scales()) s = typename B::scale_type(static_cast<float>(1u << gen() % 3));
    const std::vector<float> want = model::exact_blocks(model::side_of(a), model::side_of(b), -2.5f);
    REQUIRE(same_bits(product(kernel, a, b, {.alpha = -2.5f}), want));
  };
  for (const std::size_t k : {16u, 80u, 530u}) {
    check(nv, model::random_quantized<nvfp4>(gen, 70, k), model::random_quantized<nvfp4>(gen, 66, k));
    check(mx, model::random_quantized<mxfp4>(gen, 70, k), model::random_quantized<mxfp4>(gen, 66, k));
    check(bytes, model::random_quantized<mxint4>(gen, 70, k), model::random_quantized<mx_e1m2>(gen, 66, k));
  }
}

#if defined(UFP4_SIMT_HEADER)
TEST_CASE("the bound holds for a matrix unit that truncates, and containers' blocks stay exact in it", "[gpu]") {
  const played device(120);
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
    CHECK(same_bits(product(bytes, a, b), model::exact_blocks(model::side_of(a), model::side_of(b))));
  }
  simt::settings().sums = simt::mma_sums::nearest;
}
#endif

TEST_CASE("a NaN scale reaches every product of its block and no other", "[gpu]") {
  const played device(120);
  if (!can_run_here()) return;
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(6)};
  const auto check = [&]<class A, class B>(const gpu::gemm_kernel& kernel, quantized_matrix<A> a,
                                           quantized_matrix<B> b) {
    CAPTURE(kernel.name);
    const std::size_t blocks = a.padded_cols() / A::block_size;
    const auto poison = [&]<class F>(quantized_matrix<F>& q, std::size_t row, std::size_t block) {
      q.scales()[row * blocks + block] = typename F::scale_type(std::nanf(""));
      const std::size_t bytes_of_block = F::block_size / 2;
      std::memset(&q.codes()[row * q.padded_cols() / 2 + block * bytes_of_block], 0, bytes_of_block);
    };
    poison(a, 2, blocks - 1);  // the last block, beside the zeros that fill K up
    poison(b, 5, 0);
    const std::vector<float> c = product(kernel, a, b);
    for (std::size_t i = 0; i < c.size(); ++i) REQUIRE(std::isnan(c[i]) == (i / b.rows() == 2 || i % b.rows() == 5));
  };
  check(nv, model::random_quantized<nvfp4>(gen, 6, 80), model::random_quantized<nvfp4>(gen, 9, 80));
  check(mx, model::random_quantized<mxfp4>(gen, 6, 96), model::random_quantized<mxfp4>(gen, 9, 96));
  check(bytes, model::random_quantized<mxint4>(gen, 6, 96), model::random_quantized<mxfp4>(gen, 9, 96));
}

/// A copy in device memory whose codes and scales begin so many bytes beyond what an allocation lies on.
template <class F>
class shifted {
 public:
  shifted(const quantized_matrix<F>& q, std::size_t codes, std::size_t scales)
      : codes_(codes + q.codes().size()), scales_(scales + q.scales().size()), tensor_(1) {
    std::vector<std::uint8_t> all_codes(codes, 0xFF);
    all_codes.insert(all_codes.end(), q.codes().begin(), q.codes().end());
    codes_.upload(all_codes);
    std::vector<typename F::scale_type> all_scales(scales, F::scale_type::from_bits(0x7F));
    all_scales.insert(all_scales.end(), q.scales().begin(), q.scales().end());
    scales_.upload(all_scales);
    const float scale = q.tensor_scale();
    tensor_.upload({&scale, 1});
    view_ = {codes_.span().subspan(codes), scales_.span().subspan(scales), tensor_.data(), q.rows(), q.cols()};
  }
  const gpu::quantized_view<F>& view() const { return view_; }

 private:
  gpu::buffer<std::uint8_t> codes_;
  gpu::buffer<typename F::scale_type> scales_;
  gpu::buffer<float> tensor_;
  gpu::quantized_view<F> view_;
};

TEST_CASE("codes on 4 bytes and scales on any give the bits of those on 16; other codes are left to other kernels",
          "[gpu]") {
  const played device(120);
  if (!can_run_here()) return;
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(7)};
  const auto a = model::random_quantized<nvfp4>(gen, 6, 256), b = model::random_quantized<nvfp4>(gen, 9, 256);
  const std::vector<float> want = product(nv, a, b), empty(a.rows() * b.rows());
  for (const std::size_t codes : {0u, 4u, 8u})
    for (const std::size_t scales : {0u, 1u, 4u}) {
      CAPTURE(codes, scales);
      const shifted<nvfp4> left(a, codes, 0), right(b, 0, scales);
      REQUIRE(same_bits(product(nv, left.view(), right.view(), {}, empty), want));
    }
  gpu::device_facts facts;
  REQUIRE(gpu::facts(facts) == gpu::success);
  const shifted<nvfp4> odd(a, 2, 0), right(b, 0, 0);
  const gpu::buffer<float> c(empty.size());
  const matrix_view<float> out{c.data(), a.rows(), b.rows()};
  CHECK_FALSE(nv.takes(gpu::detail::call_of(odd.view(), right.view(), detail::sink_of(out), {}, {}).job, facts));
}

TEST_CASE("explain names the block-scaled kernels for their formats, modes and devices", "[gpu]") {
  const auto kernel_of = [](int architecture, const auto& a, const auto& b, accumulate mode) {
    const played device(architecture);
    const gpu::quantized_matrix left{a.view()};
    const gpu::quantized_matrix right{b.view()};
    float c = 0;
    return std::string(
        gpu::explain(gpu::context{}, left, right, matrix_view<float>{&c, a.rows(), b.rows()}, {.accumulate = mode})
            .kernel);
  };
  if (const played device(120); !can_run_here()) return;
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

TEST_CASE("without a K the block-scaled kernels leave beta C", "[gpu]") {
  const played device(120);
  if (!can_run_here()) return;
  const quantized_matrix<nvfp4> a(3, 0), b(2, 0);
  CHECK(product(nv, a, b) == std::vector<float>(6, 0.0f));
  CHECK(product(nv, a, b, {.beta = 2}, {1, 2, 3, 4, 5, 6}) == std::vector<float>{2, 4, 6, 8, 10, 12});
}
