// ufp4 - products on a library: operands bit for bit, C within the bound of fast, rescue where bf16 is too narrow.
// SPDX-License-Identifier: Apache-2.0
// ctest: separate
//
// Where nvcc compiles this with UFP4_WITH_CUBLAS and links cublasLt, the library is cublasLt; in the CPU simulator it
// is a loop on the host that multiplies what it is given, so all but cublasLt itself is tested there.
#include "gpu/device.hpp"

#include <ufp4/cuda/library_gemm.hpp>
#include <ufp4/gpu/gemm.hpp>
#include <ufp4/ufp4.hpp>
#if defined(UFP4_WITH_CUBLAS)
#include <ufp4/cuda/cublas.hpp>
#endif

#include "support/catch.hpp"
#include "support/formats.hpp"
#include "support/gemm_model.hpp"
#include "support/hostile.hpp"

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

using namespace ufp4;

namespace {

using gpu_grid_e3m0 = block_format<fp4<E3M0>, e8m0, 32>;
using squares = block_format<fp4<E2M1>, e4m3, square(16), float>;
using fine_scales = block_format<ufp4::int4, ue5m3, 8>;

bool is_nan16(std::uint16_t b) { return (b & 0x7FFFu) > 0x7F80u; }

/// value * scale rounded to bf16, and whether a product of finite factors left the normal range.
struct decoded {
  std::vector<std::uint16_t> bits;
  bool unfit = false;
};
template <class F>
decoded oracle(const quantized_matrix<F>& q) {
  decoded want;
  for (std::size_t i = 0; i < q.rows(); ++i)
    for (std::size_t k = 0; k < q.padded_cols(); ++k) {
      const std::uint8_t code = ufp4::detail::code_at(q.codes().data(), i * q.padded_cols() + k);
      const std::size_t blocks = q.padded_cols() / F::block_size;
      const float value = spec_of<F>.grid.value[code];
      const float scale =
          static_cast<float>(q.scales()[i / static_cast<std::size_t>(F::block.rows) * blocks + k / F::block_size]);
      const std::uint16_t bits = ufp4::detail::round_to<bf16>(value * scale).bits();
      const float back = detail::to_float(std::uint32_t{bits} << 16);
      const bool normal = std::abs(back) >= 0x1p-126f && detail::is_finite(back);
      const bool unfit = value != 0 && scale != 0 && detail::is_finite(scale) && !normal;
      want.bits.push_back(bits);
      want.unfit = want.unfit || unfit;
    }
  return want;
}

bool same_bf16(const std::vector<std::uint16_t>& a, const std::vector<std::uint16_t>& b) {
  bool same = a.size() == b.size();
  for (std::size_t i = 0; same && i < a.size(); ++i) same = a[i] == b[i] || (is_nan16(a[i]) && is_nan16(b[i]));
  return same;
}

/// A side whose codes begin `shift` bytes after a boundary.
template <class F>
struct on_device {
  gpu::buffer<std::uint8_t> codes;
  gpu::quantized_matrix<F> q;
  gpu::gemm_side side;

  explicit on_device(const quantized_matrix<F>& host, std::size_t shift = 0)
      : codes(host.codes().size() + shift), q(host.view()) {
    std::vector<std::uint8_t> moved(codes.size());
    std::memcpy(moved.data() + shift, host.codes().data(), host.codes().size());
    codes.upload(moved);
    const matrix_view<float> c{nullptr, host.rows(), host.rows()};
    side = gpu::detail::call_of(q.view(), q.view(), detail::sink_of(c), {}, {}).job.left;
    side.codes = codes.data() + shift;
  }
};

template <class F>
void check_decode(std::size_t rows, std::size_t cols, model::scales kind, std::size_t shift) {
  CAPTURE(rows, cols, shift);
  std::mt19937_64 gen(rows * 1000 + cols + shift);
  quantized_matrix<F> host = model::random_quantized<F>(gen, rows, cols, kind);
  host.scales()[host.scales().size() / 2] = static_cast<typename F::scale_type>(detail::quiet_nan);
  const decoded want = oracle(host);
  const on_device<F> x(host, shift);
  const std::size_t guard = 64;
  gpu::buffer<std::uint16_t> out(want.bits.size() + guard);
  const gpu::buffer<std::uint32_t> unfit(1);
  out.upload(std::vector<std::uint16_t>(out.size(), 0xABCD));
  REQUIRE(gpu::set_zero(unfit.data(), 4, {}) == gpu::success);
  REQUIRE(gpu::kernels::queue_decode_bf16(x.side, static_cast<unsigned>(F::block.cols), out.data(), unfit.data(), {}) ==
          gpu::success);
  std::vector<std::uint16_t> got = support::on_host(out);
  REQUIRE(std::vector<std::uint16_t>(got.end() - guard, got.end()) == std::vector<std::uint16_t>(guard, 0xABCD));
  got.resize(want.bits.size());
  REQUIRE(same_bf16(got, want.bits));
  REQUIRE((support::on_host(unfit)[0] != 0) == want.unfit);
}

}  // namespace

