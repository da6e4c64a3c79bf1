// ufp4 - the experimental kernels on the devices that they are for, within the bounds of section 6.
// SPDX-License-Identifier: Apache-2.0
// ctest: alone
//
// The CPU simulator has neither wgmma and TMA nor tensor memory: without a GPU every test case is skipped. The first
// word of a test case is its kernel: borrowed.sh does not measure a kernel of which one fails.
#define UFP4_EXPERIMENTAL
#include "gpu/device.hpp"

#include <ufp4/ufp4.hpp>

#include "support/catch.hpp"
#include "support/format_pairs.hpp"
#include "support/gemm_model.hpp"
#include "support/seed.hpp"
#include "support/skip.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

using namespace ufp4;

namespace {

/// Is this a device of that compute capability, and the test compiled for its own features?
bool is_here([[maybe_unused]] int capability) {
#if defined(UFP4_SIMT_HEADER)
  return false;
#else
  gpu::device_facts facts;
  return gpu::facts(facts) == gpu::success && facts.has_specific(capability);
#endif
}
constexpr const char* no_wgmma = "wgmma needs a GPU of compute capability 9 and code compiled for sm_90a";
constexpr const char* no_tcgen05 = "tcgen05 needs a GPU of compute capability 10 and code compiled for sm_100a";

/// What rounding to bf16 may add for a side whose value * scale has more bits than bf16's eight.
template <class F>
constexpr model::wide folding_of() {
  return std::is_same_v<typename F::scale_type, float> ? 0x1p-8L : 0.0L;
}

/// C by the operation, which has to take `kernel` for it; between guards.
template <class A, class B>
std::vector<float> product(const char* kernel, const quantized_matrix<A>& a, const quantized_matrix<B>& b,
                           const gemm_options& options) {
  const gpu::quantized_matrix<A> left(a.view());
  const gpu::quantized_matrix<B> right(b.view());
  const std::size_t m = a.rows(), n = b.rows(), guard = 16;
  std::vector<float> all(m * n + 2 * guard, -77.0f);
  const gpu::buffer<float> out{std::span<const float>(all)};
  const matrix_view<float> c{out.data() + guard, m, n};
  REQUIRE(std::string(gpu::explain({}, left, right, c, options).kernel) == kernel);
  const gpu::buffer<std::byte> workspace(gpu::workspace_bytes({}, left, right, c, options));
  REQUIRE(support::text_of(gpu::quantized_gemm({{}, workspace.span()}, left, right, c, options)) == "");
  all = support::on_host(out);
  for (std::size_t i = 0; i < guard; ++i) REQUIRE((all[i] == -77.0f && all[guard + m * n + i] == -77.0f));
  return {all.begin() + guard, all.end() - guard};
}

/// The elements that are wrong, in words, for a reader who cannot run the kernel again.
class mistakes {
 public:
  mistakes(std::size_t rows, std::size_t cols) : first_row_(rows), first_col_(cols) {}
  void add(std::size_t row, std::size_t col, float got, double want) {
    if (count_++ == 0)
      first_ = " first (" + std::to_string(row) + ", " + std::to_string(col) + "): " + std::to_string(got) + ", not " +
               std::to_string(want);
    first_row_ = std::min(first_row_, row), first_col_ = std::min(first_col_, col);
    last_row_ = std::max(last_row_, row), last_col_ = std::max(last_col_, col);
  }
  std::string text() const {
    if (count_ == 0) return "";
    return std::to_string(count_) + " wrong, in rows " + std::to_string(first_row_) + " to " +
           std::to_string(last_row_) + ", columns " + std::to_string(first_col_) + " to " + std::to_string(last_col_) +
           ";" + first_;
  }

