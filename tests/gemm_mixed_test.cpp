// ufp4 - quantized_gemm with one operand that is not quantized: the chain of numerics 6, and fast within its bound.
// SPDX-License-Identifier: Apache-2.0
// ctest: bits
#include <ufp4/gemm.hpp>

#include "support/catch.hpp"
#include "support/gemm_model.hpp"
#include "support/poison.hpp"
#include "support/seed.hpp"
#include "support/threads.hpp"

#include <string>
#include <vector>

using namespace ufp4;

namespace {

constexpr gemm_options exactly{.accumulate = accumulate::exact_blocks};

/// A matrix of a caller's type, and its values for the model.
template <class T>
struct plain {
  std::size_t rows, cols;
  std::vector<T> data;
  std::vector<float> values;

  plain(std::mt19937_64& gen, std::size_t r, std::size_t c) : rows(r), cols(c) {
    for (const float x : model::wide_floats(gen, r * c, 6)) {
      data.push_back(T(x));
      values.push_back(model::output_value(data.back()));
    }
  }
  matrix_view<const T> view() const { return {data.data(), rows, cols}; }
};

template <class Left, class Right>
void check(const Left& a, const Right& b, const model::side& left, const model::side& right) {
  const std::size_t m = left.rows, n = right.rows;
  support::guarded<float> c(m * n);
  const matrix_view<float> out{c.data(), m, n};
  quantized_gemm(a, b, out, exactly);
  const std::vector<float> expected = model::exact_blocks(left, right);
  bool equal = true;
  for (std::size_t i = 0; i < m * n; ++i) equal = equal && support::same_number(c[i], expected[i]);
  REQUIRE(equal);

  // fast: operands stay binary32, |C - E| within (Kp + 6) 2^-24 of the sum of magnitudes.
  quantized_gemm(a, b, out);
  const model::bounded exact = model::extended(left, right);
  const long double relative = static_cast<long double>(left.padded + 6) * 0x1p-24L;
  for (std::size_t i = 0; i < m * n; ++i)
    REQUIRE(std::abs(static_cast<long double>(c[i]) - exact.value[i]) <= relative * exact.magnitude[i] + 0x1p-126L);
  REQUIRE(c.guards_intact());
}

template <class F, class T>
void check_type() {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(sizeof(T) + F::block_size)};
  for (const std::size_t k : {0u, 1u, 16u, 33u, 200u, 530u}) {
    CAPTURE(k);
    const plain<T> x(gen, 66, k), w(gen, 5, k);
    const auto qx = model::random_quantized<F>(gen, 66, k, model::scales::ordinary, 0x1.3p-3f);
    const auto qw = model::random_quantized<F>(gen, 5, k, model::scales::ordinary, 0x1.3p-3f);
    check(x.view(), qw, model::unquantized_side(x.values, 66, k, F::block_size), model::side_of(qw));
    check(qx, w.view(), model::side_of(qx), model::unquantized_side(w.values, 5, k, F::block_size));
    check(unquantized(x.view()), qw, model::unquantized_side(x.values, 66, k, F::block_size), model::side_of(qw));
  }
}

}  // namespace

TEST_CASE("a plain matrix on either side is multiplied by the chain of fma", "[gemm]") {
  SECTION("float against e1m2_f32") { check_type<e1m2_f32, float>(); }
  SECTION("bf16 against nvfp4") { check_type<nvfp4, ufp4::bf16>(); }
  SECTION("fp16 against mxfp4") { check_type<mxfp4, ufp4::fp16>(); }
  SECTION("float against mxint4") { check_type<mxint4, float>(); }
}

TEST_CASE("a plain matrix takes the other side's transform in binary32", "[gemm]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(1)};
  const auto each = [&]<class T>(T, const auto& h, std::size_t k) {
    CAPTURE(k);
    const plain<T> x(gen, 65, k), w(gen, 9, k);
    const auto qw = quantize<e1m2_f32>(w.view(), h);
    const auto qx = quantize<nvfp4>(x.view(), h);
    check(unquantized(x.view(), h), qw, model::unquantized_side(x.values, 65, k, 16, model::transform_of(h.spec())),
          model::side_of(qw));
    check(qx, unquantized(w.view(), h), model::side_of(qx),
          model::unquantized_side(w.values, 9, k, 16, model::transform_of(h.spec())));
  };
  for (const std::size_t k : {1u, 16u, 100u, 520u}) {
    each(float{}, random_hadamard<16>{3}, k);
    each(ufp4::bf16{}, hadamard<32>{}, k);
    each(ufp4::fp16{}, random_hadamard<256>{9}, k);
    each(float{}, signed_hadamard<16>(compat::transformer_engine_signs).to_bf16(), k);
  }
}

