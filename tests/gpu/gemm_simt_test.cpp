// ufp4 - gemm_simt: the host's bits for every pair of formats, unquantized operands, every mode, on any architecture.
// SPDX-License-Identifier: Apache-2.0
// ctest: amd
#include "gpu/gemm_check.hpp"

#include <ufp4/gpu/kernels/gemm_simt.hpp>

#include "format/user_tables.hpp"
#include "support/format_pairs.hpp"
#include "support/hostile.hpp"
#include "support/seed.hpp"

#include <cmath>

using namespace ufp4;
using support::against_host;
using support::exactly;

namespace {

const gpu::gemm_kernel& kernel = gpu::kernels::gemm_simt<>;

using support::nf4_f32, support::nf4_mx;

/// A user-defined grid whose unit times another's is no binary32 number.
struct tiny {
  std::uint8_t code = 0;
  tiny() = default;
  UFP4_MEMBER constexpr explicit tiny(float x) : code(x > 0 ? 1 : 0) {}
  UFP4_MEMBER static constexpr tiny from_bits(std::uint8_t bits) {
    tiny t;
    t.code = bits;
    return t;
  }
  UFP4_MEMBER constexpr std::uint8_t bits() const { return code; }
  UFP4_MEMBER constexpr explicit operator float() const { return static_cast<float>(code) * 0x1p-80f; }
  UFP4_MEMBER static constexpr float(max)() { return 0x1p-80f; }
};
static_assert(element_format<tiny>);

/// An unquantized matrix against a quantized one, on either side, by the chain of section 6.
template <class T, class F>
void check_plain(const char* name, const transform_spec& t, std::size_t cols) {
  INFO(support::seed_note());
  CAPTURE(name, t.n, cols);
  support::hostile source(support::seed(cols));
  const std::vector<T> x = support::elements<T>(source.values(19 * cols, false, false));
  std::mt19937_64 gen{support::seed(7)};
  const auto w = quantize<F>(matrix_view<const float>{model::wide_floats(gen, 21 * cols).data(), 21, cols}, t);
  const gpu::quantized_matrix<F> there{w.view()};
  const gpu::buffer<T> dx{std::span<const T>(x)};
  const auto host = unquantized(matrix_view<const T>{x.data(), 19, cols}, t);
  const auto device = unquantized(matrix_view<const T>{dx.data(), 19, cols}, t);
  CHECK(against_host<float>(kernel, host, w, device, there, 19, 21, exactly) == "");
  CHECK(against_host<float>(kernel, w, host, there, device, 21, 19, exactly) == "");
}

}  // namespace

TEST_CASE("the kernel for any architecture gives the host's bits for every kind of format", "[gpu]") {
  support::all_kinds_of_pairs(
      []<class Pair>(Pair) { support::check_exact_pair<typename Pair::left, typename Pair::right>(kernel, 150, 31); });
}

TEST_CASE("a dot product below the smallest float is rounded as the host rounds it", "[gpu]") {
  using tiny_f32 = block_format<tiny, float, 16>;
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(1)};
  quantized_matrix<tiny_f32> a(5, 32), b(6, 32);
  for (auto* q : {&a, &b}) {
    for (auto& byte : q->codes()) byte = static_cast<std::uint8_t>(gen());
    for (auto& scale : q->scales()) scale = 0x1p10f;
  }
  CHECK(against_host(kernel, a, b) == "");
}

TEST_CASE("fast products of grids below 2^-40 and above 2^10 are those of binary64", "[gpu]") {
  using small = block_format<format_tests::multiples_of<-140>, float, 16>;
  using large = block_format<format_tests::multiples_of<120>, float, 16>;
  matrix<float> x(3, 64);
  for (std::size_t k = 0; k < 64; ++k)
    for (std::size_t i = 0; i < 3; ++i) x(i, k) = static_cast<float>((k * (i + 3)) % 13) - 6;
  const auto check = [&](const auto& a, const auto& b) {
    const matrix<float> left = dequantize<float>(a), right = dequantize<float>(b);
    const std::vector<float> got = support::product_of(kernel, a, b);
    for (std::size_t i = 0; i < 9; ++i) {
      double sum = 0;
      for (std::size_t k = 0; k < 64; ++k)
        sum += static_cast<double>(left(i / 3, k)) * static_cast<double>(right(i % 3, k));
      REQUIRE(std::abs(static_cast<double>(got[i]) - sum) <= 1e-6 * std::abs(sum) + 1e-4);
    }
  };
  check(quantize<small>(x), quantize<small>(x));
  check(quantize<large>(x), quantize<large>(x));
}