 private:
  std::size_t count_ = 0, first_row_, first_col_, last_row_ = 0, last_col_ = 0;
  std::string first_;
};

/// |C - E| <= (folding + (Kp + 6) 2^-24) |alpha| sum|a||b| + |alpha| TA TB Kp 2^-126, and NaN where E is and only
/// there. How many are.
template <class F>
std::size_t check(const char* kernel, const quantized_matrix<F>& a, const quantized_matrix<F>& b, accumulate mode,
                  float alpha) {
  CAPTURE(kernel, a.rows(), b.rows(), a.cols(), alpha);
  const auto c = product(kernel, a, b, {.alpha = alpha, .accumulate = mode});
  const model::side left = model::side_of(a), right = model::side_of(b);
  const model::bounded exact = model::extended(left, right);
  const auto padded = static_cast<model::wide>(a.padded_cols()), factor = static_cast<model::wide>(alpha);
  const model::wide folding = mode == accumulate::folded_bf16 ? 2 * folding_of<F>() : 0;
  const model::wide relative = folding + (padded + 6) * 0x1p-24L;
  const model::wide absolute = std::abs(factor) * static_cast<model::wide>(left.tensor) *
                               static_cast<model::wide>(right.tensor) * padded * 0x1p-126L;
  std::size_t nans = 0;
  mistakes wrong(a.rows(), b.rows());
  for (std::size_t i = 0; i < c.size(); ++i) {
    const model::wide want = factor * exact.value[i];
    const model::wide bound = relative * std::abs(factor) * exact.magnitude[i] + absolute;
    const bool right_nan = std::isnan(want) && std::isnan(c[i]);
    nans += right_nan;
    if (!right_nan && !(std::abs(static_cast<model::wide>(c[i]) - want) <= bound))
      wrong.add(i / b.rows(), i % b.rows(), c[i], static_cast<double>(want));
  }
  CHECK(wrong.text() == "");
  return nans;
}

/// Ragged in M, N and K, several tiles and rounds of the pipeline; then one NaN block in a row of each side. `nan`: the
/// scale.
template <class F>
void check_format(const char* kernel, accumulate mode, typename F::scale_type nan) {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(17)};
  const auto side = [&](std::size_t rows, std::size_t cols, float tensor) {
    return model::random_quantized<F>(gen, rows, cols, model::scales::ordinary, tensor);
  };
  struct shape {
    std::size_t m, n, k;
  };
  for (const shape& s : {shape{128, 128, 512}, shape{65, 67, 50}, shape{131, 257, 310}, shape{300, 130, 1045}})
    CHECK(check(kernel, side(s.m, s.k, 0x1.8p-7f), side(s.n, s.k, 0x1.333334p+3f), mode, -2.7f) == 0);
  auto a = side(131, 310, 1), b = side(257, 310, 1);
  const auto blocks = a.padded_cols() / F::block_size;
  a.scales()[129 * blocks + 3] = nan;
  CHECK(check(kernel, a, b, mode, 1) == 257);
  b.scales()[256 * blocks + 1] = nan;
  CHECK(check(kernel, a, b, mode, 1) == 257 + 130);
}

/// Few rows, as tiles of 32 and 64 take them; K is shared by clusters, and ragged.
template <class F>
void check_few_rows(const char* kernel, accumulate mode) {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(20)};
  for (const std::size_t m : {17u, 32u, 33u, 64u})
    for (const std::size_t k : {310u, 4096u}) {
      const auto a = model::random_quantized<F>(gen, m, k, model::scales::ordinary, 0x1.8p-7f);
      const auto b = model::random_quantized<F>(gen, 530, k, model::scales::ordinary, 0x1.333334p+3f);
      CHECK(check(kernel, a, b, mode, -2.7f) == 0);
    }
}

/// The bits of exact_blocks on Hopper.
template <class A, class B>
void check_bits() {
  if (!is_here(9)) return support::skip(no_wgmma);
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(19)};
  const auto a = model::random_quantized<A>(gen, 300, 1045, model::scales::ordinary, 0x1.8p-7f);
  const auto b = model::random_quantized<B>(gen, 530, 1045, model::scales::ordinary, 0x1.333334p+3f);
  std::vector<float> want(a.rows() * b.rows());
  const gemm_options options{.alpha = -2.7f, .accumulate = accumulate::exact_blocks};
  quantized_gemm(a, b, matrix_view<float>{want.data(), a.rows(), b.rows()}, options);
  const std::vector<float> got = product("gemm_blocks_sm90", a, b, options);
  mistakes wrong(a.rows(), b.rows());
  for (std::size_t i = 0; i < got.size(); ++i)
    if (got[i] != want[i]) wrong.add(i / b.rows(), i % b.rows(), got[i], static_cast<double>(want[i]));
  CHECK(wrong.text() == "");
}

