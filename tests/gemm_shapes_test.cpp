// ufp4 - quantized_gemm: every tail, stride, output type, alpha and beta; on the fly as quantized before.
// SPDX-License-Identifier: Apache-2.0
// ctest: bits
#include <ufp4/gemm.hpp>

#include "support/catch.hpp"
#include "support/gemm_model.hpp"
#include "support/poison.hpp"
#include "support/seed.hpp"

#include <vector>

using namespace ufp4;

namespace {

constexpr gemm_options exactly{.accumulate = accumulate::exact_blocks};
const cpu::context one_thread{.threads = 1};

/// What the model gives, in C's type.
template <class T>
void require_equal(const support::guarded<T>& c, const std::vector<float>& expected) {
  REQUIRE(c.size() == expected.size());
  bool equal = true;
  for (std::size_t i = 0; i < c.size(); ++i)
    equal = equal && support::same_number(model::output_value(c[i]), model::as_output<T>(expected[i]));
  REQUIRE(equal);
  REQUIRE(c.guards_intact());
}

template <class A, class B>
std::vector<float> modelled(const quantized_matrix<A>& a, const quantized_matrix<B>& b, float alpha = 1, float beta = 0,
                            const std::vector<float>& c = {}) {
  return model::exact_blocks(model::side_of(a), model::side_of(b), alpha, beta, c);
}

template <class A, class B>
void check(const quantized_matrix<A>& a, const quantized_matrix<B>& b) {
  CAPTURE(a.rows(), b.rows(), a.cols());
  support::guarded<float> c(a.rows() * b.rows());
  quantized_gemm(a, b, matrix_view<float>{c.data(), a.rows(), b.rows()}, exactly, one_thread);
  require_equal(c, modelled(a, b));
}

}  // namespace

TEST_CASE("every number of rows and of columns up to 130 is multiplied whole, with nothing beside it", "[gemm]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(0)};
  const auto one = model::random_quantized<nv_e1m2>(gen, 1, 40), tall = model::random_quantized<nv_e1m2>(gen, 65, 40);
  for (std::size_t n = 0; n <= 130; ++n) {
    const auto other = model::random_quantized<e2m1_f32>(gen, n, 40);
    check(one, other);
    check(other, one);
    check(tall, other);
    check(other, tall);
  }
  for (const std::size_t m : {63u, 64u, 127u, 128u, 129u})
    for (const std::size_t n : {63u, 64u, 127u, 128u, 129u})
      check(model::random_quantized<mxfp4>(gen, m, 33), model::random_quantized<mxint4>(gen, n, 33));
}

TEST_CASE("every K up to two blocks and one, and around a panel of 512, is summed whole", "[gemm]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(1)};
  for (std::size_t k = 0; k <= 65; ++k) {
    check(model::random_quantized<e1m2_f32>(gen, 3, k), model::random_quantized<nvfp4>(gen, 5, k));
    check(model::random_quantized<mxfp4>(gen, 5, k), model::random_quantized<mx_e1m2>(gen, 3, k));
  }
  for (const std::size_t k : {495u, 496u, 511u, 512u, 513u, 528u, 529u, 1023u, 1024u, 1025u, 1600u}) {
    check(model::random_quantized<e1m2_f32>(gen, 66, k), model::random_quantized<int4_f32>(gen, 2, k));
    check(model::random_quantized<mxint4>(gen, 2, k), model::random_quantized<mxfp4>(gen, 66, k));
    check(model::random_quantized<block_format<fp4<E2M1>, e8m0, 256>>(gen, 3, k),
          model::random_quantized<block_format<fp4<E3M0>, e4m3, 256>>(gen, 4, k));
  }
}

TEST_CASE("ragged K after a transform is multiplied in its padding too", "[gemm]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(2)};
  for (const std::size_t k : {1u, 17u, 100u, 127u, 129u, 600u}) {
    CAPTURE(k);
    const std::vector<float> x = model::wide_floats(gen, 6 * k), w = model::wide_floats(gen, 7 * k);
    const matrix_view<const float> xv{x.data(), 6, k}, wv{w.data(), 7, k};
    const random_hadamard<128> h{support::seed(3)};
    const auto qx = quantize<e1m2_f32>(xv, h);
    const auto qw = quantize<nvfp4>(wv, h);
    REQUIRE(qx.padded_cols() == (k + 127) / 128 * 128);
    check(qx, qw);
  }
}