using decoded_formats = support::presets_and<gpu_grid_e3m0, squares, fine_scales>;
TEMPLATE_LIST_TEST_CASE("decoded operands are value * scale as bf16, and a product outside its range is reported",
                        "[gpu]", decoded_formats) {
  for (const model::scales kind : {model::scales::ordinary, model::scales::hostile})
    for (const std::size_t cols : {1u, 31u, 64u, 200u}) {
      check_decode<TestType>(37, cols, kind, 0);
      check_decode<TestType>(3, cols, kind, 1);
    }
  check_decode<TestType>(129, 130, model::scales::ordinary, 4);
}

TEST_CASE("every scale code times every element decodes to the oracle's bf16", "[gpu]") {
  const auto all = [](auto format) {
    using F = decltype(format);
    quantized_matrix<F> host(256, 16);
    for (std::size_t c = 0; c < 256; ++c) {
      for (std::size_t k = 0; k < host.padded_cols(); k += 2)
        host.codes()[(c * host.padded_cols() + k) / 2] = static_cast<std::uint8_t>(k % 16 | (k + 1) % 16 << 4);
      for (std::size_t b = 0; b < host.padded_cols() / F::block_size; ++b)
        host.scales()[c * (host.padded_cols() / F::block_size) + b] =
            F::scale_type::from_bits(static_cast<std::uint8_t>(c));
    }
    const on_device<F> x(host);
    const gpu::buffer<std::uint16_t> out(256 * host.padded_cols());
    const gpu::buffer<std::uint32_t> unfit(1);
    REQUIRE(gpu::kernels::queue_decode_bf16(x.side, static_cast<unsigned>(F::block.cols), out.data(), unfit.data(),
                                            {}) == gpu::success);
    REQUIRE(same_bf16(support::on_host(out), oracle(host).bits));
    REQUIRE(gpu::kernels::products_fit(x.side));
  };
  all(nvfp4{});
  all(nvint4{});
  all(mxfp4{});
  all(mxint4{});
  all(fine_scales{});
  all(gpu_grid_e3m0{});
}

TEST_CASE("products that need more than 8 bits are left to folded_bf16", "[gpu]") {
  gpu::gemm_side side;
  side.grid = spec_of<e1m2_f32>.grid;
  side.scale = scale_kind::f32;
  REQUIRE_FALSE(gpu::kernels::decodes_to_bf16(side, 16, accumulate::fast));
  REQUIRE(gpu::kernels::decodes_to_bf16(side, 16, accumulate::folded_bf16));
  REQUIRE_FALSE(gpu::kernels::decodes_to_bf16(side, 16, accumulate::exact_blocks));
  REQUIRE_FALSE(gpu::kernels::decodes_to_bf16(side, 4, accumulate::folded_bf16));
  side.scale = scale_kind::bf16;
  REQUIRE_FALSE(gpu::kernels::decodes_to_bf16(side, 16, accumulate::fast));
  side.scale = scale_kind::e4m3;
  REQUIRE(gpu::kernels::decodes_to_bf16(side, 16, accumulate::fast));
  side.grid = grid_of<nf4>();
  REQUIRE_FALSE(gpu::kernels::decodes_to_bf16(side, 16, accumulate::fast));
}