/// A format on Hopper: any number of rows, then few.
template <class F>
void check_wgmma(const char* kernel, accumulate mode, typename F::scale_type nan) {
  if (!is_here(9)) return support::skip(no_wgmma);
  check_format<F>(kernel, mode, nan);
  check_few_rows<F>(kernel, mode);
}

using ue5m3_e1m2 = block_format<fp4<E1M2>, ue5m3, 16, float>;

}  // namespace

TEST_CASE("gemm_wgmma_sm90 keeps the bound of fast for nvfp4", "[gpu]") {
  check_wgmma<nvfp4>("gemm_wgmma_sm90", accumulate::fast, e4m3::from_bits(0x7F));
}
TEST_CASE("gemm_wgmma_sm90 keeps the bound of fast for nv_e1m2", "[gpu]") {
  check_wgmma<nv_e1m2>("gemm_wgmma_sm90", accumulate::fast, e4m3::from_bits(0x7F));
}
TEST_CASE("gemm_wgmma_sm90 keeps the bound of fast for mxfp4", "[gpu]") {
  check_wgmma<mxfp4>("gemm_wgmma_sm90", accumulate::fast, e8m0::from_bits(0xFF));
}
TEST_CASE("gemm_wgmma_sm90 keeps the bound of fast for mx_e1m2", "[gpu]") {
  check_wgmma<mx_e1m2>("gemm_wgmma_sm90", accumulate::fast, e8m0::from_bits(0xFF));
}
TEST_CASE("gemm_wgmma_sm90 keeps the bound of fast for ue5m3 scales", "[gpu]") {
  check_wgmma<ue5m3_e1m2>("gemm_wgmma_sm90", accumulate::fast, ue5m3::from_bits(0xFF));
}
TEST_CASE("gemm_wgmma_rounded_sm90 keeps the bound of folded_bf16 for e1m2_f32", "[gpu]") {
  check_wgmma<e1m2_f32>("gemm_wgmma_rounded_sm90", accumulate::folded_bf16, std::numeric_limits<float>::quiet_NaN());
}

TEST_CASE("gemm_wgmma_sm90 computes products of operands that are not normal bf16 numbers in binary64", "[gpu]") {
  if (!is_here(9)) return support::skip(no_wgmma);
  std::mt19937_64 gen{support::seed(18)};
  auto a = model::random_quantized<mxfp4>(gen, 131, 96);
  const auto b = model::random_quantized<mxfp4>(gen, 130, 96);
  a.scales()[3 * 129] = e8m0::from_bits(0);  // 2^-128 is subnormal
  CHECK(check("gemm_wgmma_sm90", a, b, accumulate::fast, 1) == 0);
}

TEST_CASE("gemm_blocks_sm90 gives the bits of exact_blocks for nvfp4 x nvint4", "[gpu]") {
  check_bits<nvfp4, nvint4>();
}
TEST_CASE("gemm_blocks_sm90 gives the bits of exact_blocks for mxfp4 x mx_e1m2", "[gpu]") {
  check_bits<mxfp4, mx_e1m2>();
}
TEST_CASE("gemm_blocks_sm90 gives the bits of exact_blocks for float scales", "[gpu]") {
  check_bits<e1m2_f32, e2m1_f32>();
}
TEST_CASE("gemm_blocks_sm90 gives the bits of exact_blocks for blocks of 64", "[gpu]") {
  check_bits<support::blocks_of<fp4<E2M1>, float, 64>, support::blocks_of<ufp4::int4, e4m3, 64>>();
}
TEST_CASE("gemm_blocks_sm90 gives the bits of exact_blocks for blocks of 128", "[gpu]") {
  check_bits<support::blocks_of<ufp4::int4, e8m0, 128>, support::blocks_of<fp4<E1M2>, e8m0, 128>>();
}

TEST_CASE("gemm_nvfp4_tcgen05 keeps the bound of fast", "[gpu]") {
  if (!is_here(10)) return support::skip(no_tcgen05);
  check_format<nvfp4>("gemm_nvfp4_tcgen05", accumulate::fast, e4m3::from_bits(0x7F));
}
TEST_CASE("gemm_mxfp4_tcgen05 keeps the bound of fast", "[gpu]") {
  if (!is_here(10)) return support::skip(no_tcgen05);
  check_format<mxfp4>("gemm_mxfp4_tcgen05", accumulate::fast, e8m0::from_bits(0xFF));
}