TEST_CASE("K = 0 gives +0, or beta * C; M = 0 or N = 0 does nothing", "[gemm]") {
  const quantized_matrix<nvfp4> a(3, 0), b(2, 0);
  for (const accumulate mode : {accumulate::fast, accumulate::exact_blocks, accumulate::folded_bf16}) {
    support::guarded<float> c(6);
    quantized_gemm(a, b, matrix_view<float>{c.data(), 3, 2}, {.accumulate = mode});
    require_equal(c, std::vector<float>(6, 0.0f));
    // fl(fl(+0 * TA) * fl(alpha * TB)) is -0 under a negative alpha.
    quantized_gemm(a, b, matrix_view<float>{c.data(), 3, 2}, {.alpha = -1, .accumulate = mode});
    require_equal(c, std::vector<float>(6, -0.0f));
    for (float& x : c) x = 3;
    quantized_gemm(a, b, matrix_view<float>{c.data(), 3, 2}, {.beta = -2.5f, .accumulate = mode});
    require_equal(c, std::vector<float>(6, -7.5f));
  }
  const quantized_matrix<nvfp4> none(0, 40), some(2, 40);
  quantized_gemm(none, some, matrix_view<float>{nullptr, 0, 2});
  quantized_gemm(some, none, matrix_view<float>{nullptr, 2, 0});
  quantized_gemm(none, none, matrix_view<float>{nullptr, 0, 0}, {.beta = 1});
}

TEST_CASE("alpha and beta enter where numerics 6 says; C is read only if beta is not 0", "[gemm]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(4)};
  const std::size_t m = 67, n = 70;
  const auto a = model::random_quantized<nvfp4>(gen, m, 90, model::scales::ordinary, 0x1.9p-5f);
  const auto b = model::random_quantized<nvint4>(gen, n, 90, model::scales::ordinary, 0x1.2345p-9f);
  for (const float alpha : {1.0f, 0.0f, -0.0f, -2.5f, 0x1.99999ap-4f, 0x1p126f, INFINITY, NAN})
    for (const float beta : {0.0f, -0.0f, 1.0f, -2.5f, 0x1.99999ap-4f, 0x1p-140f, INFINITY, NAN}) {
      CAPTURE(alpha, beta);
      support::guarded<float> c(m * n);
      const std::vector<float> before = beta == 0 ? std::vector<float>(m * n, NAN) : model::wide_floats(gen, m * n, 20);
      for (std::size_t i = 0; i < m * n; ++i) c[i] = before[i];
      quantized_gemm(a, b, matrix_view<float>{c.data(), m, n},
                     {.alpha = alpha, .beta = beta, .accumulate = accumulate::exact_blocks}, one_thread);
      require_equal(c, modelled(a, b, alpha, beta, before));
    }
}

TEST_CASE("tensor scales round once with acc and once with alpha", "[gemm]") {
  // Directed: acc = 1, TA = TB = alpha = 1 + 2^-23. fl(TA * 1) * fl(alpha * TB) = (1 + u)(1 + 2u) with u = 2^-23, while
  // fl(fl(fl(1 * TA) * TB) * alpha) or one exact product rounded at the end give other bits for other values below.
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(5)};
  std::size_t told_apart = 0;
  for (int trial = 0; trial < 500; ++trial) {
    quantized_matrix<nv_e1m2> a(1, 16), b(1, 16);
    for (auto& byte : a.codes()) byte = 0;
    for (auto& byte : b.codes()) byte = 0;
    a.codes()[3] = 7;
    b.codes()[3] = 7;
    a.scales()[0] = b.scales()[0] = e4m3::from_bits(0x3D);  // 1.625
    const float acc = 1.75f * 1.75f * 1.625f * 1.625f;
    a.set_tensor_scale(1 + static_cast<float>(gen() % 0x800000) * 0x1p-23f);
    b.set_tensor_scale(1 + static_cast<float>(gen() % 0x800000) * 0x1p-23f);
    const float alpha = 1 + static_cast<float>(gen() % 0x800000) * 0x1p-23f;
    float c = 0;
    quantized_gemm(a, b, matrix_view<float>{&c, 1, 1}, {.alpha = alpha, .accumulate = accumulate::exact_blocks});
    const float expected = model::mul(model::mul(acc, a.tensor_scale()), model::mul(alpha, b.tensor_scale()));
    REQUIRE(support::same_number(c, expected));
    const float another = model::mul(model::mul(model::mul(acc, a.tensor_scale()), b.tensor_scale()), alpha);
    told_apart += !support::same_number(expected, another);
  }
  REQUIRE(told_apart > 50);
}