TEST_CASE("a plain matrix becomes bf16 with its ragged end zero", "[gpu]") {
  const std::size_t rows = 5, cols = 21, padded = 32;
  std::vector<float> x = support::hostile(3).values(rows * 30, true);
  x[7] = std::numeric_limits<float>::infinity();
  const gpu::buffer<float> data{std::span<const float>(x)};
  gpu::gemm_side side;
  side.is_quantized = false;
  side.unquantized = detail::source_of(matrix_view<const float>{data.data(), rows, cols, 30});
  side.rows = rows, side.cols = cols, side.padded_cols = padded;
  const gpu::buffer<std::uint16_t> out(rows * padded);
  const gpu::buffer<std::uint32_t> unfit(1);
  REQUIRE(gpu::kernels::queue_decode_bf16(side, 16, out.data(), unfit.data(), {}) == gpu::success);
  const std::vector<std::uint16_t> got = support::on_host(out);
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t k = 0; k < padded; ++k) {
      const std::uint16_t want = k < cols ? ufp4::detail::round_to<bf16>(x[i * 30 + k]).bits() : std::uint16_t{0};
      REQUIRE((got[i * padded + k] == want || (is_nan16(got[i * padded + k]) && is_nan16(want))));
    }
}

TEMPLATE_TEST_CASE("scales are swizzled as swizzle_scales does, and a negative one is reported", "[gpu]", nvfp4,
                   squares, mxfp4) {
  for (const std::size_t rows : {1u, 127u, 300u})
    for (const std::size_t cols : {16u, 80u, 700u}) {
      CAPTURE(rows, cols);
      std::mt19937_64 gen(rows + cols);
      quantized_matrix<TestType> host = model::random_quantized<TestType>(gen, rows, cols);
      const std::size_t across = host.padded_cols() / TestType::block_size;
      std::vector<std::uint8_t> by_row(rows * across), want(compat::swizzled_size(rows, across));
      for (std::size_t i = 0; i < rows; ++i)
        for (std::size_t b = 0; b < across; ++b)
          by_row[i * across + b] =
              host.scales()[i / static_cast<std::size_t>(TestType::block.rows) * across + b].bits();
      compat::swizzle_scales(by_row.data(), rows, across, want.data());
      constexpr bool is_signed = std::is_same_v<typename TestType::scale_type, e4m3>;
      for (const bool negative : {false, true}) {
        if (negative && is_signed)
          host.scales()[0] =
              TestType::scale_type::from_bits(static_cast<std::uint8_t>(host.scales()[0].bits() | 0x80u));
        const on_device<TestType> x(host);
        const gpu::buffer<std::uint8_t> out(want.size());
        const gpu::buffer<std::uint32_t> unfit(1);
        REQUIRE(gpu::set_zero(unfit.data(), 4, {}) == gpu::success);
        REQUIRE(gpu::kernels::queue_swizzle_scales(x.side, TestType::block_size, out.data(), unfit.data(), {}) ==
                gpu::success);
        REQUIRE(support::on_host(out) == want);
        REQUIRE((support::on_host(unfit)[0] != 0) == (negative && is_signed));
      }
    }
}

TEST_CASE("widened codes are E4M3 bytes of the same values", "[gpu]") {
  std::mt19937_64 gen(5);
  const quantized_matrix<mxint4> host = model::random_quantized<mxint4>(gen, 70, 96);
  const on_device<mxint4> x(host, 3);
  const gpu::buffer<std::uint8_t> out(70 * 96);
  REQUIRE(gpu::kernels::queue_widen_codes(x.side, out.data(), {}) == gpu::success);
  const std::vector<std::uint8_t> got = support::on_host(out);
  for (std::size_t i = 0; i < got.size(); ++i)
    REQUIRE(static_cast<float>(e4m3::from_bits(got[i])) ==
            spec_of<mxint4>.grid.value[ufp4::detail::code_at(host.codes().data(), i)]);
}

#if !defined(__CUDACC__) || defined(UFP4_WITH_CUBLAS)