TEST_CASE("the chain runs in index order from +0, unscaled, one fma an element", "[gemm]") {
  // 2^24 + 1 + 1 + ...: each 1 is lost when it comes after the large one, none when before.
  std::vector<float> x(16, 1.0f);
  quantized_matrix<int4_f32> ones(1, 16);
  for (auto& byte : ones.codes()) byte = 0x11;
  ones.scales()[0] = 1.0f;
  float c = 0;
  const auto product = [&] {
    quantized_gemm(matrix_view<const float>{x.data(), 1, 16}, ones, matrix_view<float>{&c, 1, 1}, exactly);
    return c;
  };
  x[0] = 0x1p24f;
  CHECK(product() == 0x1p24f);
  x[0] = 1, x[15] = 0x1p24f;
  CHECK(product() == 0x1p24f + 16.0f);  // 15 is odd and ties: to the even 16
  x[15] = 1, x[7] = 0x1p24f;
  CHECK(product() == 0x1p24f + 8.0f);  // 7 ties to 8, then eight ones are lost

  // 7 - 7 (1 + 2^-23) = -7 * 2^-23; the product rounded on its own would give -8 * 2^-23.
  for (float& v : x) v = 0;
  x[0] = 7;
  x[1] = -0x1.000002p0f;
  ones.codes()[0] = 0x71;
  CHECK(product() == -7 * 0x1p-23f);
}

TEST_CASE("NaN and Inf in a plain matrix spread as in arithmetic", "[gemm]") {
  std::vector<float> x(3 * 16, 1.0f);
  x[5] = NAN;
  x[16 + 3] = INFINITY;
  x[16 + 4] = 1;
  quantized_matrix<e1m2_f32> w(1, 16);
  for (auto& byte : w.codes()) byte = 0x44;
  w.scales()[0] = 2.0f;
  for (const accumulate mode : {accumulate::fast, accumulate::exact_blocks}) {
    std::vector<float> c(3);
    quantized_gemm(matrix_view<const float>{x.data(), 3, 16}, w, matrix_view<float>{c.data(), 3, 1},
                   {.accumulate = mode});
    CHECK(std::isnan(c[0]));
    CHECK(c[1] == INFINITY);
    CHECK(c[2] == 32.0f);
  }
}

TEST_CASE("strided and transposed plain matrices are read where they lie", "[gemm]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(2)};
  const plain<float> x(gen, 70, 40);
  const auto w = model::random_quantized<e1m2_f32>(gen, 6, 40);
  std::vector<float> packed(70 * 6), strided(70 * 6), transposed(70 * 41 + 1);
  quantized_gemm(x.view(), w, matrix_view<float>{packed.data(), 70, 6}, exactly);
  for (std::size_t i = 0; i < 70; ++i)
    for (std::size_t k = 0; k < 40; ++k) transposed[1 + k * 70 + i] = x.data[i * 40 + k];
  quantized_gemm(transpose(matrix_view<const float>{transposed.data() + 1, 40, 70}), w,
                 matrix_view<float>{strided.data(), 70, 6}, exactly);
  REQUIRE(strided == packed);
}

TEST_CASE("plain operands give the same bits on every tier, thread count and executor", "[gemm]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(3)};
  const plain<ufp4::bf16> x(gen, 130, 540);
  const auto w = model::random_quantized<nvfp4>(gen, 70, 540);
  const std::vector<float> expected =
      model::exact_blocks(model::unquantized_side(x.values, 130, 540, 16), model::side_of(w));
  support::on_every_context([&](const cpu::context& context) {
    support::guarded<float> c(130 * 70);
    quantized_gemm(x.view(), w, matrix_view<float>{c.data(), 130, 70}, exactly, context);
    REQUIRE(c.same_bytes(expected));
  });
}