TEST_CASE("C may be float, bf16 or fp16, each rounded once from binary32", "[gemm]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(6)};
  const auto check_type = [&]<class T>(T, float tensor_scale) {
    const auto a = model::random_quantized<nvfp4>(gen, 65, 200, model::scales::ordinary, tensor_scale);
    const auto b = model::random_quantized<nvfp4>(gen, 66, 200, model::scales::ordinary, 0x1.111112p-4f);
    support::guarded<T> c(65 * 66);
    quantized_gemm(a, b, matrix_view<T>{c.data(), 65, 66}, exactly);
    require_equal(c, modelled(a, b));
    std::vector<float> before;  // C is read in its own type
    for (T& x : c) {
      x = T(static_cast<float>(gen() % 2001) / 8.0f - 125.0f);
      before.push_back(model::output_value(x));
    }
    quantized_gemm(a, b, matrix_view<T>{c.data(), 65, 66},
                   {.alpha = 0.3f, .beta = -1.7f, .accumulate = accumulate::exact_blocks});
    require_equal(c, modelled(a, b, 0.3f, -1.7f, before));
  };
  for (const float scale : {1.0f, 0x1.8p+12f, 0x1p-24f, 0x1p-120f, 0x1p120f}) {  // fp16: overflow, subnormals, 0
    check_type(float{}, scale);
    check_type(ufp4::bf16{}, scale);
    check_type(ufp4::fp16{}, scale);
  }
}

TEST_CASE("C may have any strides: what lies between its elements stays", "[gemm]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(7)};
  const std::size_t m = 66, n = 67;
  const auto a = model::random_quantized<mxfp4>(gen, m, 64);
  const auto b = model::random_quantized<mxint4>(gen, n, 64);
  const std::vector<float> expected = modelled(a, b);
  struct layout {
    const char* name;
    std::ptrdiff_t row, col, first;
    std::size_t size;
  };
  const auto rows = static_cast<std::ptrdiff_t>(m), cols = static_cast<std::ptrdiff_t>(n);
  for (const layout& l :
       {layout{"packed", cols, 1, 0, m * n}, layout{"transposed", 1, rows, 0, m * n},
        layout{"wider rows", cols + 5, 1, 0, m * (n + 5)}, layout{"every third", 3 * cols + 1, 3, 0, m * (3 * n + 1)},
        layout{"upside down", -cols, 1, (rows - 1) * cols, m * n},
        layout{"mirrored", 2 * cols, -2, 2 * (cols - 1), 2 * m * n}}) {
    for (const float beta : {0.0f, -2.5f}) {
      CAPTURE(l.name, beta);
      support::guarded<float> c(l.size);
      const float untouched = model::float_of(0x7FABCDEF);
      for (float& x : c) x = untouched;
      const matrix_view<float> view{c.data() + l.first, m, n, l.row, l.col};
      std::vector<float> before(m * n);
      std::vector<bool> element(l.size);
      for (std::size_t i = 0; i < m; ++i)
        for (std::size_t j = 0; j < n; ++j) {
          if (beta != 0) view(i, j) = before[i * n + j] = static_cast<float>(i) - 0.5f * static_cast<float>(j);
          element[static_cast<std::size_t>(&view(i, j) - c.data())] = true;
        }
      quantized_gemm(a, b, view, {.beta = beta, .accumulate = accumulate::exact_blocks});
      const std::vector<float> now = beta == 0 ? expected : modelled(a, b, 1, beta, before);
      bool equal = true, kept = true;
      for (std::size_t i = 0; i < m; ++i)
        for (std::size_t j = 0; j < n; ++j) equal = equal && support::same_number(view(i, j), now[i * n + j]);
      for (std::size_t i = 0; i < l.size; ++i)
        kept = kept && (element[i] || model::bits_of(c[i]) == model::bits_of(untouched));
      REQUIRE(equal);
      REQUIRE(kept);
      REQUIRE(c.guards_intact());
    }
  }
}