namespace {

#if defined(UFP4_WITH_CUBLAS)
using some_library = gpu::cublas;
#else

float scale_in(const void* swizzled, gpu::library_product::operands kind, std::size_t row, std::size_t block,
               std::size_t blocks) {
  if (kind == gpu::library_product::operands::bf16) return 1;
  const std::uint8_t c = static_cast<const std::uint8_t*>(swizzled)[compat::swizzled_index(row, block, blocks)];
  return kind == gpu::library_product::operands::nvfp4 ? static_cast<float>(e4m3::from_bits(c))
                                                       : static_cast<float>(e8m0::from_bits(c));
}
std::vector<float> numbers(const void* data, const void* scales, gpu::library_product::operands kind, std::size_t rows,
                           std::size_t depth) {
  std::vector<float> x;
  const std::size_t block = kind == gpu::library_product::operands::mxfp8 ? 32 : 16;
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t k = 0; k < depth; ++k) {
      const std::size_t at = i * depth + k;
      const auto* bytes = static_cast<const std::uint8_t*>(data);
      const float value = kind == gpu::library_product::operands::bf16
                              ? static_cast<float>(static_cast<const bf16*>(data)[at])
                          : kind == gpu::library_product::operands::nvfp4
                              ? static_cast<float>(fp4<E2M1>::from_bits(ufp4::detail::code_at(bytes, at)))
                              : static_cast<float>(e4m3::from_bits(bytes[at]));
      x.push_back(value * scale_in(scales, kind, i, k / block, depth / block));
    }
  return x;
}

/// What a library does that reads its arguments as documented and nothing else.
gpu::error multiply(const gpu::library_product& p, std::span<std::byte> workspace, gpu::stream) {
  REQUIRE(workspace.size() == 1024);
  const std::vector<float> a = numbers(p.left, p.left_scales, p.kind, p.rows, p.depth);
  const std::vector<float> b = numbers(p.right, p.right_scales, p.kind, p.cols, p.depth);
  for (std::size_t i = 0; i < p.rows; ++i)
    for (std::size_t j = 0; j < p.cols; ++j) {
      float sum = 0;
      for (std::size_t k = 0; k < p.depth; ++k) sum += a[i * p.depth + k] * b[j * p.depth + k];
      const std::size_t at = i * p.out_stride + j;
      float* wide = static_cast<float*>(p.out);
      bf16* narrow = static_cast<bf16*>(p.out);
      float r = *p.alpha * sum;
      if (*p.beta != 0) r += *p.beta * (p.out_kind == dtype::f32 ? wide[at] : static_cast<float>(narrow[at]));
      if (p.out_kind == dtype::f32)
        wide[at] = r;
      else
        narrow[at] = ufp4::detail::round_to<bf16>(r);
    }
  return gpu::success;
}

struct some_library {
  static constexpr gpu::gemm_library library{[] { return true; }, 1000, &multiply, true, &gpu::detail::run_library<>};
  some_library() { gpu::installed_library = &library; }
  ~some_library() { gpu::installed_library = nullptr; }
};
#endif

/// The model's side, which knows no negative scale.
template <class F>
model::side signed_side(const quantized_matrix<F>& q) {
  model::side s = model::side_of(q);
  if (F::block.rows == 1)
    for (std::size_t i = 0; i < s.scale.size(); ++i) s.scale[i] = static_cast<float>(q.scales()[i]);
  return s;
}

struct product_options {
  float alpha = 1, beta = 0;
  bool bias = false, strided = false, blocks = false;
  accumulate mode = accumulate::fast;
};