TEST_CASE("every number of rows, columns and blocks gives the same bits in every order of threads and blocks",
          "[gpu]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(2)};
  for (const std::size_t k : {0u, 1u, 16u, 33u, 97u}) {
    const std::size_t m = 1 + k * 7 % 130, n = 1 + k * 5 % 67;
    CAPTURE(k, m, n);
    const auto a = model::random_quantized<nvfp4>(gen, m, k);
    const auto b = model::random_quantized<nf4_f32>(gen, n, k);
    support::in_every_order([&](const std::string& order) {
      CAPTURE(order);
      REQUIRE(against_host(kernel, a, b) == "");
    });
  }
}

TEST_CASE("a plain operand is multiplied without quantization, after the transform of the other side", "[gpu]") {
  for (const std::size_t cols : {1u, 40u, 64u, 300u}) {
    check_plain<float, e1m2_f32>("float x e1m2_f32", {}, cols);
    check_plain<ufp4::bf16, nvfp4>("bf16 x nvfp4", random_hadamard<16>{3}.spec(), cols);
    check_plain<ufp4::fp16, mxfp4>("fp16 x mxfp4", random_hadamard<128>{4}.to_bf16().spec(), cols);
    check_plain<float, nf4_mx>("float x nf4", hadamard<256>{}.spec(), cols);
  }
}

TEST_CASE("two plain operands are rounded to bf16 for the bf16 recipe", "[gpu]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(3)};
  const std::size_t m = 9, n = 10, k = 40;
  const std::vector<float> x = model::wide_floats(gen, m * k), w = model::wide_floats(gen, n * k);
  const gpu::buffer<float> dx{std::span<const float>(x)}, dw{std::span<const float>(w)}, dc(m * n);
  gpu::gemm_job job;
  const auto side = [&](const gpu::buffer<float>& from, std::size_t rows) {
    gpu::gemm_side s;
    s.is_quantized = false;
    s.rounds_unquantized_to_bf16 = true;
    s.unquantized = ufp4::detail::source_of(matrix_view<const float>{from.data(), rows, k});
    s.rows = rows;
    s.cols = k;
    s.padded_cols = 48;
    return s;
  };
  job.left = side(dx, m);
  job.right = side(dw, n);
  job.out = ufp4::detail::sink_of(matrix_view<float>{dc.data(), m, n});
  job.mode = accumulate::exact_blocks;
  gpu::device_facts device;
  REQUIRE(gpu::facts(device) == gpu::success);
  REQUIRE(kernel.run(job, device, {}, gpu::stream{}) == gpu::success);
  const auto rounded = [](float v) { return model::from_bf16(model::bf16_bits(v)); };
  const std::vector<float> got = support::on_host(dc);
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t j = 0; j < n; ++j) {
      float acc = 0;
      for (std::size_t first = 0; first < k; first += 16) {
        float d = 0;
        for (std::size_t e = first; e < first + 16 && e < k; ++e)
          d = std::fma(rounded(x[i * k + e]), rounded(w[j * k + e]), d);
        acc = acc + d;
      }
      REQUIRE(support::same_number(got[i * n + j], acc));
    }
}

TEST_CASE("folded_bf16 keeps its bound", "[gpu]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(4)};
  const std::size_t k = 200;
  const auto a = model::random_quantized<e1m2_f32>(gen, 20, k);
  const auto b = model::random_quantized<nvfp4>(gen, 21, k, model::scales::ordinary, 0.3f);
  const gpu::quantized_matrix<e1m2_f32> da{a.view()};
  const gpu::quantized_matrix<nvfp4> db{b.view()};
  const gpu::buffer<float> c(20 * 21);
  gpu::device_facts device;
  REQUIRE(gpu::facts(device) == gpu::success);
  const auto call =
      gpu::detail::call_of(da.view(), db.view(), ufp4::detail::sink_of(matrix_view<float>{c.data(), 20, 21}),
                           {.accumulate = accumulate::folded_bf16}, {});
  REQUIRE(kernel.run(call.job, device, {}, gpu::stream{}) == gpu::success);
  const std::vector<float> got = support::on_host(c);
  const model::bounded want = model::extended(model::side_of(a), model::side_of(b));
  const model::wide relative = 0x1p-8L + static_cast<model::wide>(a.padded_cols() + 6) * 0x1p-24L;
  for (std::size_t i = 0; i < got.size(); ++i)
    REQUIRE(std::abs(static_cast<model::wide>(got[i]) - want.value[i]) <= relative * want.magnitude[i]);
}