TEST_CASE("every element of C is written, whatever it held", "[gemm]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(8)};
  const auto a = model::random_quantized<nvfp4>(gen, 130, 48), b = model::random_quantized<nvfp4>(gen, 75, 48);
  for (const accumulate mode : {accumulate::fast, accumulate::exact_blocks, accumulate::folded_bf16}) {
    support::guarded<float> c(130 * 75, 0, 0xFF), again(130 * 75, 3, 0x3C);
    quantized_gemm(a, b, matrix_view<float>{c.data(), 130, 75}, {.accumulate = mode});
    quantized_gemm(a, b, matrix_view<float>{again.data(), 130, 75}, {.accumulate = mode});
    REQUIRE(c.same_bytes(again.span()));
  }
}

TEST_CASE("an operand on the fly gives the bits of one quantized before", "[gemm]") {
  INFO(support::seed_note());
  std::mt19937_64 gen{support::seed(9)};
  const std::size_t m = 65, n = 37, k = 150;
  const std::vector<float> xs = model::wide_floats(gen, m * k), ws = model::wide_floats(gen, n * k);
  const matrix_view<const float> x{xs.data(), m, k}, w{ws.data(), n, k};
  const auto check_both = [&](const auto& qa, const auto& ra, const auto& qb, const auto& rb) {
    for (const accumulate mode : {accumulate::fast, accumulate::exact_blocks, accumulate::folded_bf16}) {
      const gemm_options options{.alpha = 0.7f, .accumulate = mode};
      support::guarded<float> before(m * n), fly(m * n), left(m * n), right(m * n);
      quantized_gemm(qa, qb, matrix_view<float>{before.data(), m, n}, options);
      quantized_gemm(ra, rb, matrix_view<float>{fly.data(), m, n}, options);
      quantized_gemm(ra, qb.view(), matrix_view<float>{left.data(), m, n}, options);
      quantized_gemm(qa.view(), rb, matrix_view<float>{right.data(), m, n}, options);
      REQUIRE(fly.same_bytes(before.span()));
      REQUIRE(left.same_bytes(before.span()));
      REQUIRE(right.same_bytes(before.span()));
    }
  };
  const random_hadamard<32> h{17};
  const stochastic s{.seed = 5, .stream = 1}, other{.seed = 5, .stream = 2};
  check_both(quantize<e1m2_f32>(x, h, s), operand<e1m2_f32>(x, h, s), quantize<nvfp4>(w, h, other, scale_up{}),
             operand<nvfp4>(w, h, other, scale_up{}));
  check_both(quantize<mxfp4>(x, mx_ceil{}, toward_zero{}), operand<mxfp4>(x, mx_ceil{}, toward_zero{}),
             quantize<mxint4>(w, mse_search{}), operand<mxint4>(w, mse_search{}));
  check_both(quantize<nvfp4>(x, four_over_six{}, tensor_amax{99.0f}),
             operand<nvfp4>(x, four_over_six{}, tensor_amax{99.0f}), quantize<nvint4>(w, nearest_away{}),
             operand<nvint4>(w, nearest_away{}));
  quantize_report before, fly;
  std::vector<float> c(m * m);
  const auto q = quantize<mxfp4>(x, count_into{before});
  quantized_gemm(operand<mxfp4>(x, count_into{fly}), q, matrix_view<float>{c.data(), m, m});
  REQUIRE(before.saturated > 0);
  REQUIRE(fly == before);
}
