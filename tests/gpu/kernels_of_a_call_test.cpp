// ufp4 - a call instantiates the kernels that the types of its arguments leave: they run, with the bits of all kernels.
// SPDX-License-Identifier: Apache-2.0
// ctest: alone full simulator timeout=600
#define UFP4_TEST_OWN_KERNELS
#include "gpu/device.hpp"

#include <ufp4/ufp4.hpp>

#include "support/catch.hpp"

#include <cstring>
#include <random>
#include <string>
#include <vector>

using namespace ufp4;
namespace lib = gpu::detail;

namespace {

using quick_int4 = block_format<int4, e4m3, 16>;
using nf4_f32 = block_format<nf4, float, 64>;
using squares = block_format<fp4<E2M1>, e4m3, block_shape{16, 16}, float>;
using long_blocks = block_format<fp4<E1M2>, bf16, 128>;

std::vector<float> numbers(std::size_t n, std::uint32_t seed) {
  std::mt19937 gen(seed);
  std::normal_distribution<float> some;
  std::vector<float> x(n);
  for (float& v : x) v = some(gen);
  return x;
}

/// A matrix on the device, in order or with contiguous columns.
struct input {
  input(std::size_t r, std::size_t c, bool by_columns, std::uint32_t seed)
      : rows(r), cols(c), columns(by_columns), values(numbers(r * c, seed)), memory(std::span<const float>(values)) {}
  matrix_view<const float> view(const float* data) const {
    if (columns) return transpose(matrix_view<const float>(data, cols, rows));
    return {data, rows, cols};
  }
  matrix_view<const float> here() const { return view(values.data()); }
  matrix_view<const float> there() const { return view(memory.data()); }

  std::size_t rows, cols;
  bool columns;
  std::vector<float> values;
  gpu::buffer<float> memory;
};

gpu::context with(const gpu::buffer<std::byte>& workspace) { return {{}, workspace.span()}; }

template <class F, class... Policies>
void check_quantize(const input& x, const Policies&... policies) {
  const auto want = quantize<F>(x.here(), policies..., cpu::context{.threads = 1});
  const gpu::quantized_matrix<F> q(x.rows, x.cols, want.transform());
  const gpu::buffer<std::byte> workspace(512);
  REQUIRE(support::text_of(gpu::quantize<F>(with(workspace), x.there(), q, policies...)) == "");
  REQUIRE(q.download() == want);
  std::vector<float> values(x.rows * x.cols);
  const gpu::buffer<float> decoded(values.size());
  dequantize(want, matrix_view<float>(values.data(), x.rows, x.cols));
  REQUIRE(support::text_of(gpu::dequantize({}, q, matrix_view<float>(decoded.data(), x.rows, x.cols))) == "");
  std::vector<float> got(values.size());
  decoded.download(got);
  REQUIRE(std::memcmp(got.data(), values.data(), got.size() * sizeof(float)) == 0);
}

template <class F, class G>
void check_both(const input& x) {
  const auto rows = quantize<F>(x.here(), cpu::context{.threads = 1});
  const auto cols = quantize<G>(transpose(x.here()), cpu::context{.threads = 1});
  const gpu::quantized_matrix<F> q(x.rows, x.cols);
  const gpu::quantized_matrix<G> t(x.cols, x.rows);
  const gpu::buffer<std::byte> workspace(512);
  REQUIRE(support::text_of(gpu::quantize_both<F, G>(with(workspace), x.there(), q, t)) == "");
  REQUIRE(q.download() == rows);
  REQUIRE(t.download() == cols);
}

template <class F>
void check_format() {
  for (const bool columns : {false, true}) {
    const input x(32, 264, columns, 5);
    check_quantize<F>(x);
    check_quantize<F>(x, nearest_even{});
    check_quantize<F>(x, stochastic{.seed = 3});
    check_quantize<F>(x, toward_zero{});
    check_quantize<F>(x, rounding_spec{nearest_away{}});
    if constexpr (F::block.rows == 1) {
      check_quantize<F>(x, random_hadamard<16>{7});
      check_quantize<F>(x, random_hadamard<256>{7}, stochastic{.seed = 4});
    }
    check_quantize<F>(x, mse_search{});
    check_both<F, F>(x);
    check_both<F, nvfp4>(x);
  }
}

/// C of the kernel that is chosen among those of `Product`.
template <class Product>
std::vector<float> product_by(lib::gemm_call call, const gpu::device_facts& device) {
  const gpu::buffer<float> c(call.job.out.rows * call.job.out.cols);
  call.job.out.data = c.data();
  const gpu::gemm_kernel* kernel = lib::choose_kernel<Product>(call.job, device);
  REQUIRE(kernel != nullptr);
  CAPTURE(kernel->name, device.architecture, ufp4::detail::name(call.job.mode));
  REQUIRE(kernel->name == std::string(lib::choose_kernel(call.job, device)->name));
  const gpu::buffer<std::byte> workspace(lib::kernel_bytes(kernel, call.job, device));
  REQUIRE(kernel->run(call.job, device, workspace.span(), {}) == gpu::success);
  std::vector<float> values(c.size());
  c.download(values);
  return values;
}

template <class A, class B>
void check_product(const A& a, const B& b) {
  const lib::sink out{nullptr, dtype::f32, a.rows(), b.rows(), static_cast<std::ptrdiff_t>(b.rows()), 1};
  for (const accumulate mode : {accumulate::fast, accumulate::exact_blocks, accumulate::folded_bf16}) {
    const auto call = lib::call_of(lib::viewed(a), lib::viewed(b), out, {.accumulate = mode}, {});
    const auto want = product_by<gpu::any_product>(call, simt::device());
    const auto got = product_by<lib::product_types<A, B>>(call, simt::device());
    REQUIRE(std::memcmp(got.data(), want.data(), got.size() * sizeof(float)) == 0);
  }
}

template <class F, class G>
void check_pair(std::size_t m, std::size_t n) {
  const std::size_t k = 2 * static_cast<std::size_t>(F::block_size) + 64;
  const input x(m, k, false, 1), w(n, k, false, 2);
  const gpu::quantized_matrix<F> a(quantize<F>(x.here()));
  const gpu::quantized_matrix<G> b(quantize<G>(w.here()));
  check_product(a.view(), b.view());
  if (m <= 16) check_product(x.there(), b.view());
}

template <class F, class G>
void check_pairs() {
  const gpu::device_facts before = simt::device();
  for (const int architecture : {80, 120, 0x90a, 0x1201}) {
    simt::device() = architecture > 0x200 ? simt::amd_device(architecture) : before;
    if (architecture < 0x200) simt::device().architecture = architecture;
    simt::device().processors = 1;
    check_pair<F, G>(5, 33);
    check_pair<F, G>(20, 34);
    if (architecture == 80) check_pair<F, G>(70, 130);
  }
  simt::device() = before;
}

}  // namespace

