// ufp4 - the AMX kernels of quantized_gemm, on emulated tiles, and on the processor's where it has them.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/gemm.hpp>

#include <string>

#include "support/catch.hpp"
#include "support/gemm_model.hpp"
#include "support/poison.hpp"
#include "support/seed.hpp"
#include "support/skip.hpp"
#include "support/unquantized_rows.hpp"

#if defined(__x86_64__)
#include <algorithm>
#include <initializer_list>
#include <random>
#include <stdexcept>
#include <vector>

#include <ufp4/cpu/kernels/gemm/gemm_amx.hpp>

#include "support/amx_model.hpp"

using namespace ufp4;
using support::emulated_tiles;

namespace {

namespace kernels = cpu::detail;
using kernels::gemm_kernel;

constexpr gemm_kernel emulated_blocks = kernels::amx::gemm_blocks<emulated_tiles>::row();
constexpr gemm_kernel emulated_products = kernels::amx::gemm_products<emulated_tiles>::row();

constexpr const char* no_avx512_bf16 = "this machine has no AVX512_BF16, which folded_bf16 uses beside the tiles";
constexpr const char* no_avx512 = "this machine has no AVX-512, which the AMX kernels use beside the tiles";
bool has(cpu::isa tier) { return cpu::available().has(tier); }

/// Runs a kernel as the driver does: rows packed in pieces, then part by part, in memory of exactly the promised size.
/// With more threads the driver makes the pieces smaller.
void run(const gemm_kernel& kernel, const kernels::gemm_job& job, std::size_t piece = 256) {
  REQUIRE((piece % kernel.tile_rows == 0 && piece <= kernel.part_rows));
  for (std::size_t row = 0; row < job.out.rows; row += piece) {
    const std::size_t rows = std::min(job.out.rows - row, piece);
    support::guarded<std::uint8_t> left(kernel.left_bytes(job, rows)), memory(kernel.scratch_bytes(job, rows));
    const auto bytes = [](auto& buffer) { return reinterpret_cast<std::byte*>(buffer.data()); };
    kernel.pack_left(job, row, rows, bytes(left));
    for (std::size_t col = 0; col < job.out.cols; col += kernel.part_cols)
      kernel.multiply(job, {row, rows, col, std::min(job.out.cols - col, kernel.part_cols)}, bytes(left),
                      bytes(memory));
    REQUIRE(left.guards_intact());
    REQUIRE(memory.guards_intact());
  }
}

template <class A, class B>
std::vector<float> product(const gemm_kernel& kernel, const A& a, const B& b, const gemm_options& options,
                           std::size_t piece = 256) {
  support::guarded<float> c(a.rows() * b.rows());
  if (options.beta != 0)
    for (std::size_t i = 0; i < c.size(); ++i) c[i] = static_cast<float>(i % 101) - 50.0f;
  const matrix_view<float> view{c.data(), a.rows(), b.rows()};
  run(kernel, detail::gemm_job_of(a, b, detail::sink_of(view), options), piece);
  REQUIRE(c.guards_intact());
  REQUIRE_FALSE(emulated_tiles::configured());  // an operation releases its tiles
  return {c.begin(), c.end()};
}
template <class A, class B>
std::vector<float> scalar_product(const A& a, const B& b, const gemm_options& options) {
  std::vector<float> c(a.rows() * b.rows());
  if (options.beta != 0)
    for (std::size_t i = 0; i < c.size(); ++i) c[i] = static_cast<float>(i % 101) - 50.0f;
  quantized_gemm(a, b, matrix_view<float>{c.data(), a.rows(), b.rows()}, options,
                 cpu::context{.threads = 1, .isa = cpu::isa::scalar});
  return c;
}

template <class F>
quantized_view<F> first_rows(const quantized_matrix<F>& q, std::size_t rows) {
  const std::size_t scales = detail::scale_rows(rows, F::block) * (q.padded_cols() / F::block_size);
  return {q.codes().first(rows * q.padded_cols() / 2), q.scales().first(scales), q.tensor_scale(), rows, q.cols()};
}

/// Every product of the first m rows of a and the first n rows of b is a corner of one C.
bool is_corner(const std::vector<float>& c, std::size_t m, std::size_t n, const std::vector<float>& whole,
               std::size_t stride) {
  bool same = c.size() == m * n;
  for (std::size_t i = 0; same && i < m; ++i)
    for (std::size_t j = 0; j < n; ++j) same = same && support::same_number(c[i * n + j], whole[i * stride + j]);
  return same;
}

constexpr gemm_options exactly{.accumulate = accumulate::exact_blocks};

template <class A, class B>
void check_exact(const char* name, std::initializer_list<std::size_t> depths = {16, 31, 48, 200, 530}) {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(sizeof(typename A::scale_type) * 16 + sizeof(typename B::scale_type))};
  for (const std::size_t k : depths)
    for (const model::scales kind : {model::scales::ordinary, model::scales::hostile}) {
      const auto a = model::random_quantized<A>(gen, 1 + gen() % 36, k, kind, 0x1.8p-7f);
      const auto b = model::random_quantized<B>(gen, 1 + gen() % 36, k, kind, 0x1.333334p+3f);
      CAPTURE(name, k, a.rows(), b.rows());
      const gemm_options options{.alpha = -2.5f, .beta = k == 48 ? 0.5f : 0.0f, .accumulate = accumulate::exact_blocks};
      const std::vector<float> want = scalar_product(a, b, options);
      REQUIRE(support::same_numbers(product(emulated_blocks, a, b, options), want));
      if constexpr (!B::has_bytes)
        REQUIRE(support::same_numbers(product(emulated_blocks, a, prepack(b), options), want));
    }
}

/// What rounding to bf16 may add for a side: half a step of 2^-7 where value * scale has more than eight bits.
template <class F>
constexpr long double folding_of() {
  constexpr bool powers_of_two = std::is_same_v<typename F::scale_type, e8m0>;
  return sizeof(typename F::scale_type) != 1 || !F::element_type::exact_products || (F::has_bytes && !powers_of_two)
             ? 0x1p-8L
             : 0.0L;
}