/// A product on the library, against the bound of section 6. Returns how many elements were NaN.
template <class T, class A, class B>
std::size_t check_product(const quantized_matrix<A>& a, const quantized_matrix<B>& b, const product_options& how) {
  const std::size_t m = a.rows(), n = b.rows(), stride = how.strided ? n + 3 : n;
  std::mt19937_64 gen(m + n);
  std::vector<float> start = model::wide_floats(gen, m * stride), bias = model::wide_floats(gen, n);
  const std::vector<T> c = support::elements<T>(start);
  const gpu::quantized_matrix<A> left(a.view());
  const gpu::quantized_matrix<B> right(b.view());
  const gpu::buffer<T> out{std::span<const T>(c)};
  const gpu::buffer<float> bias_there{std::span<const float>(bias)};
  gemm_options options{how.alpha, how.beta, how.mode, {}};
  if (how.bias) options.bias = bias_there.span();
  const auto call = gpu::detail::call_of(
      left.view(), right.view(), detail::sink_of(matrix_view<T>{out.data(), m, n, static_cast<std::ptrdiff_t>(stride)}),
      options, {});
  gpu::device_facts device;
  REQUIRE(gpu::facts(device) == gpu::success);
  if (how.blocks) device.architecture = 100;
  const gpu::gemm_kernel& kernel = how.blocks ? gpu::detail::gemm_library_blocks : gpu::detail::gemm_library_bf16;
  REQUIRE(kernel.takes(call.job, device));
  REQUIRE(gpu::detail::writes_result(call.job) == (!how.bias && !how.strided && !std::is_same_v<T, fp16>));
  const gpu::buffer<std::byte> workspace(kernel.workspace(call.job, device));
  REQUIRE(kernel.run(call.job, device, workspace.span(), {}) == gpu::success);

  const std::vector<T> raw = support::on_host(out);
  const std::vector<float> got = support::numbers(std::span<const T>(raw)),
                           old = support::numbers(std::span<const T>(c));
  const model::bounded exact = model::extended(signed_side(a), signed_side(b));
  const auto padded = static_cast<model::wide>(a.padded_cols());
  const double step = std::is_same_v<T, float> ? 0x1p-24 : std::is_same_v<T, bf16> ? 0x1p-8 : 0x1p-11;
  const double least = std::is_same_v<T, fp16> ? 0x1p-25 : std::is_same_v<T, bf16> ? 0x1p-134 : 0x1p-150;
  std::size_t nans = 0, wrong = 0;
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t j = 0; j < n; ++j) {
      const model::wide alpha = static_cast<model::wide>(how.alpha),
                        before = static_cast<model::wide>(old[i * stride + j]) * static_cast<model::wide>(how.beta);
      const model::wide added = how.bias ? static_cast<model::wide>(bias[j]) : 0;
      const model::wide want = alpha * exact.value[i * n + j] + added + before;
      const model::wide size = std::abs(alpha) * exact.magnitude[i * n + j] + std::abs(before) + std::abs(added);
      // a factor rounded to 8 bits is off by 2^-8 of itself at most, and both are
      const model::wide relative = (how.mode == accumulate::folded_bf16 ? 0x1.01p-7L : 0.0L) + (padded + 6) * 0x1p-24L;
      const model::wide tensors =
          static_cast<model::wide>(a.tensor_scale()) * static_cast<model::wide>(b.tensor_scale());
      const model::wide absolute = std::abs(alpha) * tensors * padded * 0x1p-126L;
      const float r = got[i * stride + j];
      if (want != want) {
        nans += r != r;
        wrong += r == r;
      } else if (std::abs(want) < 0x1p127L &&
                 std::abs(static_cast<float>(want)) < 60000.0f + 0x1p127f * !std::is_same_v<T, fp16>) {
        const model::wide bound = relative * size + absolute;
        wrong += !(std::abs(static_cast<model::wide>(r) - want) <= bound + (std::abs(want) + bound) * step + least);
      }
    }
  CHECK(wrong == 0);
  std::size_t touched = 0;  // between the rows of C
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t j = n; j < stride; ++j)
      touched += std::memcmp(&raw[i * stride + j], &c[i * stride + j], sizeof(T)) != 0;
  REQUIRE(touched == 0);
  return nans;
}

template <class F>
quantized_matrix<F> random_side(unsigned seed, std::size_t rows, std::size_t cols,
                                model::scales kind = model::scales::ordinary, float tensor = 0.5f) {
  std::mt19937_64 gen(seed);
  return model::random_quantized<F>(gen, rows, cols, kind, tensor);
}

}  // namespace

TEST_CASE("a product computed by the library is within the bound of fast, with C written by the library or by a kernel",
          "[gpu]") {
  const some_library library;
  const auto a = random_side<nvfp4>(1, 1025, 40);
  const auto b = random_side<nvint4>(2, 136, 40);
  check_product<float>(a, b, {});
  check_product<float>(a, b, {.alpha = -1.5f, .beta = 0.75f});
  check_product<bf16>(a, b, {.alpha = 0.3f, .beta = 1.0f});
  check_product<fp16>(a, b, {.alpha = 0.3f, .beta = -2.0f});
  check_product<float>(a, b, {.alpha = 0.3f, .beta = 0.5f, .bias = true});
  check_product<bf16>(a, b, {.beta = 0.5f, .strided = true});
}

TEST_CASE("products of the mx formats and of folded binary32 scales by the library are within their bounds", "[gpu]") {
  const some_library library;
  check_product<float>(random_side<mxfp4>(3, 1024, 70), random_side<mx_e1m2>(4, 128, 70), {});
  check_product<float>(random_side<e1m2_f32>(5, 1024, 33), random_side<e2m1_f32>(6, 140, 33),
                       {.beta = 2, .mode = accumulate::folded_bf16});
}