TEST_CASE("quantize, quantize_both and dequantize have the kernels that their formats and policies need", "[gpu]") {
  check_format<nvfp4>();
  check_format<mxfp4>();
  check_format<e1m2_f32>();
  check_format<nf4_f32>();
  check_format<squares>();
  check_format<long_blocks>();
  check_format<if4>();
}

TEST_CASE("a product has the kernels that its formats need, chooses as all of them do, and has the same bits",
          "[gpu]") {
  check_pairs<nvfp4, nvfp4>();
  check_pairs<mxfp4, mx_e1m2>();
  check_pairs<mxint4, mxint4>();
  check_pairs<e1m2_f32, e1m2_f32>();
  check_pairs<quick_int4, quick_int4>();
  check_pairs<nvfp4, e2m1_f32>();
  check_pairs<nf4_f32, nf4_f32>();
  check_pairs<long_blocks, long_blocks>();
  check_pairs<if4, nvfp4>();
}

TEST_CASE("what the types of a product exclude is not compiled: its row of the table runs nothing", "[gpu]") {
  using product = lib::product_of<gpu::quantized_view<nvfp4>, gpu::quantized_view<nvfp4>>;
  gpu::gemm_job job;
  job.block = 32;
  job.left.rows = job.right.rows = 1;
  CHECK(gpu::kernels::gemv_dots_sm80<product>.run(job, simt::device(), {}, {}) == gpu::not_supported);
  CHECK(gpu::kernels::gemv_mixed_sm80<product>.run(job, simt::device(), {}, {}) == gpu::not_supported);
  CHECK(gpu::kernels::gemm_mxfp4_sm120<product>.run(job, simt::device(), {}, {}) == gpu::not_supported);
  CHECK(gpu::kernels::gemm_blocks_sm80<product>.run(job, simt::device(), {}, {}) == gpu::not_supported);
  CHECK(gpu::kernels::gemm_iu4_gfx12<product>.run(job, simt::device(), {}, {}) == gpu::not_supported);
  CHECK(gpu::gemm_kernels<product>().size() == gpu::gemm_kernels<gpu::any_product>().size());
}