/// The bound of numerics 6, and its second-order term where both sides are rounded.
template <class A, class B, class Q>
void check_bound(const quantized_matrix<A>& a, const Q& b, const model::side& right, accumulate mode, float alpha = 1) {
  const model::side left = model::side_of(a);
  const model::bounded exact = model::extended(left, right);
  const auto depth = static_cast<long double>(a.padded_cols()), factor = static_cast<long double>(alpha);
  const long double folding = mode == accumulate::fast ? 0 : folding_of<A>() + folding_of<B>() + 0x1p-16L;
  const long double tensors = static_cast<long double>(left.tensor) * static_cast<long double>(right.tensor);
  const std::vector<float> c = product(emulated_products, a, b, {.alpha = alpha, .accumulate = mode});
  std::size_t outside = 0;
  for (std::size_t i = 0; i < c.size(); ++i) {
    const long double error = std::abs(static_cast<long double>(c[i]) - factor * exact.value[i]);
    const long double bound = (folding + (depth + 6) * 0x1p-24L) * std::abs(factor) * exact.magnitude[i] +
                              std::abs(factor) * tensors * depth * 0x1p-126L;
    if (!(error <= bound) && outside++ == 0) {
      CAPTURE(a.rows(), b.rows(), a.cols(), static_cast<int>(mode), i, c[i], error, bound);
      CHECK(false);
    }
  }
  REQUIRE(outside == 0);
}
template <class A, class B>
void check_bounds(std::initializer_list<accumulate> modes, model::scales kind = model::scales::ordinary,
                  std::initializer_list<std::size_t> depths = {16, 32, 48, 64, 300, 1040}) {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(sizeof(typename A::scale_type) * 16 + sizeof(typename B::scale_type) + 1)};
  for (const std::size_t k : depths) {
    const auto a = model::random_quantized<A>(gen, 1 + gen() % 40, k, kind, 0x1.8p-7f);
    const auto b = model::random_quantized<B>(gen, 1 + gen() % 40, k, kind, 0x1.333334p+3f);
    for (const accumulate mode : modes) {
      check_bound<A, B>(a, b, model::side_of(b), mode, -2.7f);
      if constexpr (!B::has_bytes) check_bound<A, B>(a, prepack(b), model::side_of(b), mode);
    }
  }
}

kernels::amx::tile_config shapes(int c_rows, int c_bytes, int a_rows, int a_bytes, int b_rows, int b_bytes) {
  kernels::amx::tile_config c;
  c.shape(0, c_rows, c_bytes).shape(1, a_rows, a_bytes).shape(2, b_rows, b_bytes);
  return c;
}

/// One product of a 1 x 2 pairs by 2 pairs x 1 from C = c.
float tiny_product(float c, std::array<float, 4> a, std::array<float, 4> b) {
  const auto halves = [](const std::array<float, 4>& x) {
    std::array<std::uint16_t, 4> words{};
    for (std::size_t i = 0; i < 4; ++i) words[i] = static_cast<std::uint16_t>(model::bits_of(x[i]) >> 16);
    return words;
  };
  const auto left = halves(a), right = halves(b);
  emulated_tiles::configure(shapes(1, 4, 1, 8, 2, 4));
  emulated_tiles::load<0>(&c, 4);
  emulated_tiles::load<1>(left.data(), 8);
  emulated_tiles::load<2>(right.data(), 4);
  emulated_tiles::dot_bf16<0, 1, 2>();
  emulated_tiles::store<0>(&c, 4);
  emulated_tiles::release();
  return c;
}

}  // namespace

// ---- The model itself.

TEST_CASE("emulated sums are rounded once and flushed as by FTZ and DAZ", "[amx]") {
  using support::flushing_add, support::flushing_fma;
  CHECK(flushing_fma(0x1p-100f, 0x1p-40f, 0x1p-126f) == 0x1p-126f + 0x1p-140f);  // the product alone would be flushed
  CHECK(model::bits_of(flushing_fma(0x1p-100f, -0x1p-40f, 0.0f)) == 0x80000000u);
  CHECK(flushing_fma(0x1p-130f, 0x1p+100f, 1.0f) == 1.0f);  // a subnormal operand
  CHECK(flushing_fma(1.0f, 1.0f, 0x1p-130f) == 1.0f);
  CHECK(flushing_add(0x1p-126f, -0x1.8p-126f) == 0.0f);      // a subnormal result
  CHECK(flushing_fma(0x1p-63f, 0x1.fep-64f, 0.0f) == 0.0f);  // just below 2^-126
  // 2^-126 - 2^-151 is nearer to 2^-126 than to what would come before it.
  CHECK(flushing_fma(-0x1p-100f, 0x1p-51f, 0x1p-126f) == 0x1p-126f);
  CHECK(flushing_fma(-0x1p-100f, 0x1.8p-50f, 0x1p-126f) == 0.0f);  // 1.5 steps below: a number that does not exist
  CHECK(std::isinf(flushing_fma(0x1p127f, 2.0f, 0.0f)));
  CHECK(std::isnan(flushing_fma(INFINITY, 0x1p-130f, 1.0f)));  // infinity times a flushed zero

  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(1)};
  for (int i = 0; i < 100'000; ++i) {
    const auto draw = [&] { return model::float_of(static_cast<std::uint32_t>(gen())); };
    const float a = model::float_of(model::bits_of(draw()) & 0xFFFF0000u);
    const float b = model::float_of(model::bits_of(draw()) & 0xFFFF0000u);
    const float c = i % 2 == 0 ? draw() : -a * b * (1 + 0x1p-12f);
    const auto normal = [](float x) { return std::isnormal(x) || x == 0; };
    const float want = std::fma(a, b, c);
    if (normal(a) && normal(b) && normal(c) && (std::isnormal(want) && std::abs(want) > 0x1p-125f))
      REQUIRE(support::same_number(flushing_fma(a, b, c), want));
  }
}

TEST_CASE("an emulated product adds even and odd elements apart, then both to C", "[amx]") {
  // Odd elements add up to 2^-23; one after the other they would be lost beside the 1.
  CHECK(tiny_product(0, {1, 0x1p-24f, 0, 0x1p-24f}, {1, 1, 1, 1}) == 1 + 0x1p-23f);
  CHECK(tiny_product(0, {1, 0, 0x1p-24f, 0}, {1, 1, 1, 1}) == 1);  // even elements: a tie, to the even 1
  CHECK(tiny_product(1, {0x1p-24f, 0x1p-24f, 0, 0}, {1, 1, 1, 1}) == 1 + 0x1p-23f);
  CHECK(tiny_product(5, {1, 2, 3, 4}, {10, 20, 30, 40}) == 5 + 10 + 40 + 90 + 160);
  CHECK(model::bits_of(tiny_product(0, {-0.0f, -1, 0, 0}, {1, 0, 0, 0})) == 0);  // sums begin with +0
}