TEST_CASE("a NaN block makes its row of C NaN and no other", "[gpu]") {
  const some_library library;
  auto a = random_side<nvfp4>(7, 1024, 48);
  a.scales()[5 * 3 + 1] = e4m3::from_bits(0x7F);
  const auto b = random_side<nvfp4>(8, 128, 48);
  REQUIRE(check_product<float>(a, b, {}) == 128);
  REQUIRE(check_product<bf16>(a, b, {.beta = 1}) == 128);
}

TEST_CASE("products outside the range of bf16 are computed in binary64, and C is still added", "[gpu]") {
  const some_library library;
  auto a = random_side<mxfp4>(9, 1024, 32);
  const auto b = random_side<mxfp4>(10, 128, 32);
  a.scales()[77] = e8m0::from_bits(0xFE);  // 6 * 2^127 is no binary32 number
  check_product<float>(a, b, {.alpha = 0x1p-20f, .beta = 0.5f});
  a.scales()[77] = e8m0::from_bits(0);  // 2^-128 is a subnormal bf16
  check_product<float>(a, b, {.beta = 0.5f});
  check_product<fp16>(a, b, {});
}

TEST_CASE(
    "products of a plain operand outside the range of bf16 are computed in binary64, ragged ends and infinities "
    "included",
    "[gpu]") {
  const some_library library;
  const std::size_t m = 1024, n = 128, k = 21;
  support::hostile source(4);
  std::vector<float> x = source.values(m * k, false, false);
  for (float& v : x) v = static_cast<float>(ufp4::detail::round_to<bf16>(v));
  x[3 * k] = std::numeric_limits<float>::infinity();
  auto b = random_side<mxfp4>(10, n, k);
  b.scales()[7] = e8m0::from_bits(0xFE);  // 6 * 2^127 is no binary32 number
  const gpu::quantized_matrix<mxfp4> right(b.view());
  const gpu::buffer<bf16> left{std::span<const bf16>(support::elements<bf16>(x))};
  const gpu::buffer<float> out(m * n);
  const auto plain = unquantized(matrix_view<const bf16>{left.data(), m, k});
  const matrix_view<float> c{out.data(), m, n};
  const gemm_options options{.alpha = 0x1p-20f};
  REQUIRE(std::string(gpu::explain({}, plain, right, c, options).kernel) == "gemm_library_bf16");
  const gpu::buffer<std::byte> workspace(gpu::workspace_bytes({}, plain, right, c, options));
  REQUIRE(support::text_of(gpu::quantized_gemm({{}, workspace.span()}, plain, right, c, options)) == "");

  model::side a;
  a.rows = m, a.padded = b.padded_cols(), a.block = 32, a.exact = false;
  a.value.resize(m * a.padded);
  a.scale.assign(m, 1.0f);
  for (std::size_t i = 0; i < m; ++i) std::copy_n(&x[i * k], k, &a.value[i * a.padded]);
  const model::bounded exact = model::extended(a, model::side_of(b));
  const std::vector<float> got = support::on_host(out);
  std::size_t wrong = 0, large = 0;
  for (std::size_t at = 0; at < got.size(); ++at) {
    const model::wide want = 0x1p-20L * exact.value[at], off = std::abs(static_cast<model::wide>(got[at]) - want);
    const bool same = want != want ? got[at] != got[at] : std::isinf(want) && want == static_cast<model::wide>(got[at]);
    wrong += !same && !(off <= 38 * 0x1p-24L * 0x1p-20L * exact.magnitude[at] + 0x1p-149L);
    large += std::isfinite(want) && std::abs(want) > 0x1p100L;
  }
  CHECK(wrong == 0);
  CHECK(large > m / 2);  // of the column that bf16 cannot hold
}

TEST_CASE("tensor scales whose product leaves the range of binary32 give results within the bound", "[gpu]") {
  const some_library library;
  const auto a = random_side<nvfp4>(11, 1024, 32, model::scales::ordinary, 0x1p-90f);
  const auto b = random_side<nvfp4>(12, 128, 32, model::scales::ordinary, 0x1p-45f);
  check_product<float>(a, b, {.alpha = 0x1p60f});
  check_product<float>(a, b, {.alpha = 1, .beta = 0x1p-100f});
  check_product<bf16>(a, random_side<nvfp4>(12, 128, 32, model::scales::ordinary, 0x1p+50f), {});
}