TEST_CASE("an emulated product pairs k of A with the rows of B, a dword a column", "[amx]") {
  const std::uint16_t one = 0x3F80, two = 0x4000, three = 0x4040;
  const std::uint16_t a[2][4] = {{one, 0, 0, three}, {0, two, 0, 0}};
  const std::uint16_t b[2][4] = {{one, two, three, one}, {two, one, one, three}};  // two columns of two k each, twice
  float c[2][2] = {};
  emulated_tiles::configure(shapes(2, 8, 2, 8, 2, 8));
  emulated_tiles::load<1>(a, 8);
  emulated_tiles::load<2>(b, 8);
  emulated_tiles::dot_bf16<0, 1, 2>();
  emulated_tiles::store<0>(c, 8);
  emulated_tiles::release();
  CHECK(c[0][0] == 1 * 1 + 3 * 1);
  CHECK(c[0][1] == 1 * 3 + 3 * 3);
  CHECK(c[1][0] == 2 * 2);
  CHECK(c[1][1] == 2 * 1);
}

TEST_CASE("emulated tiles reject what a processor faults on", "[amx]") {
  float c[256] = {};
  CHECK_THROWS_AS(emulated_tiles::zero<0>(), std::logic_error);
  CHECK_THROWS_AS(emulated_tiles::load<0>(c, 64), std::logic_error);
  const auto rejected = [](const kernels::amx::tile_config& config) {
    emulated_tiles::configure(config);
    CHECK_THROWS_AS((emulated_tiles::dot_bf16<0, 1, 2>()), std::logic_error);
  };
  rejected(shapes(16, 64, 8, 64, 16, 64));   // rows of C and A
  rejected(shapes(16, 32, 16, 64, 16, 64));  // columns of C and B
  rejected(shapes(16, 64, 16, 32, 16, 64));  // k of A and B
  rejected(shapes(16, 64, 16, 64, 0, 0));
  emulated_tiles::configure(shapes(16, 64, 16, 64, 16, 64));
  CHECK_NOTHROW((emulated_tiles::dot_bf16<0, 1, 2>()));
  CHECK_THROWS_AS((emulated_tiles::dot_bf16<0, 1, 1>()), std::logic_error);
  CHECK_THROWS_AS(emulated_tiles::store<3>(c, 64), std::logic_error);
  kernels::amx::tile_config bad;
  CHECK_THROWS_AS(emulated_tiles::configure(bad.shape(0, 17, 64)), std::logic_error);
  CHECK_THROWS_AS(emulated_tiles::configure(bad.shape(0, 16, 68)), std::logic_error);
  CHECK_THROWS_AS(emulated_tiles::configure(bad.shape(0, 0, 64)), std::logic_error);
  CHECK_THROWS_AS(emulated_tiles::configure(bad.shape(0, 16, 64).shape(8, 16, 64)), std::logic_error);
  bad.palette = 2;
  CHECK_THROWS_AS(emulated_tiles::configure(bad), std::logic_error);
  emulated_tiles::release();
  CHECK_FALSE(emulated_tiles::configured());
}

// ---- exact_blocks.

TEST_CASE("exact_blocks on tiles gives the scalar bits at every M and N", "[amx]") {
  if (!has(cpu::isa::avx512)) return support::skip(no_avx512);
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(2)};
  const std::size_t most = 34;
  const auto a = model::random_quantized<e1m2_f32>(gen, most, 80), b = model::random_quantized<e1m2_f32>(gen, most, 80);
  const std::vector<float> whole = scalar_product(a, b, exactly);
  for (std::size_t m = 1; m <= most; ++m)
    for (std::size_t n = 1; n <= most; n += m % 16 < 2 ? 1 : 5) {
      CAPTURE(m, n);
      REQUIRE(is_corner(product(emulated_blocks, first_rows(a, m), first_rows(b, n), exactly), m, n, whole, most));
    }
}

TEST_CASE("exact_blocks on tiles gives the scalar bits for every format and scale", "[amx]") {
  if (!has(cpu::isa::avx512)) return support::skip(no_avx512);
  check_exact<e1m2_f32, int4_f32>("e1m2_f32 x int4_f32");
  check_exact<e2m1_f32, nvfp4>("e2m1_f32 x nvfp4");
  check_exact<nv_e1m2, nvint4>("nv_e1m2 x nvint4");
  check_exact<block_format<fp4<E3M0>, float, 16>, block_format<fp4<E2M1>, ufp4::bf16, 16>>("e3m0 f32 x e2m1 bf16");
  check_exact<block_format<fp4<E1M2>, ue5m3, 16>, block_format<fp4<E2M1>, e4m3, square(16), float>>("ue5m3 x square");
  check_exact<mxfp4, mxint4>("mxfp4 x mxint4");
  check_exact<block_format<ufp4::int4, e8m0, square(32)>, mx_e1m2>("square mxint4 x mx_e1m2");
  check_exact<block_format<fp4<E2M1>, float, 64>, block_format<fp4<E1M2>, e4m3, 64>>("blocks of 64", {64, 530});
  check_exact<block_format<fp4<E2M1>, e8m0, 256>, block_format<fp4<E3M0>, float, 256>>("blocks of 256", {256, 700});
}

TEST_CASE("exact_blocks on tiles gives the scalar bits for elements of one byte on either side", "[amx]") {
  if (!has(cpu::isa::avx512)) return support::skip(no_avx512);
  check_exact<int8_f32, nvfp4>("int8_f32 x nvfp4");
  check_exact<mxint8, mxfp4>("mxint8 x mxfp4");
  check_exact<block_format<ufp4::int8q6, e8m0, square(32)>, mx_e1m2>("square mxint8 x mx_e1m2");
  check_exact<nvfp4, int8_f32>("nvfp4 x int8_f32", {16, 200});
  check_exact<mxint8, mxint8>("mxint8 x mxint8", {31, 530});
  check_exact<block_format<ufp4::int8, float, 64>, block_format<fp4<E1M2>, e4m3, 64>>("blocks of 64", {64, 530});
}

TEST_CASE("exact_blocks on tiles keeps a NaN scale and the largest dot product", "[amx]") {
  if (!has(cpu::isa::avx512)) return support::skip(no_avx512);
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(3)};
  auto a = model::random_quantized<int4_f32>(gen, 20, 48), b = model::random_quantized<int4_f32>(gen, 18, 48);
  for (auto& byte : a.codes()) byte = 0x88;  // -8
  for (auto& byte : b.codes()) byte = 0x88;
  a.scales()[3 * 3 + 1] = NAN, a.scales()[4] = INFINITY, b.scales()[5] = -0.0f, b.scales()[7] = model::float_of(1);
  REQUIRE(support::same_numbers(product(emulated_blocks, a, b, exactly), scalar_product(a, b, exactly)));
}

TEST_CASE("exact_blocks on tiles takes bits and parts beyond one slice and one task", "[amx]") {
  if (!has(cpu::isa::avx512)) return support::skip(no_avx512);
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(4)};
  const auto a = model::random_quantized<nvfp4>(gen, 17, 16);
  const auto b = model::random_quantized<e2m1_f32>(gen, 259, 16);
  REQUIRE(support::same_numbers(product(emulated_blocks, a, b, exactly), scalar_product(a, b, exactly)));
  const auto c = model::random_quantized<nvfp4>(gen, 515, 16);
  const auto d = model::random_quantized<e2m1_f32>(gen, 3, 16);
  REQUIRE(support::same_numbers(product(emulated_blocks, c, d, exactly), scalar_product(c, d, exactly)));
  const auto e = model::random_quantized<nvfp4>(gen, 3, 1040);
  const auto f = model::random_quantized<e2m1_f32>(gen, 5, 1040);
  REQUIRE(support::same_numbers(product(emulated_blocks, e, f, exactly), scalar_product(e, f, exactly)));
  const quantized_matrix<nvfp4> none(4, 0), nothing(5, 0);
  const gemm_options options{.beta = 2, .accumulate = accumulate::exact_blocks};
  REQUIRE(
      support::same_numbers(product(emulated_blocks, none, nothing, options), scalar_product(none, nothing, options)));
}

TEST_CASE("the fast modes on tiles keep their bounds for elements of one byte", "[amx]") {
  if (!has(cpu::isa::avx512_bf16)) return support::skip(no_avx512_bf16);
  check_bounds<mxint8, mxfp4>({accumulate::fast, accumulate::folded_bf16}, model::scales::ordinary,
                              {32, 48, 300, 1040});
  check_bounds<mxint8, mxint8>({accumulate::fast}, model::scales::ordinary, {300});
  check_bounds<int8_f32, nvfp4>({accumulate::folded_bf16}, model::scales::ordinary, {16, 48, 300});
}

// ---- Storing C.

/// One product into a C of T, with gaps between rows and columns, against the scalar kernel's.
template <class T>
void check_output(float tensor_scale, const gemm_options& options, std::ptrdiff_t col_stride) {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(14)};
  const std::size_t m = 18, n = 83, width = n * static_cast<std::size_t>(col_stride) + 3;
  const auto a = model::random_quantized<nvfp4>(gen, m, 32, model::scales::ordinary, tensor_scale);
  const auto b = model::random_quantized<nvint4>(gen, n, 32);
  support::guarded<T> got(m * width), want(m * width);
  for (std::size_t i = 0; i < got.size(); ++i) got[i] = want[i] = T(static_cast<float>(i % 77) - 33.0f);
  const auto view = [&](auto& c) {
    return matrix_view<T>{c.data(), m, n, static_cast<std::ptrdiff_t>(width), col_stride};
  };
  run(emulated_blocks, detail::gemm_job_of(a, b, detail::sink_of(view(got)), options));
  quantized_gemm(a, b, view(want), {options.alpha, options.beta, accumulate::exact_blocks, options.bias},
                 cpu::context{.threads = 1, .isa = cpu::isa::scalar});
  REQUIRE(got.same_bytes(want.span()));
  REQUIRE(got.guards_intact());
}

TEST_CASE("tiles store every type of C, with bias, beta and gaps, as the scalar kernel does", "[amx]") {
  if (!has(cpu::isa::avx512)) return support::skip(no_avx512);
  std::vector<float> bias(83);
  for (std::size_t i = 0; i < bias.size(); ++i) bias[i] = 0.37f * static_cast<float>(i) - 11.0f;
  for (const std::ptrdiff_t step : {1, 2})
    for (const accumulate mode : {accumulate::exact_blocks, accumulate::fast})
      for (const gemm_options& options :
           {gemm_options{.alpha = 1.3f, .accumulate = mode},
            gemm_options{.alpha = -0.4f, .beta = 0.7f, .accumulate = mode, .bias = bias}}) {
        check_output<float>(0.9f, options, step);
        check_output<ufp4::bf16>(0.9f, options, step);
        check_output<fp16>(0.001f, options, step);
        check_output<fp16>(30.0f, options, step);  // some elements overflow
      }
  for (const float small : {0x1p-129f, 0x1p-126f, 0x1p-135f})  // formula of exact_blocks: subnormals are kept
    check_output<float>(small, {.alpha = 0x1p+20f, .accumulate = accumulate::exact_blocks}, 1);
}

TEST_CASE("in fast mode tiles keep the bound where a tensor scale alone leaves the range of binary32", "[amx]") {
  if (!has(cpu::isa::avx512)) return support::skip(no_avx512);
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(15)};
  struct factors {
    float left, right, alpha;
  };
  for (const factors& f : {factors{0x1.2345p-127f, 0x1.3p+100f, 1}, factors{0x1.7p+99f, 0x1.2345p-127f, 0x1.1p-10f},
                           factors{0x1.1p-100f, 0x1.8p+90f, 0x1p+60f}, factors{0x1p-60f, 0x1p-60f, 0x1p+127f}}) {
    auto a = model::random_quantized<nvfp4>(gen, 9, 64, model::scales::ordinary, f.left);
    auto b = model::random_quantized<nv_e1m2>(gen, 40, 64, model::scales::ordinary, f.right);
    for (auto& s : a.scales()) s = e4m3::from_bits(1);  // 2^-9
    for (auto& s : b.scales()) s = e4m3::from_bits(1);
    check_bound<nvfp4, nv_e1m2>(a, b, model::side_of(b), accumulate::fast, f.alpha);
  }
}

// ---- fast and folded_bf16.

TEST_CASE("fast on tiles keeps its bound for every format it takes", "[amx]") {
  if (!has(cpu::isa::avx512)) return support::skip(no_avx512);
  check_bounds<nvfp4, nvfp4>({accumulate::fast, accumulate::folded_bf16});
  check_bounds<nv_e1m2, nvint4>({accumulate::fast});
  check_bounds<mxfp4, mxint4>({accumulate::fast, accumulate::folded_bf16});
  check_bounds<block_format<fp4<E3M0>, ue5m3, 16>, block_format<fp4<E2M1>, e4m3, square(16), float>>(
      {accumulate::fast});
  check_bounds<block_format<fp4<E2M1>, e4m3, 128>, block_format<fp4<E1M2>, e8m0, 128>>({accumulate::fast});
}

TEST_CASE("fast on tiles keeps its bound over the whole range of 8-bit scales", "[amx]") {
  if (!has(cpu::isa::avx512)) return support::skip(no_avx512);
  check_bounds<nvfp4, nv_e1m2>({accumulate::fast}, model::scales::hostile);
  check_bounds<block_format<fp4<E2M1>, ue5m3, 16>, nvint4>({accumulate::fast}, model::scales::hostile);
}