#if !defined(__CUDACC__)  // a device of compute capability 10 has to be there otherwise
TEST_CASE("a library that multiplies blocks gets nvfp4 codes as they are stored, and mx formats as bytes", "[gpu]") {
  const some_library library;
  check_product<float>(random_side<nvfp4>(13, 1040, 64), random_side<nvfp4>(14, 144, 64),
                       {.beta = 0.5f, .blocks = true});
  check_product<bf16>(random_side<mxint4>(15, 1040, 64), random_side<mxfp4>(16, 144, 64), {.blocks = true});
  auto a = random_side<nvfp4>(17, 1024, 64);
  a.scales()[9] = e4m3::from_bits(0xB8);  // -1
  check_product<float>(a, random_side<nvfp4>(18, 128, 64), {.beta = 0.5f, .blocks = true});
}
#endif

TEST_CASE("quantized_gemm runs on the library, explain reports it, and workspace_bytes is the workspace it needs",
          "[gpu]") {
  const quantized_matrix<nvfp4> a = random_side<nvfp4>(21, 1024, 32), b = random_side<nvfp4>(22, 128, 32);
  const gpu::quantized_matrix<nvfp4> left(a.view()), right(b.view());
  const gpu::buffer<float> out(1024 * 128);
  const matrix_view<float> c{out.data(), 1024, 128};
  REQUIRE(std::string(gpu::explain({}, left, right, c).kernel) != "gemm_library_bf16");
  const some_library library;
  REQUIRE(std::string(gpu::explain({}, left, right, c).kernel) == "gemm_library_bf16");
  const std::size_t needed = gpu::workspace_bytes({}, left, right, c);
  REQUIRE(needed >= 2 * (1024 + 128) * 32);
  const gpu::buffer<std::byte> workspace(needed);
  const gpu::context too_little{{}, workspace.span().first(needed - 1)}, enough{{}, workspace.span()};
  REQUIRE(gpu::quantized_gemm(too_little, left, right, c).code() == gpu::invalid_argument);
  REQUIRE(support::text_of(gpu::quantized_gemm(enough, left, right, c)) == "");
  const std::vector<float> got = support::on_host(out);
  const model::bounded exact = model::extended(model::side_of(a), model::side_of(b));
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < got.size(); ++i)
    wrong += !(std::abs(static_cast<model::wide>(got[i]) - exact.value[i]) <= 38 * 0x1p-24L * exact.magnitude[i]);
  REQUIRE(wrong == 0);
}

TEST_CASE("the library's kernels take nothing without a library, and only large products with one", "[gpu]") {
  const auto take = [](std::size_t m, std::size_t n, const gemm_options& options) {
    const gpu::quantized_matrix<nvfp4> a(m, 32), b(n, 32);
    float* c = reinterpret_cast<float*>(std::uintptr_t{256});
    gpu::device_facts device{.architecture = 90};
    const auto call =
        gpu::detail::call_of(a.view(), b.view(), detail::sink_of(matrix_view<float>{c, m, n}), options, {});
    return gpu::detail::gemm_library_bf16.takes(call.job, device);
  };
  REQUIRE_FALSE(take(1024, 128, {}));
  const some_library library;
  REQUIRE(take(1024, 128, {}));
  REQUIRE_FALSE(take(1023, 128, {}));
  REQUIRE_FALSE(take(1024, 127, {}));
  REQUIRE_FALSE(take(1024, 128, {.accumulate = accumulate::exact_blocks}));
  REQUIRE_FALSE(take(1024, 128, {.alpha = 0}));
}

#endif

#if defined(UFP4_WITH_CUBLAS)
TEST_CASE("cublasLt's rejections become messages", "[gpu]") {
  REQUIRE(gpu::detail::checked_call("cublasLtMatmul", CUBLAS_STATUS_SUCCESS) == gpu::success);
  const gpu::status s = gpu::detail::status_of(
      "quantized_gemm", gpu::detail::checked_call("cublasLtMatmul", CUBLAS_STATUS_NOT_SUPPORTED));
  REQUIRE(s.code() == gpu::not_supported);
  REQUIRE(s.text().starts_with("quantized_gemm: cublasLtMatmul: "));
  REQUIRE(gpu::detail::status_of("quantized_gemm", gpu::success).ok());
}
#endif