TEST_CASE("folded_bf16 on tiles keeps its bound for every scale", "[amx]") {
  if (!has(cpu::isa::avx512_bf16)) return support::skip(no_avx512_bf16);
  check_bounds<e1m2_f32, int4_f32>({accumulate::folded_bf16});
  check_bounds<nvfp4, e2m1_f32>({accumulate::folded_bf16});
  check_bounds<block_format<fp4<E2M1>, ufp4::bf16, 16>, block_format<nf4, e4m3, 16>>({accumulate::folded_bf16});
  check_bounds<block_format<nf4, float, 64>, block_format<fp4<E2M1>, float, 64>>({accumulate::folded_bf16});
  check_bounds<block_format<nf4, float, 16>, block_format<nf4, e4m3, 16>>({accumulate::folded_bf16});  // code 0 is -1
}

TEST_CASE("on tiles a result is in range where a product of scales or a sum overflows", "[amx]") {
  if (!has(cpu::isa::avx512_bf16)) return support::skip(no_avx512_bf16);
  quantized_matrix<e1m2_f32> x(20, 32), y(35, 32);
  std::fill(x.codes().begin(), x.codes().end(), std::uint8_t{0x07});  // 1.75 at even k
  std::fill(y.codes().begin(), y.codes().end(), std::uint8_t{0x70});  // 1.75 at odd k
  for (float& s : x.scales()) s = 1e20f;
  for (float& s : y.scales()) s = 1e20f;
  for (const float c : product(emulated_blocks, x, y, exactly)) REQUIRE(model::bits_of(c) == 0);
  for (const float c : product(emulated_products, x, y, {.accumulate = accumulate::folded_bf16})) REQUIRE(c == 0.0f);
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(17)};
  auto a = model::random_quantized<mxfp4>(gen, 20, 96);
  auto b = model::random_quantized<mx_e1m2>(gen, 35, 96);
  for (auto& s : a.scales()) s = e8m0::from_bits(127 + 63);
  for (auto& s : b.scales()) s = e8m0::from_bits(127 + 63);
  check_bound<mxfp4, mx_e1m2>(a, b, model::side_of(b), accumulate::fast, 0x1p-100f);
}

TEST_CASE("fast on tiles covers every M and N with the same bits", "[amx]") {
  if (!has(cpu::isa::avx512)) return support::skip(no_avx512);
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(5)};
  const std::size_t most = 68;
  const auto a = model::random_quantized<nvfp4>(gen, most, 48);
  const auto b = model::random_quantized<nvint4>(gen, most, 48);
  const std::vector<float> whole = product(emulated_products, a, b, {});
  check_bound<nvfp4, nvint4>(a, b, model::side_of(b), accumulate::fast);
  for (std::size_t m = 1; m <= most; m += m < 34 ? 1 : 5)
    for (std::size_t n = 1; n <= most; n += m % 16 < 2 ? 3 : 13) {
      CAPTURE(m, n);
      REQUIRE(is_corner(product(emulated_products, first_rows(a, m), first_rows(b, n), {}), m, n, whole, most));
    }
}

TEST_CASE("where every partial sum is exact, tiles give the bits of exact_blocks in every mode", "[amx]") {
  if (!has(cpu::isa::avx512_bf16)) return support::skip(no_avx512_bf16);
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(6)};
  const auto same = [&]<class A, class B>(quantized_matrix<A> a, quantized_matrix<B> b) {
    for (auto& s : a.scales()) s = typename A::scale_type(static_cast<float>(1u << gen() % 3));
    for (auto& s : b.scales()) s = typename B::scale_type(static_cast<float>(1u << gen() % 3));
    const std::vector<float> want = scalar_product(a, b, {.alpha = -2.5f, .accumulate = accumulate::exact_blocks});
    for (const accumulate mode : {accumulate::fast, accumulate::folded_bf16})
      if (emulated_products.takes(detail::gemm_job_of(a, b, {}, {.accumulate = mode})) ||
          mode == accumulate::folded_bf16)
        REQUIRE(support::same_numbers(product(emulated_products, a, b, {.alpha = -2.5f, .accumulate = mode}), want));
  };
  for (const std::size_t k : {1u, 16u, 33u, 64u, 530u}) {
    same(model::random_quantized<nvfp4>(gen, 37, k), model::random_quantized<nvint4>(gen, 18, k));
    same(model::random_quantized<mxfp4>(gen, 18, k), model::random_quantized<mx_e1m2>(gen, 37, k));
    same(model::random_quantized<e1m2_f32>(gen, 5, k), model::random_quantized<e2m1_f32>(gen, 33, k));
  }
}

TEST_CASE("products that bf16 does not hold go to a kernel that keeps scales apart", "[amx]") {
  if (!has(cpu::isa::avx512_bf16)) return support::skip(no_avx512_bf16);
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(7)};
  // 2^-127 .. 2^-125 against 2^120 .. 2^122: every product of scales is an ordinary number.
  auto a = model::random_quantized<mxfp4>(gen, 19, 96);
  auto b = model::random_quantized<mxint4>(gen, 18, 96);
  for (auto& s : a.scales()) s = e8m0::from_bits(static_cast<std::uint8_t>(gen() % 3));
  for (auto& s : b.scales()) s = e8m0::from_bits(static_cast<std::uint8_t>(247 + gen() % 3));
  check_bound<mxfp4, mxint4>(a, b, model::side_of(b), accumulate::fast);
  check_bound<mxint4, mxfp4>(b, a, model::side_of(a), accumulate::fast);
  check_bound<mxint4, mxfp4>(b, prepack(a), model::side_of(a), accumulate::fast);
  // One block alone, on either side, at any position; and the same in a part of several hundred columns.
  for (const std::size_t at : {0u, 7u, 17u * 3 + 2}) {
    auto one = model::random_quantized<mxfp4>(gen, 19, 96);
    auto many = model::random_quantized<mx_e1m2>(gen, 300, 96);
    one.scales()[at] = e8m0::from_bits(0);
    for (std::size_t r = 0; r < 300; ++r) many.scales()[r * 3 + at % 3] = e8m0::from_bits(220);
    check_bound<mxfp4, mx_e1m2>(one, many, model::side_of(many), accumulate::fast);
    check_bound<mx_e1m2, mxfp4>(many, one, model::side_of(one), accumulate::fast);
  }
  // One scale code at a time: the first that is no product, and the last that is one, on both ends of the range.
  for (const int code : {0, 1, 2, 3, 4, 249, 250, 251, 252, 253, 254}) {
    CAPTURE(code);
    auto edge = model::random_quantized<mxfp4>(gen, 18, 64);
    auto other = model::random_quantized<mx_e1m2>(gen, 20, 64);
    for (auto& s : edge.scales()) s = e8m0::from_bits(static_cast<std::uint8_t>(code));
    for (auto& s : other.scales()) s = e8m0::from_bits(static_cast<std::uint8_t>(code < 9 ? 243 : 11));
    check_bound<mxfp4, mx_e1m2>(edge, other, model::side_of(other), accumulate::fast);
    auto uniform = model::random_quantized<mx_e1m2>(gen, 18, 64);
    auto beside = model::random_quantized<mxfp4>(gen, 20, 64);
    for (auto& s : uniform.scales()) s = e8m0::from_bits(static_cast<std::uint8_t>(code));
    for (auto& s : beside.scales()) s = e8m0::from_bits(static_cast<std::uint8_t>(code < 9 ? 243 : 11));
    check_bound<mx_e1m2, mxfp4>(uniform, beside, model::side_of(beside), accumulate::fast);
  }
  // Binary32 scales that make a folded operand subnormal, of grids with exact products and without.
  auto c = model::random_quantized<e1m2_f32>(gen, 9, 96);
  auto d = model::random_quantized<int4_f32>(gen, 70, 96);
  auto e = model::random_quantized<block_format<nf4, float, 16>>(gen, 70, 96);
  for (float& s : c.scales()) s = model::float_of(1 + static_cast<std::uint32_t>(gen() % 20));
  for (float& s : d.scales()) s = 0x1p+112f * static_cast<float>(1 + gen() % 3);
  for (float& s : e.scales()) s = 0x1p+112f * static_cast<float>(1 + gen() % 3);
  check_bound<e1m2_f32, int4_f32>(c, d, model::side_of(d), accumulate::folded_bf16);
  check_bound<e1m2_f32, block_format<nf4, float, 16>>(c, e, model::side_of(e), accumulate::folded_bf16);
}

TEST_CASE("how C is cut into parts changes no bit, nor does a row or column that another kernel computes", "[amx]") {
  if (!has(cpu::isa::avx512)) return support::skip(no_avx512);
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(13)};
  const std::size_t m = 100, n = 70;
  auto a = model::random_quantized<mxfp4>(gen, m, 64), b = model::random_quantized<mxfp4>(gen, n, 64);
  const std::vector<float> before = product(emulated_products, a, b, {.beta = 0.7f});
  a.scales()[40 * 2] = e8m0::from_bits(1);
  b.scales()[33 * 2 + 1] = e8m0::from_bits(253);
  const std::vector<float> after = product(emulated_products, a, b, {.beta = 0.7f});
  for (const std::size_t piece : {32u, 64u, 96u})
    REQUIRE(support::same_numbers(product(emulated_products, a, b, {.beta = 0.7f}, piece), after));
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t j = 0; j < n; ++j)
      if (i / 16 != 40 / 16 && j / 32 != 33 / 32) REQUIRE(support::same_number(before[i * n + j], after[i * n + j]));
}

TEST_CASE("a block of zeros may have any scale on tiles", "[amx]") {
  if (!has(cpu::isa::avx512)) return support::skip(no_avx512);
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(8)};
  auto a = model::random_quantized<mxfp4>(gen, 18, 96), b = model::random_quantized<mxfp4>(gen, 20, 96);
  for (const std::size_t block : {4u, 17u, 53u}) {  // as a quantizer leaves them: codes +0 and -0, scale code 0
    for (std::size_t byte = 0; byte < 16; ++byte) a.codes()[block * 16 + byte] = byte % 2 == 0 ? 0x00 : 0x80;
    a.scales()[block] = e8m0::from_bits(0);
  }
  kernels::amx::product_table products;
  const auto job = detail::gemm_job_of(a, b, {}, {});
  std::vector<std::uint8_t> tiles(3 * 1024 + 64);
  auto* aligned = tiles.data() + (64 - reinterpret_cast<std::uintptr_t>(tiles.data()) % 64) % 64;
  CHECK(kernels::amx::decode_products(kernels::amx::decoder::begin(job.left.q, products), 0, 16, 0, 96, aligned));
  a.codes()[4 * 16 + 5] = 0x10;
  CHECK_FALSE(kernels::amx::decode_products(kernels::amx::decoder::begin(job.left.q, products), 0, 16, 0, 96, aligned));
  a.codes()[4 * 16 + 5] = 0x80;
  check_bound<mxfp4, mxfp4>(a, b, model::side_of(b), accumulate::fast);
}

TEST_CASE("a NaN scale makes NaN what it touches on tiles, and nothing else", "[amx]") {
  if (!has(cpu::isa::avx512_bf16)) return support::skip(no_avx512_bf16);
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(9)};
  const auto check = [&]<class F>(quantized_matrix<F> a, quantized_matrix<F> b, auto nan, accumulate mode) {
    const std::size_t blocks = a.padded_cols() / F::block_size, bytes = F::block_size / 2;
    a.scales()[17 * blocks + blocks - 1] = nan;
    b.scales()[3 * blocks] = nan;
    for (std::size_t i = 0; i < bytes; ++i) a.codes()[(17 * blocks + blocks - 1) * bytes + i] = 0;
    const std::vector<float> c = product(emulated_products, a, b, {.accumulate = mode});
    for (std::size_t i = 0; i < a.rows(); ++i)
      for (std::size_t j = 0; j < b.rows(); ++j) REQUIRE(std::isnan(c[i * b.rows() + j]) == (i == 17 || j == 3));
  };
  check(model::random_quantized<nvfp4>(gen, 35, 112), model::random_quantized<nvfp4>(gen, 34, 112),
        e4m3::from_bits(0x7F), accumulate::fast);
  check(model::random_quantized<nvfp4>(gen, 35, 112), model::random_quantized<nvfp4>(gen, 34, 112),
        e4m3::from_bits(0xFF), accumulate::fast);
  check(model::random_quantized<mxfp4>(gen, 35, 112), model::random_quantized<mxfp4>(gen, 34, 112),
        e8m0::from_bits(0xFF), accumulate::fast);
  check(model::random_quantized<e1m2_f32>(gen, 35, 112), model::random_quantized<e1m2_f32>(gen, 34, 112),
        model::float_of(0x7FFFFFFF), accumulate::folded_bf16);
}

TEST_CASE("fast on tiles spans slices of K and parts of C", "[amx]") {
  if (!has(cpu::isa::avx512)) return support::skip(no_avx512);
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(10)};
  const auto a = model::random_quantized<nvfp4>(gen, 33, 16);
  const auto b = model::random_quantized<nvint4>(gen, 515, 16);
  check_bound<nvfp4, nvint4>(a, b, model::side_of(b), accumulate::fast);
  const auto c = model::random_quantized<nvfp4>(gen, 530, 16);
  const auto d = model::random_quantized<nvint4>(gen, 2, 16);
  check_bound<nvfp4, nvint4>(c, d, model::side_of(d), accumulate::fast);
  const auto e = model::random_quantized<block_format<fp4<E2M1>, e4m3, 256>>(gen, 66, 1000);
  const auto f = model::random_quantized<block_format<fp4<E1M2>, e4m3, 256>>(gen, 3, 1000);
  check_bound<block_format<fp4<E2M1>, e4m3, 256>, block_format<fp4<E1M2>, e4m3, 256>>(e, f, model::side_of(f),
                                                                                      accumulate::fast);
  const quantized_matrix<nvfp4> none(4, 0), nothing(5, 0);
  const gemm_options options{.beta = 2};
  REQUIRE(support::same_numbers(product(emulated_products, none, nothing, options),
                                scalar_product(none, nothing, options)));
}

TEST_CASE("folding rounds value * scale to bf16, ties to even", "[amx]") {
  if (!has(cpu::isa::avx512_bf16)) return support::skip(no_avx512_bf16);
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(11)};
  quantized_matrix<e1m2_f32> a(16, 32), b(1, 32);
  for (auto& byte : b.codes()) byte = 0;
  b.codes()[0] = 0x04;  // 1 at k = 0
  for (auto& s : b.scales()) s = 1;
  for (int round = 0; round < 60; ++round) {
    for (auto& byte : a.codes()) byte = static_cast<std::uint8_t>(gen());
    for (std::size_t i = 0; i < a.scales().size(); ++i) {
      const auto bits =
          static_cast<std::uint32_t>(gen());  // every third a tie of 8 bits, every fourth next to a power of two
      a.scales()[i] = model::float_of(0x30000000u + (bits & 0x1F800000u) +
                                      (i % 3 == 0   ? (bits & 0x7F0000u) | 0x8000u
                                       : i % 4 == 0 ? 0x7FFFFFu - (bits & 3u)
                                                    : bits & 0x7FFFFFu));
    }
    const std::vector<float> c = product(emulated_products, a, b, {.accumulate = accumulate::folded_bf16});
    for (std::size_t i = 0; i < 16; ++i) {
      const float value = spec_of<e1m2_f32>.grid.value[a.codes()[i * 16] & 15];
      REQUIRE(c[i] == model::from_bf16(model::bf16_bits(model::mul(value, a.scales()[2 * i]))));
    }
  }
}

// ---- Unquantized rows of bf16.

namespace {

/// Corners of the product of 70 rows and 66 columns, plain and prepacked, in pieces of any size.
template <class F>
void check_plain(const std::vector<float>& values, const quantized_matrix<F>& w) {
  const std::size_t k = w.cols();
  const support::plain<bf16> x(values, values.size() / k, k);
  const support::plain_bound bound(model::unquantized_side(x.values, x.rows, k, F::block_size), model::side_of(w));
  for (const std::size_t m : {std::size_t{1}, std::size_t{16}, std::size_t{33}, x.rows})
    for (const std::size_t n : {std::size_t{1}, std::size_t{17}, std::size_t{33}, w.rows()}) {
      CAPTURE(m, n, k);
      const auto a = row_range(x.view(), 0, m);
      const auto b = first_rows(w, n);
      const std::vector<float> c = product(emulated_products, a, b, {});
      REQUIRE(bound.broken_by(c, n) == "");
      REQUIRE(product(emulated_products, a, prepack(b), {}) == c);
      REQUIRE(product(emulated_products, a, b, {}, 32) == c);
    }
}

}  // namespace

TEST_CASE("plain bf16 rows on tiles keep the bound of fast, prepacked and in other pieces with the same bits",
          "[amx]") {
  if (!has(cpu::isa::avx512_bf16)) return support::skip(no_avx512_bf16);
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(21)};
  const auto check = [&]<class F>(F, model::scales kind) {
    for (const std::size_t k : {F::block_size, std::size_t{48}, std::size_t{530}, std::size_t{1040}})
      check_plain(model::wide_floats(gen, 70 * k, 6), model::random_quantized<F>(gen, 66, k, kind, 0x1.3p-3f));
  };
  check(nvfp4{}, model::scales::ordinary);
  check(nvfp4{}, model::scales::hostile);
  check(mxfp4{}, model::scales::ordinary);
  check(block_format<ufp4::int4, ue5m3, 128>{}, model::scales::ordinary);
  check(block_format<fp4<E2M1>, e4m3, square(16), float>{}, model::scales::ordinary);
}

TEST_CASE("plain rows or scales that tiles would flush go to another kernel", "[amx]") {
  if (!has(cpu::isa::avx512_bf16)) return support::skip(no_avx512_bf16);
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(22)};
  std::vector<float> x = model::wide_floats(gen, 70 * 100);
  for (std::size_t i = 0; i < 20 * 100; ++i) x[i] = i % 7 == 0 ? 0x1p-130f : i % 3 == 0 ? 0x1p-126f : 0.0f;
  auto w = model::random_quantized<mxfp4>(gen, 66, 100);
  for (std::size_t i = 0; i < w.scales().size(); ++i) w.scales()[i] = e8m0::from_bits(i < 80 ? 200 : 127);
  check_plain(x, w);
  for (std::size_t i = 0; i < w.scales().size(); i += 5) w.scales()[i] = e8m0::from_bits(0);
  check_plain(x, w);
}

TEST_CASE("NaN and infinities of plain rows on tiles give the results of the scalar kernel", "[amx]") {
  if (!has(cpu::isa::avx512_bf16)) return support::skip(no_avx512_bf16);
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(23)};
  std::vector<float> x = model::wide_floats(gen, 20 * 64);
  x[5] = NAN, x[64 + 3] = INFINITY, x[128] = -INFINITY, x[3 * 64] = 3e38f, x[3 * 64 + 1] = 3e38f;
  const support::plain<bf16> a(x, 20, 64);
  auto b = model::random_quantized<nvfp4>(gen, 34, 64);
  b.scales()[9] = e4m3::from_bits(0x7F);
  const std::vector<float> c = product(emulated_products, a.view(), b, {}), want = scalar_product(a.view(), b, {});
  for (std::size_t i = 0; i < c.size(); ++i) {
    CAPTURE(i, c[i], want[i]);
    REQUIRE(std::isnan(c[i]) == std::isnan(want[i]));
    REQUIRE(std::isinf(c[i]) == std::isinf(want[i]));
  }
}

// ---- Which jobs the kernels take.

TEST_CASE("the AMX kernels take what they can compute, and leave few rows to others", "[amx]") {
  if (!has(cpu::isa::avx512)) return support::skip(no_avx512);
  const auto taken = []<class A, class B>(std::size_t m, const A&, const B&, accumulate mode, std::size_t cols = 256) {
    const quantized_matrix<A> a(m, 64);
    const quantized_matrix<B> b(cols, 64);
    const auto job = detail::gemm_job_of(a, b, {}, {.accumulate = mode});
    return std::string(kernels::amx::gemm_bf16_kernel<>.takes(job) ? "products" : "") +
           (kernels::amx::gemm_blocks_kernel<>.takes(job) ? "blocks" : "");
  };
  constexpr accumulate fast = accumulate::fast, exact = accumulate::exact_blocks, folded = accumulate::folded_bf16;
  CHECK(taken(16, nvfp4{}, nvint4{}, fast) == "productsblocks");
  CHECK(taken(16, mxfp4{}, mx_e1m2{}, fast) == "productsblocks");
  CHECK(taken(9, mxfp4{}, mx_e1m2{}, fast) == "productsblocks");
  CHECK(taken(8, mxfp4{}, mx_e1m2{}, fast).empty());
  CHECK(taken(16, mxfp4{}, mx_e1m2{}, fast, 127) == "blocks");  // less than 2^17 products of elements
  CHECK(taken(4, nvfp4{}, e1m2_f32{}, folded) == "products");   // which gemm_int8_avx512 does not take
  CHECK(taken(3, nvfp4{}, e1m2_f32{}, folded).empty());
  CHECK(taken(16, nvfp4{}, nvint4{}, exact) == "blocks");
  CHECK(taken(8, nvfp4{}, nvint4{}, exact).empty());
  CHECK(taken(16, nvfp4{}, e1m2_f32{}, fast) == "blocks");  // binary32 scales: exact_blocks is the fast kernel
  CHECK(taken(16, nvfp4{}, e1m2_f32{}, folded) == "products");
  CHECK(taken(16, block_format<fp4<E2M1>, ufp4::bf16, 16>{}, nvfp4{}, fast) == "blocks");
  CHECK(taken(16, mxint8{}, mxfp4{}, fast) == "productsblocks");
  CHECK(taken(16, int8_f32{}, nvfp4{}, fast) == "blocks");
  CHECK(taken(16, block_format<ufp4::int8, e4m3, 16>{}, nvfp4{}, fast) == "blocks");  // 7 bits by 4 do not fit bf16
  CHECK(taken(16, block_format<nf4, float, 16>{}, nvfp4{}, exact).empty());
  CHECK(taken(16, block_format<nf4, e4m3, 16>{}, nvfp4{}, fast).empty());
  CHECK(taken(16, block_format<nf4, float, 16>{}, nvfp4{}, folded) == "products");
  CHECK(taken(16, block_format<fp4<E2M1>, e4m3, 8>{}, block_format<fp4<E2M1>, e4m3, 8>{}, fast).empty());

  const auto plain = []<class T, class B>(T, std::size_t m, const B&, accumulate mode) {
    static const std::vector<T> one(1);
    const quantized_matrix<B> b(40, 64);
    const auto job = detail::gemm_job_of(matrix_view<const T>{one.data(), m, 64}, b, {}, {.accumulate = mode});
    return kernels::amx::gemm_bf16_kernel<>.takes(job) && !kernels::amx::gemm_blocks_kernel<>.takes(job);
  };
  CHECK(plain(bf16{}, 4, nvfp4{}, fast));
  CHECK(plain(bf16{}, 16, mxfp4{}, fast));
  CHECK_FALSE(plain(bf16{}, 3, nvfp4{}, fast));
  CHECK_FALSE(plain(bf16{}, 16, nvfp4{}, exact));
  CHECK_FALSE(plain(bf16{}, 16, nvfp4{}, folded));
  CHECK_FALSE(plain(bf16{}, 16, e1m2_f32{}, fast));
  CHECK_FALSE(plain(bf16{}, 16, mxint8{}, fast));
  CHECK_FALSE(plain(fp16{}, 16, nvfp4{}, fast));
  CHECK_FALSE(plain(float{}, 16, nvfp4{}, fast));
}

// ---- The processor's tiles.

TEST_CASE("a machine without the amx tier gives the reason", "[amx]") {
  const std::string why = cpu::amx_rejection();
  CHECK(why.empty() == has(cpu::isa::amx));
  CHECK((why.empty() || why == "not present" || why.rfind("present, but ", 0) == 0));
}

TEST_CASE("the processor's tiles give the bits of the emulated ones", "[amx]") {
  if (!has(cpu::isa::amx)) return support::skip("AMX: " + std::string(cpu::amx_rejection()));
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(12)};
  const auto compare = [&]<class A, class B>(const A& a, const B& b, accumulate mode) {
    const bool exact = mode == accumulate::exact_blocks;
    const gemm_kernel& here = exact ? kernels::amx::gemm_blocks_kernel<> : kernels::amx::gemm_bf16_kernel<>;
    REQUIRE(support::same_numbers(product(here, a, b, {.accumulate = mode}),
                                  product(exact ? emulated_blocks : emulated_products, a, b, {.accumulate = mode})));
  };
  for (const model::scales kind : {model::scales::ordinary, model::scales::hostile})
    for (const std::size_t k : {16u, 48u, 64u, 530u}) {
      const auto rows = [&] { return static_cast<std::size_t>(1 + gen() % 70); };
      compare(model::random_quantized<nvfp4>(gen, rows(), k, kind),
              model::random_quantized<nvint4>(gen, rows(), k, kind), accumulate::fast);
      compare(model::random_quantized<mxfp4>(gen, rows(), k, kind),
              model::random_quantized<mx_e1m2>(gen, rows(), k, kind), accumulate::fast);
      compare(model::random_quantized<e1m2_f32>(gen, rows(), k), model::random_quantized<nvfp4>(gen, rows(), k),
              accumulate::folded_bf16);
      compare(model::random_quantized<e1m2_f32>(gen, rows(), k, kind),
              model::random_quantized<nvfp4>(gen, rows(), k, kind), accumulate::exact_blocks);
      compare(model::random_quantized<mxfp4>(gen, rows(), k, kind),
              model::random_quantized<mx_e1m2>(gen, rows(), k, kind), accumulate::exact_blocks);
    }
}

#else

TEST_CASE("the AMX kernels are for x86-64", "[amx]") { support::skip("this is no x86-64 machine"); }

#endif
